//! Requests for numbered keys of 16 bytes, or numbered elements of 14 bytes. A request is encoded
//! once, and only the number is overwritten for each key.

use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::load::{Driver, Load, Next, Shape};
use crate::protocol::{Answer, Protocol};
use std::time::{Duration, Instant};
use trace::Random;

/// Forms of a numbered argument: `key:` and twelve digits, or `elem:` and nine.
const NUMBERED: [(&[u8], &[u8]); 2] = [
    (b"{key}", b"key:############"),
    (b"{element}", b"elem:#########"),
];

/// An encoded request with a placeholder for the number of the key.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    protocol: Protocol,
    encoded: Vec<u8>,
    /// Position of the number of the key or element.
    key: Number,
    /// Position of a second number, such as a TTL.
    number: Option<Number>,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    at: usize,
    digits: usize,
}

impl Template {
    /// Encodes a command. An argument `{key}` or `{element}` is a placeholder for a numbered name.
    /// An argument of zeros is a placeholder for a number with as many digits; that number must not
    /// have leading zeros, because servers refuse them.
    pub(crate) fn new(args: &[&[u8]]) -> Template {
        let filled = args.iter().map(|&arg| {
            let numbered = NUMBERED.iter().find(|(name, _)| *name == arg);
            numbered.map_or(arg, |(_, shape)| shape)
        });
        let filled: Vec<&[u8]> = filled.collect();
        let mut encoded = Vec::new();
        wire::encode_command(&mut encoded, &filled);
        let is_number = |arg: &&&[u8]| arg.len() > 1 && arg.iter().all(|&byte| byte == b'0');
        let number = filled.iter().find(is_number).map(|arg| {
            let line = [b"\r\n", *arg, b"\r\n"].concat();
            let found = find(&encoded, &line).expect("each argument is a line");
            Number {
                at: found + 2,
                digits: arg.len(),
            }
        });
        Template {
            number,
            ..Template::encoded(Protocol::Resp, encoded)
        }
    }

    /// Returns a GET of a numbered key of 16 bytes or, with a value, a SET without a TTL.
    pub(crate) fn of_key(protocol: Protocol, value: Option<&[u8]>) -> Template {
        let (_, key) = NUMBERED[0];
        let mut encoded = Vec::new();
        match value {
            Some(value) => protocol.set(&mut encoded, key, value, None),
            None => protocol.get(&mut encoded, key),
        }
        Template::encoded(protocol, encoded)
    }

    fn encoded(protocol: Protocol, encoded: Vec<u8>) -> Template {
        let at = find(&encoded, b"###").expect("every template has a key");
        let rest = encoded[at..].iter();
        let digits = rest.take_while(|byte| **byte == b'#').count();
        Template {
            protocol,
            encoded,
            key: Number { at, digits },
            number: None,
        }
    }

    /// Appends the request for key number `key`.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>, key: u64, number: u64) {
        let start = out.len();
        out.extend_from_slice(&self.encoded);
        let request = &mut out[start..];
        self.key.write(request, key);
        if let Some(place) = self.number {
            place.write(request, number);
        }
    }
}

impl Number {
    fn write(self, request: &mut [u8], mut number: u64) {
        for digit in request[self.at..self.at + self.digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Number of replies, and the first error among them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub replies: u64,
    pub nils: u64,
    pub error: Option<String>,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&mut self, protocol: Protocol, reply: &[u8]) {
        self.replies += 1;
        let answer = protocol.answer(reply);
        if answer == Answer::Refused && self.error.is_none() {
            self.error = Some(String::from_utf8_lossy(reply).trim_end().into());
        }
        self.nils += u64::from(answer == Answer::Nothing);
    }

    fn check(&self, label: &str) -> Result<()> {
        match &self.error {
            Some(text) => Err(Error::server(label, format!("it answered {text}"))),
            None => Ok(()),
        }
    }
}

/// Driver that repeats one request for random keys until a time limit.
struct Timed<'a> {
    template: &'a Template,
    key_count: u64,
    number: std::ops::Range<u64>,
    random: Random,
    until: Instant,
    tally: Tally,
}

impl Driver for Timed<'_> {
    type Token = ();

    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<()> {
        if now >= self.until {
            return Next::End;
        }
        let key = self.random.below(self.key_count);
        let spread = self.number.end - self.number.start;
        let number = match self.template.number {
            Some(_) => self.number.start + self.random.below(spread),
            None => 0,
        };
        self.template.encode(out, key, number);
        Next::Request(())
    }

    fn reply(&mut self, (): (), reply: &[u8], _out: &mut Vec<u8>) -> Option<()> {
        self.tally.count(self.template.protocol, reply);
        None
    }
}

/// Sends one request for random keys below `key_count` during a span of time, and returns the
/// number of replies.
pub(crate) fn send_random(
    load: &mut Load<()>,
    label: &str,
    template: &Template,
    key_count: u64,
    number: std::ops::Range<u64>,
    span: Duration,
    seed: u64,
) -> Result<Tally> {
    let mut driver = Timed {
        template,
        key_count,
        number,
        random: Random::new(seed),
        until: Instant::now() + span,
        tally: Tally::default(),
    };
    load.run(&mut driver)?;
    driver.tally.check(label)?;
    Ok(driver.tally)
}

/// Driver that sends one request per key, in order, with a second number that depends on the key.
struct Each<'a, K, F> {
    template: &'a Template,
    keys: K,
    number: F,
    tally: Tally,
}

impl<K: Iterator<Item = u64>, F: FnMut(u64) -> u64> Driver for Each<'_, K, F> {
    type Token = ();

    fn next(&mut self, _now: Instant, out: &mut Vec<u8>) -> Next<()> {
        match self.keys.next() {
            Some(key) => {
                self.template.encode(out, key, (self.number)(key));
                Next::Request(())
            }
            None => Next::End,
        }
    }

    fn reply(&mut self, (): (), reply: &[u8], _out: &mut Vec<u8>) -> Option<()> {
        self.tally.count(self.template.protocol, reply);
        None
    }
}

/// Connections and pipeline for loading data: few connections with deep pipelines.
pub(crate) const FILL_SHAPE: Shape = Shape {
    connections: 4,
    pipeline: 128,
    is_stream: false,
};

/// Sends one request for each key, in order.
pub(crate) fn send_each(
    server: &Server,
    template: &Template,
    keys: impl Iterator<Item = u64>,
    number: impl FnMut(u64) -> u64,
) -> Result<Tally> {
    let mut load = Load::speaking(server.protocol, &server.label, server.address, FILL_SHAPE)?;
    let mut driver = Each {
        template,
        keys,
        number,
        tally: Tally::default(),
    };
    load.run(&mut driver)?;
    driver.tally.check(&server.label)?;
    Ok(driver.tally)
}

/// Returns a value of this many bytes.
pub(crate) fn value(len: usize) -> Vec<u8> {
    vec![b'v'; len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_patched_with_key_and_number() {
        let template = Template::new(&[b"SET", b"{key}", b"xxx", b"PX", b"0000000"]);
        let mut out = Vec::new();
        template.encode(&mut out, 42, 1234);
        let wanted: &[&[u8]] = &[b"SET", b"key:000000000042", b"xxx", b"PX", b"0001234"];
        let mut encoded = Vec::new();
        wire::encode_command(&mut encoded, wanted);
        assert_eq!(out, encoded);
    }

    #[test]
    fn both_protocols_have_their_keys_patched() {
        let mut out = Vec::new();
        Template::of_key(Protocol::Memcached, Some(b"abc")).encode(&mut out, 42, 0);
        Template::of_key(Protocol::Memcached, None).encode(&mut out, 7, 0);
        let wanted = "set key:000000000042 0 0 3\r\nabc\r\nget key:000000000007\r\n";
        assert_eq!(String::from_utf8_lossy(&out), wanted);
        out.clear();
        Template::of_key(Protocol::Resp, None).encode(&mut out, 7, 0);
        let mut encoded = Vec::new();
        wire::encode_command(&mut encoded, &["GET", "key:000000000007"]);
        assert_eq!(out, encoded);
    }

    #[test]
    fn the_number_may_stand_before_the_element() {
        let args: &[&[u8]] = &[b"HEXPIRE", b"many", b"0000", b"FIELDS", b"1", b"{element}"];
        let mut out = Vec::new();
        Template::new(args).encode(&mut out, 42, 1234);
        let wanted: &[&[u8]] = &[
            b"HEXPIRE",
            b"many",
            b"1234",
            b"FIELDS",
            b"1",
            b"elem:000000042",
        ];
        let mut encoded = Vec::new();
        wire::encode_command(&mut encoded, wanted);
        assert_eq!(out, encoded);
    }
}
