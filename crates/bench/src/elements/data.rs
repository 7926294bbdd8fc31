//! Data and requests of the experiment: types, layouts, and the commands of each type.

use crate::client::Client;
use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::keys::{FILL_SHAPE, Template};
use crate::load::{Driver, Load, Next};
use serde::Serialize;
use std::time::Instant;
use wire::Value;

/// TTLs in seconds: several days, and all distinct. For an hour after they are set, all remaining
/// TTLs begin with the same digit.
const TTL_SECONDS: std::ops::Range<u64> = 310_000..399_000;
/// Name of the only element in its key: 14 bytes.
const ALONE: &[u8] = b"elem:onlychild";

/// A type whose elements may have TTLs.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Fields of hashes, with values of 3 bytes
    Hash,
    /// Members of sets
    Set,
    /// Members of sorted sets
    Zset,
}

/// How elements are spread over keys.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// All elements in one key
    One,
    /// Each element in its own key
    Many,
}

/// State of the elements before or after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There are no elements, or some are about to be removed.
    Unknown,
    Plain,
    WithTtl,
}

/// Kind of the number in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    None,
    /// TTL in seconds, distinct for each element.
    Ttl,
    /// One Unix time in seconds, the same for all elements.
    Instant,
    Score,
}

/// One command in one case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub name: &'static str,
    /// Words of the command, separated by blanks. K stands for the key and E for the element.
    pub words: &'static str,
    pub number: Number,
    pub needs: State,
    pub leaves: State,
    /// Text that every reply begins with.
    pub expected: &'static [u8],
}

const fn test(
    name: &'static str,
    words: &'static str,
    number: Number,
    states: (State, State),
    expected: &'static [u8],
) -> Test {
    Test {
        name,
        words,
        number,
        needs: states.0,
        leaves: states.1,
        expected,
    }
}

const PLAIN: (State, State) = (State::Plain, State::Plain);
const WITH_TTL: (State, State) = (State::WithTtl, State::WithTtl);
const GIVEN: (State, State) = (State::Plain, State::WithTtl);
const TAKEN: (State, State) = (State::WithTtl, State::Plain);
const DYING: (State, State) = (State::Plain, State::Unknown);

/// The tests are ordered so that, where possible, each finds the elements in the state that the
/// previous test left.
#[rustfmt::skip]
const HASH: &[Test] = &[
    test("HSET", "HSET K E xxx", Number::None, PLAIN, b":0"),
    test("HGET", "HGET K E", Number::None, PLAIN, b"$3"),
    test("HEXPIRE", "HEXPIRE K 000000 FIELDS 1 E", Number::Ttl, GIVEN, b"*1\r\n:1"),
    test("HTTL", "HTTL K FIELDS 1 E", Number::None, WITH_TTL, b"*1\r\n:3"),
    test("HGETEX EX", "HGETEX K EX 000000 FIELDS 1 E", Number::Ttl, WITH_TTL, b"*1\r\n$3"),
    test("HSETEX EX", "HSETEX K EX 000000 FIELDS 1 E xxx", Number::Ttl, WITH_TTL, b":1"),
    test("HPERSIST", "HPERSIST K FIELDS 1 E", Number::None, TAKEN, b"*1\r\n:1"),
    test("HEXPIREAT, one instant", "HEXPIREAT K 0000000000 FIELDS 1 E", Number::Instant, GIVEN, b"*1\r\n:1"),
    test("HSET, drops the TTL", "HSET K E xxx", Number::None, TAKEN, b":0"),
    test("HEXPIRE, 3 s", "HEXPIRE K 3 FIELDS 1 E", Number::None, DYING, b"*1\r\n:1"),
];

#[rustfmt::skip]
const SET: &[Test] = &[
    test("SADD", "SADD K E", Number::None, PLAIN, b":0"),
    test("SISMEMBER", "SISMEMBER K E", Number::None, PLAIN, b":1"),
    test("SEXPIRE", "SEXPIRE K 000000 MEMBERS 1 E", Number::Ttl, GIVEN, b"*1\r\n:1"),
    test("STTL", "STTL K MEMBERS 1 E", Number::None, WITH_TTL, b"*1\r\n:3"),
    test("SPERSIST", "SPERSIST K MEMBERS 1 E", Number::None, TAKEN, b"*1\r\n:1"),
    test("SEXPIREAT, one instant", "SEXPIREAT K 0000000000 MEMBERS 1 E", Number::Instant, GIVEN, b"*1\r\n:1"),
    test("SEXPIRE, 3 s", "SEXPIRE K 3 MEMBERS 1 E", Number::None, DYING, b"*1\r\n:1"),
];

#[rustfmt::skip]
const ZSET: &[Test] = &[
    test("ZADD", "ZADD K 000000 E", Number::Score, PLAIN, b":0"),
    test("ZSCORE", "ZSCORE K E", Number::None, PLAIN, b"$6"),
    test("ZEXPIRE", "ZEXPIRE K 000000 MEMBERS 1 E", Number::Ttl, GIVEN, b"*1\r\n:1"),
    test("ZTTL", "ZTTL K MEMBERS 1 E", Number::None, WITH_TTL, b"*1\r\n:3"),
    test("ZPERSIST", "ZPERSIST K MEMBERS 1 E", Number::None, TAKEN, b"*1\r\n:1"),
    test("ZEXPIREAT, one instant", "ZEXPIREAT K 0000000000 MEMBERS 1 E", Number::Instant, GIVEN, b"*1\r\n:1"),
    test("ZEXPIRE, 3 s", "ZEXPIRE K 3 MEMBERS 1 E", Number::None, DYING, b"*1\r\n:1"),
];

impl Kind {
    pub(super) fn tests(self) -> &'static [Test] {
        match self {
            Kind::Hash => HASH,
            Kind::Set => SET,
            Kind::Zset => ZSET,
        }
    }

    /// Returns the test of the command that adds an element, which is the first test.
    fn add(self) -> Test {
        self.tests()[0]
    }

    /// Returns the command that sets an element's deadline in milliseconds.
    fn expire_at(self) -> &'static str {
        match self {
            Kind::Hash => "HPEXPIREAT K 0000000000000 FIELDS 1 E",
            Kind::Set => "SPEXPIREAT K 0000000000000 MEMBERS 1 E",
            Kind::Zset => "ZPEXPIREAT K 0000000000000 MEMBERS 1 E",
        }
    }

    /// Returns the name of the event of an expired element.
    pub(super) fn event(self) -> &'static str {
        match self {
            Kind::Hash => "hexpired",
            Kind::Set => "sexpired",
            Kind::Zset => "zexpired",
        }
    }

    /// Returns the value of `notify-keyspace-events` for that event: the class of the type or, in
    /// Valkey, the class of expired keys.
    pub(super) fn event_class(self) -> &'static str {
        match self {
            Kind::Hash => "Ehx",
            Kind::Set => "Esx",
            Kind::Zset => "Ezx",
        }
    }
}

/// Elements of one kind in one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Data {
    pub kind: Kind,
    pub layout: Layout,
}

impl Data {
    /// Returns the name in reports.
    pub(super) fn name(self) -> String {
        let (one, many) = match self.kind {
            Kind::Hash => ("one hash", "many hashes"),
            Kind::Set => ("one set", "many sets"),
            Kind::Zset => ("one sorted set", "many sorted sets"),
        };
        match self.layout {
            Layout::One => one.into(),
            Layout::Many => many.into(),
        }
    }

    /// Encodes a command over numbered elements.
    pub(super) fn template(self, words: &str) -> Template {
        self.template_in(b"large", words)
    }

    /// Encodes a command over numbered elements. If all elements are in one key, the key has this
    /// name.
    fn template_in(self, name: &[u8], words: &str) -> Template {
        let words: Vec<&[u8]> = words
            .split(' ')
            .map(|word| match (word, self.layout) {
                ("K", Layout::One) => name,
                ("K", Layout::Many) => b"{key}",
                ("E", Layout::One) => b"{element}",
                ("E", Layout::Many) => ALONE,
                _ => word.as_bytes(),
            })
            .collect();
        Template::new(&words)
    }

    /// Returns the number of keys that hold `elements` elements.
    pub(super) fn keys(self, elements: u64) -> u64 {
        match self.layout {
            Layout::One => elements.min(1),
            Layout::Many => elements,
        }
    }

    /// Adds elements that do not exist yet.
    pub(super) fn fill(self, server: &Server, elements: impl Iterator<Item = u64>) -> Result<()> {
        let add = self.kind.add();
        let mut pass = Pass {
            template: &self.template(add.words),
            elements,
            number: |element| add.number.of(element, 0),
            expected: b":1",
            seen: Seen::default(),
        };
        pass.run(&mut fill_load(server)?, &server.label).map(drop)
    }

    /// Sets deadlines of elements in milliseconds.
    pub(super) fn expire_at(
        self,
        server: &Server,
        elements: impl Iterator<Item = u64>,
        deadline_ms: impl FnMut(u64) -> u64,
    ) -> Result<()> {
        let mut pass = Pass {
            template: &self.template(self.kind.expire_at()),
            elements,
            number: deadline_ms,
            expected: b"*1\r\n:1",
            seen: Seen::default(),
        };
        pass.run(&mut fill_load(server)?, &server.label).map(drop)
    }

    /// Adds elements to another key over the caller's connections.
    pub(super) fn fill_beside(
        self,
        load: &mut Load<()>,
        server: &Server,
        elements: std::ops::Range<u64>,
    ) -> Result<u64> {
        let add = self.kind.add();
        let beside = Data {
            layout: Layout::One,
            ..self
        };
        let mut pass = Pass {
            template: &beside.template_in(b"beside", add.words),
            elements,
            number: |element| add.number.of(element, 0),
            expected: b":1",
            seen: Seen::default(),
        };
        pass.run(load, &server.label)
    }

    /// Returns the command that sets element deadlines if the server lacks it, and `None`
    /// otherwise.
    pub(super) fn lacks_expire_at(self, client: &mut Client) -> Result<Option<&'static str>> {
        lacks(client, self.kind.expire_at())
    }
}

fn fill_load(server: &Server) -> Result<Load<()>> {
    Load::connect(&server.label, server.address, FILL_SHAPE)
}

/// Returns the name of the command in `words` if the server lacks it, and `None` otherwise.
pub(super) fn lacks(client: &mut Client, words: &'static str) -> Result<Option<&'static str>> {
    let name = words.split(' ').next().unwrap_or(words);
    let reported = client.call(&["COMMAND", "INFO", name])?;
    let is_known = reported
        .as_list()
        .and_then(<[Value]>::first)
        .is_some_and(|entry| entry.as_list().is_some_and(|facts| !facts.is_empty()));
    Ok((!is_known).then_some(name))
}

impl Number {
    /// Returns the number for an element. `instant` is the Unix time in seconds shared by all
    /// elements.
    pub(super) fn of(self, element: u64, instant: u64) -> u64 {
        match self {
            Number::None => 0,
            Number::Ttl => {
                let spread = TTL_SECONDS.end - TTL_SECONDS.start;
                TTL_SECONDS.start + trace::Random::of_key(1, element).below(spread)
            }
            Number::Instant => instant + TTL_SECONDS.start,
            Number::Score => 100_000 + element % 900_000,
        }
    }
}

/// Number of replies, and the first unexpected one.
#[derive(Debug, Default)]
pub(super) struct Seen {
    replies: u64,
    wrong: Option<String>,
}

/// Driver that sends one request per element, in order.
pub(super) struct Pass<'a, I, N> {
    pub template: &'a Template,
    pub elements: I,
    pub number: N,
    /// Text with which every reply must begin.
    pub expected: &'a [u8],
    pub seen: Seen,
}

impl<I: Iterator<Item = u64>, N: FnMut(u64) -> u64> Pass<'_, I, N> {
    /// Sends all requests and returns their number.
    pub(super) fn run(&mut self, load: &mut Load<()>, label: &str) -> Result<u64> {
        load.run(self)?;
        match &self.seen.wrong {
            Some(text) => {
                let mut request = Vec::new();
                self.template.encode(&mut request, 0, 0);
                let request = String::from_utf8_lossy(&request);
                let words = request.split("\r\n").skip(2).step_by(2);
                let request: Vec<&str> = words.collect();
                let text = format!("to such as {:?} it answered {text:?}", request.join(" "));
                Err(Error::server(label, text))
            }
            None => Ok(self.seen.replies),
        }
    }
}

impl<I: Iterator<Item = u64>, N: FnMut(u64) -> u64> Driver for Pass<'_, I, N> {
    type Token = ();

    fn next(&mut self, _now: Instant, out: &mut Vec<u8>) -> Next<()> {
        match self.elements.next() {
            Some(element) => {
                self.template.encode(out, element, (self.number)(element));
                Next::Request(())
            }
            None => Next::End,
        }
    }

    fn reply(&mut self, (): (), reply: &[u8], _out: &mut Vec<u8>) -> Option<()> {
        self.seen.replies += 1;
        if !reply.starts_with(self.expected) && self.seen.wrong.is_none() {
            self.seen.wrong = Some(String::from_utf8_lossy(reply).into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(data: Data, words: &str, element: u64, number: u64) -> String {
        let mut request = Vec::new();
        data.template(words).encode(&mut request, element, number);
        let (value, len) = Value::decode(&request)
            .expect("it is RESP")
            .expect("it is complete");
        assert_eq!(len, request.len());
        let words = value.as_list().expect("a command is a list").iter();
        let words: Vec<_> = words
            .map(|word| String::from_utf8_lossy(word.as_bytes().expect("a string")).into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn elements_are_numbered_within_one_key_and_keys_where_each_has_one() {
        let [one, many] = [Layout::One, Layout::Many].map(|layout| Data {
            kind: Kind::Hash,
            layout,
        });
        let words = "HEXPIRE K 000000 FIELDS 1 E";
        let wanted = "HEXPIRE large 310007 FIELDS 1 elem:000000042";
        assert_eq!(encoded(one, words, 42, 310_007), wanted);
        let wanted = "HEXPIRE key:000000000042 310007 FIELDS 1 elem:onlychild";
        assert_eq!(encoded(many, words, 42, 310_007), wanted);
        assert_eq!((one.keys(9), many.keys(9)), (1, 9));
        assert_eq!(ALONE.len(), 14);
    }

    #[test]
    fn each_number_fits_its_place_and_few_commands_need_new_elements() {
        for kind in [Kind::Hash, Kind::Set, Kind::Zset] {
            let (mut state, mut anew_count) = (State::Plain, 0);
            for test in kind.tests() {
                anew_count += usize::from(test.needs != state);
                state = test.leaves;
                let zeros = test.words.split(' ').find(|word| word.starts_with("00"));
                let digits = zeros.map_or(0, str::len);
                for element in [0, 1, 899_999, 900_000, 999_999_999] {
                    let number = test.number.of(element, 1_700_000_000);
                    let is_right = match test.number {
                        Number::None => digits == 0,
                        _ => number.to_string().len() == digits,
                    };
                    assert!(is_right, "{} {number}", test.name);
                }
            }
            assert_eq!(state, State::Unknown);
            assert!(anew_count <= 1, "{anew_count}");
        }
        // An hour later the digit that replies to HTTL begin with is still the same.
        for seconds in [TTL_SECONDS.start - 3600, TTL_SECONDS.end - 1] {
            assert!(seconds.to_string().as_bytes().starts_with(b"3"));
        }
    }
}
