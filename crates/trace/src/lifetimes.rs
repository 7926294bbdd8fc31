//! TTLs that replace those of a trace.

use crate::TtlMix;
use std::fmt;
use std::str::FromStr;

/// Source of the objects' TTLs: none, the trace's own, or a mix, multiplied by a factor.
#[derive(Clone, Debug)]
pub struct Lifetimes {
    name: String,
    source: Source,
    factor: f64,
}

#[derive(Clone, Debug)]
enum Source {
    Endless,
    Own,
    Mix(TtlMix),
}

impl Lifetimes {
    /// Returns the TTL in milliseconds of the object that a request stores under a key. `None` if
    /// the object never expires. The argument is the TTL in the trace, 0 for none.
    pub fn ttl_ms(&self, key: u64, own_ms: u64, seed: u64) -> Option<u64> {
        let ttl_ms = match &self.source {
            Source::Endless => 0,
            Source::Own => own_ms,
            Source::Mix(mix) => mix.ttl_ms(key, seed),
        };
        (ttl_ms > 0).then(|| ((ttl_ms as f64 * self.factor) as u64).max(1))
    }
}

impl fmt::Display for Lifetimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Lifetimes {
    type Err = String;

    /// Parses `none`, `own`, a published mix such as `cluster4`, or a mix such as `60s:0.4 1h:0.6`,
    /// each with an optional factor after `@`.
    fn from_str(text: &str) -> Result<Lifetimes, String> {
        let (name, factor) = text.split_once('@').unwrap_or((text, "1"));
        let factor: f64 = factor.parse().unwrap_or(0.0);
        if !(factor > 0.0 && factor <= 1e6) {
            return Err(format!(
                "lifetimes '{text}': expected a factor above 0 behind @"
            ));
        }
        let mix = match name.contains(':') {
            true => TtlMix::parse(name),
            false => TtlMix::published(name),
        };
        let source = match name {
            "none" => Source::Endless,
            "own" => Source::Own,
            _ => Source::Mix(mix.map_err(|error| error.to_string())?),
        };
        Ok(Lifetimes {
            name: text.into(),
            source,
            factor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_come_from_the_trace_or_a_mix_times_a_factor() {
        let ttl = |text: &str| text.parse::<Lifetimes>().map(|all| all.ttl_ms(1, 70, 1));
        assert_eq!(ttl("none"), Ok(None));
        assert_eq!(ttl("own"), Ok(Some(70)));
        assert_eq!(ttl("2s:1"), Ok(Some(2000)));
        assert_eq!(ttl("2s:1@1.5"), Ok(Some(3000)));
        assert_eq!(ttl("cluster12@2").map(|ttl| ttl > Some(590_000)), Ok(true));
        for wrong in ["cluster99", "cluster4@", "cluster4@0", "1s", "2s:1@-1"] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
    }
}
