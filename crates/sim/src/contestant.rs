//! Subject of a replay: a policy in the shard, or the segment engine.

use crate::segments::SegmentsSpec;
use learn::any::Spec;
use policy::any::{KIND, PolicySpec};
use policy::knobs::SpecError;
use std::fmt;
use std::str::FromStr;

/// A policy or the segment engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Contestant {
    /// A policy. Its cache size counts the weights of objects, and [`crate::Rules::overhead`] per
    /// entry.
    Policy(Spec),
    /// The segment engine. Its cache size counts all memory that it takes.
    Segments(SegmentsSpec),
}

impl From<Spec> for Contestant {
    fn from(spec: Spec) -> Self {
        Contestant::Policy(spec)
    }
}

impl From<PolicySpec> for Contestant {
    fn from(spec: PolicySpec) -> Self {
        Contestant::Policy(spec.into())
    }
}

impl From<SegmentsSpec> for Contestant {
    fn from(spec: SegmentsSpec) -> Self {
        Contestant::Segments(spec)
    }
}

/// Error for a name that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadContestant(String);

impl fmt::Display for BadContestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadContestant {}

impl FromStr for Contestant {
    type Err = BadContestant;

    /// ```
    /// use sim::Contestant;
    /// assert!(matches!("clock:2".parse(), Ok(Contestant::Policy(_))));
    /// assert!(matches!("gl-cache:t".parse(), Ok(Contestant::Policy(_))));
    /// assert!(matches!("segcache:merged=3".parse(), Ok(Contestant::Segments(_))));
    /// assert!("segcache:bits=3".parse::<Contestant>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadContestant> {
        if SegmentsSpec::is_named_by(text) {
            let spec = text.parse().map(Contestant::Segments);
            return spec.map_err(|error| BadContestant(error.to_string()));
        }
        text.parse().map(Contestant::Policy).map_err(|error| {
            let error = match error {
                SpecError::UnknownName { given, .. } => {
                    let names = learn::any::names().chain([SegmentsSpec::NAME]);
                    SpecError::unknown_name(KIND, &given, names)
                }
                other => other,
            };
            BadContestant(error.to_string())
        })
    }
}

impl Contestant {
    /// Whether the contestant is the segment engine.
    pub fn is_engine(&self) -> bool {
        matches!(self, Contestant::Segments(_))
    }
}

/// Splits a list into policies and engines, each in the order given.
pub(crate) fn apart(contestants: &[Contestant]) -> (Vec<Spec>, Vec<SegmentsSpec>) {
    let (mut policies, mut engines) = (Vec::new(), Vec::new());
    for contestant in contestants {
        match contestant {
            Contestant::Policy(spec) => policies.push(spec.clone()),
            Contestant::Segments(spec) => engines.push(*spec),
        }
    }
    (policies, engines)
}

/// Merges the results of policies and engines in the order in which they were given.
pub(crate) fn joined<T>(
    contestants: &[Contestant],
    of_policies: Vec<T>,
    of_engines: Vec<T>,
) -> Vec<T> {
    let (mut of_policies, mut of_engines) = (of_policies.into_iter(), of_engines.into_iter());
    let next = |contestant: &Contestant| match contestant {
        Contestant::Policy(_) => of_policies.next(),
        Contestant::Segments(_) => of_engines.next(),
    };
    let found: Vec<T> = contestants.iter().filter_map(next).collect();
    assert_eq!(found.len(), contestants.len());
    found
}
