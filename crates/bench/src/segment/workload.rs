//! The replayed trace in memory.

use crate::error::{Error, Result};
use crate::segment::Source;
use std::collections::HashMap;
use std::fs::File;
use std::str::FromStr;
use trace::{Generator, GeneratorOptions, Lifetimes, Op, PatternMix, Request, Sizes};

/// Minimum length in bytes of a key on the wire, which is its number in hexadecimal digits.
const KEY_BYTES_MIN: u8 = 16;
const KEY_BYTES_MAX: u8 = 250;
/// Maximum size in bytes of an object, because some servers do not store larger ones.
const OBJECT_BYTES_MAX: u32 = 1_000_000;
/// Requests per second of a trace without times.
const RATE_DEFAULT: u64 = 1000;

/// Pattern of the trace that is generated if none is given: a popular part, and objects that are
/// requested at most a few times.
const MADE_MIX: &str = "zipf:0.9@9+scan:20@1";
const MADE_OBJECTS: u64 = 200_000;
/// Object sizes in the generated trace. The mean is near the 230 bytes of workload c in the source.
const MADE_SIZES: Sizes = Sizes::Lognormal {
    median: 170.0,
    sigma: 0.8,
};
const MADE_SPAN_SECONDS: f64 = 600.0;

/// Request of the trace, in 32 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceRequest {
    pub key: u64,
    /// Milliseconds since the first request.
    pub time_ms: u64,
    ttl_ms: u64,
    /// Size of key and value on the wire, in bytes.
    pub size: u32,
    key_size: u8,
    pub op: Op,
}

impl TraceRequest {
    /// Returns the TTL, in milliseconds of trace time, of the object that the request stores.
    pub(super) fn lifetime_ms(&self, lifetimes: &Lifetimes, seed: u64) -> Option<u64> {
        lifetimes.ttl_ms(self.key, self.ttl_ms, seed)
    }

    /// Replaces the contents of `key` by the key's bytes.
    pub(super) fn key(&self, key: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        key.clear();
        key.resize(usize::from(self.key_size - KEY_BYTES_MIN), b'0');
        let digits = (0..KEY_BYTES_MIN).rev();
        key.extend(digits.map(|digit| DIGITS[(self.key >> (4 * digit) & 15) as usize]));
    }

    /// Returns the number of bytes of the value.
    pub(super) fn value_size(&self) -> usize {
        self.size as usize - usize::from(self.key_size)
    }
}

/// A trace in memory.
#[derive(Debug, Default)]
pub(super) struct Workload {
    pub name: String,
    pub requests: Vec<TraceRequest>,
    pub objects: u64,
    /// Total size of all objects at their first request, in bytes.
    pub footprint: u64,
    pub span_ms: u64,
    /// Number of requests omitted because their object is too large.
    pub left_out: u64,
}

impl Workload {
    /// Reads the trace, or generates it if none is given.
    pub(super) fn read(source: &Source, limit: usize, seed: u64) -> Result<Workload> {
        let mut workload = Workload::default();
        let mut sizes = HashMap::new();
        match &source.trace {
            Some(path) => {
                let name = path.display().to_string();
                let file =
                    File::open(path).map_err(Error::system(format!("cannot read {name}")))?;
                let options = trace::Options {
                    format: source.format,
                    ..trace::Options::default()
                };
                for request in trace::open_file(&name, file, &options)?.take(limit) {
                    workload.push(&request?, &mut sizes);
                }
                workload.name = name;
            }
            None => {
                let recipe = GeneratorOptions {
                    mix: PatternMix::parse(MADE_MIX, MADE_OBJECTS).map_err(Error::Usage)?,
                    sizes: MADE_SIZES,
                    rate: limit as f64 / MADE_SPAN_SECONDS,
                    seed,
                    ..GeneratorOptions::default()
                };
                for request in Generator::new(recipe).take(limit) {
                    workload.push(&request, &mut sizes);
                }
                workload.name = format!("made: {MADE_MIX}");
            }
        }
        workload.objects = sizes.len() as u64;
        workload.footprint = sizes.values().map(|size| u64::from(*size)).sum();
        workload.settle_time();
        if workload.requests.is_empty() {
            return Err(Error::Usage(format!(
                "{}: there is no request in it",
                workload.name
            )));
        }
        Ok(workload)
    }

    fn push(&mut self, request: &Request, sizes: &mut HashMap<u64, u32>) {
        let key_size = request.key_size.min(u32::from(KEY_BYTES_MAX)) as u8;
        let key_size = key_size.max(KEY_BYTES_MIN);
        let size = request.size.max(u32::from(key_size));
        if size > OBJECT_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        sizes.entry(request.key).or_insert(size);
        self.requests.push(TraceRequest {
            key: request.key,
            time_ms: request.time_ms,
            ttl_ms: request.ttl_ms,
            size,
            key_size,
            op: request.op,
        });
    }

    /// Shifts times so that the first request is at 0, and corrects times that are before those of
    /// the previous request. A trace without times gets [`RATE_DEFAULT`].
    fn settle_time(&mut self) {
        let first = self.requests.first().map_or(0, |asked| asked.time_ms);
        let has_time = self.requests.iter().any(|asked| asked.time_ms != first);
        let mut now = 0;
        for (index, asked) in self.requests.iter_mut().enumerate() {
            let timestamp = match has_time {
                true => asked.time_ms.saturating_sub(first),
                false => index as u64 * 1000 / RATE_DEFAULT,
            };
            now = timestamp.max(now);
            asked.time_ms = now;
        }
        self.span_ms = now.max(1);
    }

    /// Returns the shortest TTL in milliseconds of trace time.
    pub(super) fn shortest_ttl_ms(&self, lifetimes: &Lifetimes, seed: u64) -> Option<u64> {
        let all = self.requests.iter();
        all.filter_map(|asked| asked.lifetime_ms(lifetimes, seed))
            .min()
    }
}

/// Memory limit of the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    Bytes(u64),
    /// Share of all objects' bytes.
    Share(f64),
}

/// Minimum memory with which every engine starts, in bytes.
const SIZE_MIN: u64 = 8 << 20;
/// Granularity of the memory limit in bytes: memcached accepts whole MiB only.
const SIZE_STEP: u64 = 1 << 20;

impl Size {
    /// Returns the size in bytes, rounded to whole MiB.
    pub(super) fn resolve(self, footprint: u64) -> Result<u64> {
        let bytes = match self {
            Size::Bytes(bytes) => bytes,
            Size::Share(share) => (footprint as f64 * share) as u64,
        };
        let rounded = (bytes + SIZE_STEP / 2) / SIZE_STEP * SIZE_STEP;
        if rounded < SIZE_MIN {
            let problem = format!(
                "--size: {bytes} bytes are too few for a server: it takes 8 MiB at least, and all objects of the trace are {footprint} bytes"
            );
            return Err(Error::Usage(problem));
        }
        Ok(rounded)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Size, String> {
        let Some(percent) = text.strip_suffix('%') else {
            let bytes = units::bytes(text).map(Size::Bytes);
            return bytes.map_err(|error| error.to_string());
        };
        match percent.parse() {
            Ok(percent) if (0.01..=1000.0).contains(&percent) => Ok(Size::Share(percent / 100.0)),
            _ => Err(format!("{text:?} is no share such as 25%")),
        }
    }
}

/// Returns a trace of these requests.
#[cfg(test)]
pub(super) fn toy(requests: &[Request]) -> Workload {
    let (mut workload, mut sizes) = (Workload::default(), HashMap::new());
    requests
        .iter()
        .for_each(|request| workload.push(request, &mut sizes));
    workload.settle_time();
    workload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_as_large_on_the_wire_as_in_the_trace() {
        let sized = |key_size, size| Request {
            key_size,
            ..Request::new(5, 0xabc, size)
        };
        let workload = toy(&[
            sized(0, 100),
            sized(20, 100),
            sized(30, 7),
            sized(0, 2_000_000),
        ]);
        let lens = |asked: &TraceRequest| {
            let mut key = Vec::new();
            asked.key(&mut key);
            assert!(key.ends_with(b"0000000000000abc"));
            (key.len(), asked.value_size())
        };
        let all: Vec<_> = workload.requests.iter().map(lens).collect();
        assert_eq!(all, [(16, 84), (20, 80), (30, 0)]);
        assert_eq!(workload.left_out, 1);
    }

    #[test]
    fn time_begins_at_nought_and_never_goes_back() {
        let times = |requests: &[Request]| -> Vec<u64> {
            let workload = toy(requests);
            workload
                .requests
                .iter()
                .map(|asked| asked.time_ms)
                .collect()
        };
        let at = |time_ms| Request::new(time_ms, 1, 100);
        assert_eq!(times(&[at(50), at(70), at(60), at(90)]), [0, 20, 20, 40]);
        assert_eq!(times(&[at(0), at(0), at(0)]), [0, 1, 2]);
    }

    #[test]
    fn sizes_are_whole_mebibytes() {
        let resolve = |text: &str| {
            text.parse::<Size>()
                .map(|size| size.resolve(100 << 20).ok())
        };
        assert_eq!(resolve("64mb"), Ok(Some(64 << 20)));
        assert_eq!(resolve("33.4%"), Ok(Some(33 << 20)));
        assert_eq!(resolve("1mb"), Ok(None));
        for wrong in ["", "0%", "x%", "1q"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
