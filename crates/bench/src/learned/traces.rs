//! The traces: from files, or a week that is made.

use super::Learned;
use crate::error::{Error, Result};
use crate::simulator::{Extent, Simulator, TakenIn};
use serde::Serialize;
use std::fs::File;
use trace::{Generator, GeneratorOptions, PatternMix, Sizes};

/// What is made where no trace is given: days with scans, births, fading and a turn of what is popular.
const MADE_MIX: &str = "days";
const MADE_REQUESTS: u64 = 500_000;
const MADE_DAYS: f64 = 7.0;
/// Requests for each lasting object.
const MADE_REQUESTS_PER_OBJECT: u64 = 60;
const MADE_SIZES: Sizes = Sizes::Lognormal {
    median: 2000.0,
    sigma: 1.2,
};

/// The trace, as reports tell it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Told {
    pub name: String,
    #[serde(flatten)]
    pub extent: Extent,
}

impl Told {
    pub(super) fn line(&self) -> String {
        let Extent {
            requests,
            objects,
            bytes,
            span_ms,
        } = self.extent;
        let mib = |bytes: u64| format!(" of {:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let bytes = bytes.map_or(String::new(), mib);
        let seconds = span_ms as f64 / 1e3;
        format!(
            "{}: {requests} requests in {seconds:.0} s for {objects} objects{bytes}",
            self.name
        )
    }
}

/// Takes in the trace of this place on the command line, or makes one.
pub(super) fn take_in(
    options: &Learned,
    simulator: &dyn Simulator,
    place: usize,
) -> Result<(Told, Box<dyn TakenIn>)> {
    let limit =
        |default: u64| usize::try_from(options.limit.unwrap_or(default)).unwrap_or(usize::MAX);
    let (name, taken) = match options.trace.get(place) {
        Some(path) => {
            let full = path.display().to_string();
            let file = File::open(path).map_err(Error::system(format!("cannot read {full}")))?;
            let how = trace::Options {
                format: options.format,
                ..trace::Options::default()
            };
            let mut requests = trace::open_file(&full, file, &how)?.take(limit(u64::MAX));
            let name = stem(&full).to_owned();
            let taken = simulator.take_in(&name, &mut requests, options.seed);
            (name, taken)
        }
        None => {
            let count = limit(MADE_REQUESTS);
            let objects = (count as u64 / MADE_REQUESTS_PER_OBJECT).max(1);
            let recipe = GeneratorOptions {
                mix: PatternMix::parse(MADE_MIX, objects).map_err(Error::Usage)?,
                sizes: MADE_SIZES,
                rate: count as f64 / (MADE_DAYS * 86_400.0),
                seed: options.seed,
                ..GeneratorOptions::default()
            };
            let mut requests = Generator::new(recipe).take(count).map(Ok);
            let name = format!("made {MADE_MIX}");
            let taken = simulator.take_in(&name, &mut requests, options.seed);
            (name, taken)
        }
    };
    let taken = taken.map_err(Error::Simulation)?;
    let extent = taken.extent();
    if extent.requests == 0 {
        return Err(Error::Usage(format!("{name}: there is no request in it")));
    }
    Ok((Told { name, extent }, taken))
}

/// A file's name without folders and endings.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.split('.').next().unwrap_or(name);
    if name.is_empty() { path } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_called_by_its_file() {
        assert_eq!(
            stem("/a/b.c/twitter_cluster52.csv.zst"),
            "twitter_cluster52"
        );
        assert_eq!(stem("plain"), "plain");
        assert_eq!(stem("a/.hidden"), "a/.hidden");
    }
}
