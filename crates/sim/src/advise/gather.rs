//! One pass over a trace that collects the inputs of the advice.

use crate::analyze::{Analysis, Analyzer};
use crate::curve::{Sample, Sampler, Sampling};
use crate::{Columns, Error, Interner, Interning};
use trace::Request;

/// Inputs of the advice.
#[derive(Debug)]
pub struct Inputs {
    /// Requests of a sample of the objects.
    pub sample: Sample,
    /// Analysis of the workload.
    pub analysis: Analysis,
    /// The whole trace, if it was requested and memory suffices.
    pub whole: Option<Columns>,
}

/// Collects requests one by one.
pub struct Collector {
    name: String,
    how: Interning,
    sampler: Sampler,
    analyzer: Analyzer,
    interner: Option<Interner>,
    /// Milliseconds between two requests, instead of the trace's timestamps.
    gap_ms: Option<f64>,
    count: u64,
}

impl Collector {
    /// Creates an empty collector. `keeps_whole` requests the whole trace; `gap_ms` comes from the
    /// rules ([`crate::Rules::gap_ms`]), if given.
    pub fn new(
        name: &str,
        how: Interning,
        sampling: Sampling,
        keeps_whole: bool,
        gap_ms: Option<f64>,
    ) -> Self {
        Collector {
            name: name.into(),
            sampler: Sampler::new(name, how.clone(), sampling),
            analyzer: Analyzer::default(),
            interner: keeps_whole.then(|| Interner::new(name, how.clone())),
            how,
            gap_ms,
            count: 0,
        }
    }

    /// Adds the next request. The whole trace is dropped if it does not fit in memory.
    ///
    /// # Errors
    /// The sample does not fit in memory.
    pub fn push(&mut self, request: &Request) -> Result<(), Error> {
        self.sampler.push(request)?;
        if let Some(interner) = &mut self.interner {
            match interner.push(request) {
                Err(Error::TooLarge { .. } | Error::TooMany { .. }) => self.interner = None,
                result => result?,
            }
        }
        self.analyzer.push(&self.as_analyzed(request));
        self.count += 1;
        Ok(())
    }

    /// The request with the time and the TTL that replays use.
    fn as_analyzed(&self, request: &Request) -> Request {
        let mut request = *request;
        if let Some(gap_ms) = self.gap_ms {
            request.time_ms = (self.count as f64 * gap_ms) as u64;
        }
        match &self.how.ttl_mix {
            _ if self.how.ignores_ttls => request.ttl_ms = 0,
            Some((mix, seed)) => request.ttl_ms = mix.ttl_ms(request.key, *seed),
            None => {}
        }
        request
    }

    /// Returns the inputs.
    ///
    /// # Errors
    /// The trace has no requests, or it has TTLs and is too long for deadlines.
    pub fn finish(self) -> Result<Inputs, Error> {
        let empty = Error::Empty { trace: self.name };
        let Some(analysis) = self.analyzer.finish() else {
            return Err(empty);
        };
        Ok(Inputs {
            sample: self.sampler.finish()?,
            analysis,
            whole: self.interner.map(Interner::finish).transpose()?,
        })
    }
}
