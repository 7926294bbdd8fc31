//! One pass over a trace for all that advice rests on.

use crate::analyze::{Analysis, Analyzer};
use crate::curve::{Sample, Sampler, Sampling};
use crate::{Columns, Error, Interner, Interning};
use trace::Request;

/// What one pass leaves.
#[derive(Debug)]
pub struct Material {
    /// Requests of a sample of the objects.
    pub sample: Sample,
    /// What the workload is like.
    pub analysis: Analysis,
    /// The whole trace, where it was wanted and the memory does.
    pub whole: Option<Columns>,
}

/// Takes requests one by one.
pub struct Gatherer {
    name: String,
    how: Interning,
    sampler: Sampler,
    analyzer: Analyzer,
    interner: Option<Interner>,
    /// Milliseconds from one request to the next, instead of the trace's times.
    gap_ms: Option<f64>,
    count: u64,
}

impl Gatherer {
    /// Takes nothing yet. `keeps_whole` says whether the whole trace is wanted; `gap_ms` is that of the
    /// rules ([`crate::Rules::gap_ms`]) where it was asked for.
    pub fn new(
        name: &str,
        how: Interning,
        sampling: Sampling,
        keeps_whole: bool,
        gap_ms: Option<f64>,
    ) -> Self {
        Gatherer {
            name: name.into(),
            sampler: Sampler::new(name, how.clone(), sampling),
            analyzer: Analyzer::default(),
            interner: keeps_whole.then(|| Interner::new(name, how.clone())),
            how,
            gap_ms,
            count: 0,
        }
    }

    /// Takes the next request. The whole trace is given up where it does not fit the memory.
    ///
    /// # Errors
    /// The sample does not fit the memory.
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

    /// The request with the time and the lifetime that replays give it.
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

    /// All of it.
    ///
    /// # Errors
    /// A trace without requests, or one with TTLs that is too long for deadlines.
    pub fn finish(self) -> Result<Material, Error> {
        let empty = Error::Empty { trace: self.name };
        let Some(analysis) = self.analyzer.finish() else {
            return Err(empty);
        };
        Ok(Material {
            sample: self.sampler.finish()?,
            analysis,
            whole: self.interner.map(Interner::finish).transpose()?,
        })
    }
}
