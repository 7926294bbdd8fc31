//! The list of learning policies, and any policy by name.
//!
//! A policy is a file in `evict/` and a line in `learned_policies!` below. The line gives its name
//! in [`LearnedSpec`], and thereby in [`Spec`] (`--policy`), its case in [`Spec::visit`], and its
//! row in [`POLICIES`].

use crate::boosted::Maker;
use crate::evict;
use crate::stats::{LearningStats, Learns};
use policy::any::{About, KIND, PolicySpec, Visitor};
use policy::knobs::{Knobs, SpecError, read_knobs, write_knobs};
use policy::{Meta, Policy};
use std::any::Any;
use std::fmt;
use std::str::FromStr;

/// Passes the list of all learning policies to another macro.
macro_rules! learned_policies {
    ($use:ident) => {
        $use! {
            GlCache = evict::gl_cache::GlCache,
            GlOracle = evict::gl_cache::GlCache<true>,
            Lrb = evict::lrb::Lrb,
            ThreeLCache = evict::three_l_cache::ThreeLCache,
        }
    };
}

macro_rules! define_any {
    ($($name:ident = $policy:ty,)+) => {
        /// All learning policies.
        pub const POLICIES: &[About] = &[$(About {
            name: <$policy as Policy>::NAME,
            aliases: <$policy as Policy>::ALIASES,
            on_hit: <$policy as Policy>::ON_HIT,
            meta_bits: Some(<<$policy as Policy>::Meta as Meta>::BITS),
            knobs: <<$policy as Policy>::Config as Knobs>::KNOBS,
        },)+];

        /// A learning policy with its knobs.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the policies, whose files document them")]
        pub enum LearnedSpec {
            $($name(<$policy as Policy>::Config),)+
        }

        impl LearnedSpec {
            /// Returns this policy with models created by `maker`.
            pub fn with_maker(&self, maker: Maker) -> LearnedSpec {
                let mut spec = self.clone();
                match &mut spec {
                    $(LearnedSpec::$name(config) => config.maker = maker,)+
                }
                spec
            }

            /// Returns the policy's name without its knobs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(LearnedSpec::$name(_) => <$policy as Policy>::NAME,)+
                }
            }

            /// Returns true if the policy needs to know future requests.
            pub fn needs_future(&self) -> bool {
                match self {
                    $(LearnedSpec::$name(_) => <$policy as Policy>::NEEDS_FUTURE,)+
                }
            }

            /// Calls the visitor with the policy's concrete type.
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self {
                    $(LearnedSpec::$name(config) => visitor.visit::<$policy>(config),)+
                }
            }
        }

        /// Returns a policy's training and prediction statistics, or `None` if the policy is not in
        /// this list or does not learn.
        pub fn lessons_of(policy: &dyn Any) -> Option<LearningStats> {
            $(if let Some(policy) = policy.downcast_ref::<$policy>() {
                return policy.learning_stats();
            })+
            None
        }

        impl FromStr for LearnedSpec {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<Self, SpecError> {
                let mut parts = text.split(':');
                let name = parts.next().unwrap_or_default();
                let found = POLICIES.iter().find(|about| about.is_named(name));
                let found = found.map_or(name, |about| about.name);
                $(if found == <$policy as Policy>::NAME {
                    return read_knobs(<$policy as Policy>::NAME, parts).map(LearnedSpec::$name);
                })+
                Err(SpecError::unknown_name(KIND, name, names()))
            }
        }

        impl fmt::Display for LearnedSpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())?;
                match self {
                    $(LearnedSpec::$name(config) => write_knobs(f, config),)+
                }
            }
        }
    };
}
learned_policies!(define_any);

/// Returns the names and aliases of all policies: first those that do not learn, then those that
/// do.
pub fn names() -> impl Iterator<Item = &'static str> {
    policy::any::names().chain(POLICIES.iter().flat_map(About::names))
}

/// Any policy, whether it learns or not, as specified by a user.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// A policy that does not learn.
    Plain(PolicySpec),
    /// A policy that learns.
    Learned(LearnedSpec),
}

impl Spec {
    /// Returns the policy's name without its knobs.
    pub fn name(&self) -> &'static str {
        match self {
            Spec::Plain(spec) => spec.name(),
            Spec::Learned(spec) => spec.name(),
        }
    }

    /// Returns true if the policy needs to know future requests.
    pub fn needs_future(&self) -> bool {
        match self {
            Spec::Plain(spec) => spec.needs_future(),
            Spec::Learned(spec) => spec.needs_future(),
        }
    }

    /// Returns this policy. If it learns, `maker` creates its models.
    pub fn with_maker(&self, maker: Maker) -> Spec {
        match self {
            Spec::Plain(spec) => Spec::Plain(spec.clone()),
            Spec::Learned(spec) => Spec::Learned(spec.with_maker(maker)),
        }
    }

    /// Calls the visitor with the policy's concrete type.
    pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
        match self {
            Spec::Plain(spec) => spec.visit(visitor),
            Spec::Learned(spec) => spec.visit(visitor),
        }
    }
}

impl From<PolicySpec> for Spec {
    fn from(spec: PolicySpec) -> Self {
        Spec::Plain(spec)
    }
}

impl From<LearnedSpec> for Spec {
    fn from(spec: LearnedSpec) -> Self {
        Spec::Learned(spec)
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    /// Parses a name with knobs after colons.
    ///
    /// ```
    /// use learn::any::Spec;
    /// assert!(matches!("clock:2".parse(), Ok(Spec::Plain(_))));
    /// let spec: Spec = "gl-cache:t:group=100".parse().expect("it is well formed");
    /// assert_eq!(spec.to_string(), "gl-cache:mode=t:group=100");
    /// ```
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let name = text.split(':').next().unwrap_or_default();
        if POLICIES.iter().any(|about| about.is_named(name)) {
            return text.parse().map(Spec::Learned);
        }
        text.parse().map(Spec::Plain).map_err(|error| match error {
            SpecError::UnknownName { .. } => SpecError::unknown_name(KIND, name, names()),
            other => other,
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Plain(spec) => spec.fmt(f),
            Spec::Learned(spec) => spec.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_are_parsed_back() {
        for about in POLICIES {
            let same = names().filter(|name| about.is_named(name));
            assert_eq!(same.count(), about.names().count());
            let spec: Spec = about.name.parse().expect("a name alone is a specification");
            assert_eq!(spec.to_string(), about.name);
            assert!(matches!(spec, Spec::Learned(_)));
            for knob in about.knobs {
                let given = format!("{}:{}={}", about.name, knob.name, knob.default);
                let given: Spec = given.parse().expect("a knob takes its default");
                assert_eq!(given, spec);
            }
        }
    }

    #[test]
    fn modes_set_the_knobs_that_are_not_given() {
        let parse = |text: &str| text.parse::<Spec>().map(|spec| spec.to_string());
        assert_eq!(parse("gl-cache:e").as_deref(), Ok("gl-cache"));
        assert_eq!(parse("gl-cache:t").as_deref(), Ok("gl-cache:mode=t"));
        assert_eq!(
            parse("gl-cache:group=7:mode=t:interval=daily").as_deref(),
            Ok("gl-cache:mode=t:group=7:interval=daily")
        );
        for wrong in [
            "gl-cache:x",
            "gl-cache:merged=1",
            "gl-cache:interval=0",
            "gl-cache:e:e",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
