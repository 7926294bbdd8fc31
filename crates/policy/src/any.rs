//! The one list of eviction policies: what follows from a name and its knobs.
//!
//! A new policy is a file in `evict/` and a line in `eviction_policies!` below. From the line come
//! its name in [`PolicySpec`] (`--policy`, `--maxmemory-policy`), its place in [`AnyPolicy`] (run-time
//! choice, for the server), its turn in [`PolicySpec::visit`] (static choice, for the simulator), its
//! row in [`POLICIES`] (for the docs), and its run through the conformance suite.

use crate::evict;
use crate::{Admit, Budget, Cells, Eviction, Facts, Meta, OnHit, Policy, Slot, Tick};
use core::fmt;
use core::str::FromStr;

/// Hands the list to another macro. *Served* policies keep at most 64 bits in an entry; *simulated*
/// ones keep more or know the future.
macro_rules! eviction_policies {
    ($use:ident) => {
        $use! {
            served {
                Fifo = evict::fifo::Fifo,
                Lru = evict::lru::Lru,
                Clock = evict::clock::Clock,
                Sieve = evict::sieve::Sieve,
                S3Fifo = evict::s3fifo::S3Fifo,
                S3FifoD = evict::s3fifo_d::S3FifoD,
                S3FifoTuned = evict::s3fifo_tuned::S3FifoTuned,
                S3Sieve = evict::s3_sieve::S3Sieve,
                Random = evict::random::Random,
                SampledLru = evict::sampled_lru::SampledLru,
                Sampled = evict::sampled::Sampled,
                SampledTtl = evict::sampled_ttl::SampledTtl,
                Arc = evict::arc::Arc,
                Slru = evict::slru::Slru,
                TwoQ = evict::twoq::TwoQ,
                WTinyLfu = evict::w_tinylfu::WTinyLfu,
                FifoMerge = evict::fifo_merge::FifoMerge,
                QdLpFifo = evict::qd::Qd<evict::clock::Clock>,
                Hyperbolic = evict::hyperbolic::Hyperbolic,
                Lecar = evict::lecar::Lecar,
                LecarSieve = evict::lecar_sieve::LecarSieve,
                Lhd = evict::lhd::Lhd,
                Cacheus = evict::cacheus::Cacheus,
                QdLecar = evict::qd::Qd<evict::lecar::Lecar>,
                QdCacheus = evict::qd::Qd<evict::cacheus::Cacheus>,
                Lfu = evict::lfu::Lfu,
                Lirs = evict::lirs::Lirs,
                LruK = evict::lru_k::LruK,
                SlabLru = evict::slab::Slabs<evict::slab::Used>,
                SlabLrc = evict::slab::Slabs<evict::slab::Created>,
                SlabRandom = evict::slab::Slabs<evict::slab::Drawn>,
                MemcachedLru = evict::memcached_lru::MemcachedLru,
                Gdsf = evict::gdsf::Gdsf,
                Lfuda = evict::lfuda::Lfuda,
                Mq = evict::mq::Mq,
                Car = evict::car::Car,
                ClockPro = evict::clock_pro::ClockPro,
                ArcSieve = evict::arc::Arc<crate::parts::shelf::SieveShelf>,
                ArcFifoReinsertion = evict::arc::Arc<crate::parts::shelf::ReinsertionShelf>,
                TwoQSieve = evict::twoq::TwoQ<crate::parts::shelf::SieveShelf>,
                QdLirs = evict::qd::Qd<evict::lirs::Lirs>,
            }
            simulated {
                Belady = evict::belady::Belady,
                BLru = evict::b_lru::BLru,
                BeladySize = evict::belady_size::BeladySize,
                QdArc = evict::qd::Qd<evict::arc::Arc>,
                QdLru = evict::qd::Qd<evict::lru::Lru>,
                QdLhd = evict::qd::Qd<evict::lhd::Lhd>,
            }
        }
    };
}
#[cfg(test)]
pub(crate) use eviction_policies;

/// A knob of a policy, as the docs tell it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knob {
    /// Its name in a specification.
    pub name: &'static str,
    /// The value that holds when none is given.
    pub default: &'static str,
    /// The values that it takes.
    pub range: &'static str,
}

/// A policy's knobs, by name. Written by [`knobs!`](crate::knobs).
pub trait Knobs: Default {
    /// In the order in which they may be given without their names.
    const KNOBS: &'static [Knob];
    /// Sets one by its text; false when the text is not one of its values, or the name unknown.
    fn set(&mut self, name: &str, value: &str) -> bool;
    /// The value of one, as [`Knobs::set`] would take it.
    fn show(&self, name: &str) -> String;
    /// Whether every value is in its range.
    fn is_valid(&self) -> bool;
}

impl Knobs for () {
    const KNOBS: &'static [Knob] = &[];
    fn set(&mut self, _name: &str, _value: &str) -> bool {
        false
    }
    fn show(&self, _name: &str) -> String {
        String::new()
    }
    fn is_valid(&self) -> bool {
        true
    }
}

/// Makes a config of numbers with defaults and ranges:
/// `pub struct C { /** doc */ bits: u8 = 1, 1 => 3; }` — from 1 to 3, both included.
#[macro_export]
macro_rules! knobs {
    ($(#[$doc:meta])* pub struct $config:ident {
        $($(#[$field_doc:meta])* $field:ident : $type:ty = $default:literal, $low:literal => $high:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $config {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl Default for $config {
            fn default() -> Self {
                $config { $($field: $default,)+ }
            }
        }

        impl $crate::any::Knobs for $config {
            const KNOBS: &'static [$crate::any::Knob] = &[$($crate::any::Knob {
                name: stringify!($field),
                default: concat!($default),
                range: concat!($low, " to ", $high),
            },)+];

            fn set(&mut self, name: &str, value: &str) -> bool {
                match name {
                    $(stringify!($field) => match value.parse::<$type>() {
                        Ok(value) if ($low..=$high).contains(&value) => {
                            self.$field = value;
                            true
                        }
                        _ => false,
                    },)+
                    _ => false,
                }
            }

            fn show(&self, name: &str) -> String {
                match name {
                    $(stringify!($field) => self.$field.to_string(),)+
                    _ => String::new(),
                }
            }

            fn is_valid(&self) -> bool {
                $(($low..=$high).contains(&self.$field))&&+
            }
        }
    };
}

/// One row of the docs' table of policies.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name in a specification.
    pub name: &'static str,
    /// What a hit costs.
    pub on_hit: OnHit,
    /// The bits kept in an entry; `None` for a policy that only the simulator runs.
    pub meta_bits: Option<u32>,
    /// Its knobs.
    pub knobs: &'static [Knob],
}

/// Why the specification of a policy, an admission filter or an expiry index was not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// No admission filter has this name.
    UnknownFilter(String),
    /// No expiry index has this name.
    UnknownIndex(String),
    /// The policy, filter or index has no such knob, or fewer of them.
    UnknownKnob {
        /// The policy.
        policy: &'static str,
        /// What was given.
        given: String,
        /// What could have been.
        knobs: &'static [Knob],
    },
    /// The knob is given a second time.
    RepeatedKnob {
        /// The policy.
        policy: &'static str,
        /// The knob's name.
        knob: &'static str,
    },
    /// The knob does not take this value.
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The knob.
        knob: Knob,
        /// What was given.
        given: String,
    },
}

impl Eq for Knob {}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownPolicy(name) => {
                write!(f, "no eviction policy is called '{name}'; expected one of:")?;
                POLICIES
                    .iter()
                    .try_for_each(|about| write!(f, " {}", about.name))
            }
            SpecError::UnknownFilter(name) => {
                write!(
                    f,
                    "no admission filter is called '{name}'; expected one of:"
                )?;
                crate::admit::any::FILTERS
                    .iter()
                    .try_for_each(|about| write!(f, " {}", about.name))
            }
            SpecError::UnknownIndex(name) => {
                write!(f, "no expiry index is called '{name}'; expected one of:")?;
                let indexes = crate::expire::any::INDEXES.iter().map(|about| about.name);
                let presets = crate::expire::any::PRESETS.iter().map(|(name, _)| *name);
                indexes
                    .chain(presets)
                    .try_for_each(|name| write!(f, " {name}"))
            }
            SpecError::UnknownKnob {
                policy,
                given,
                knobs,
            } => {
                write!(f, "{policy} has no knob for '{given}'; expected ")?;
                match knobs {
                    [] => write!(f, "no knobs after the name"),
                    _ => knobs.iter().enumerate().try_for_each(|(index, knob)| {
                        let comma = if index > 0 { ", " } else { "" };
                        write!(f, "{comma}{}={}", knob.name, knob.default)
                    }),
                }
            }
            SpecError::RepeatedKnob { policy, knob } => {
                write!(f, "{policy}: the knob '{knob}' is given twice")
            }
            SpecError::BadValue {
                policy,
                knob,
                given,
            } => {
                write!(
                    f,
                    "{policy}: {}={given}: expected {}",
                    knob.name, knob.range
                )
            }
        }
    }
}

impl core::error::Error for SpecError {}

/// Sets knobs from the parts that follow the name, `value` or `knob=value`.
pub fn read_knobs<C: Knobs>(
    policy: &'static str,
    parts: core::str::Split<'_, char>,
) -> Result<C, SpecError> {
    let mut config = C::default();
    let mut given: Vec<&'static str> = Vec::new();
    for (index, part) in parts.enumerate() {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (Some(name), value),
            None => (None, part),
        };
        let knob = match name {
            Some(name) => C::KNOBS.iter().find(|knob| knob.name == name),
            None => C::KNOBS.get(index),
        };
        let unknown = || SpecError::UnknownKnob {
            policy,
            given: part.to_owned(),
            knobs: C::KNOBS,
        };
        let knob = *knob.ok_or_else(unknown)?;
        if given.contains(&knob.name) {
            let knob = knob.name;
            return Err(SpecError::RepeatedKnob { policy, knob });
        }
        given.push(knob.name);
        if !config.set(knob.name, value) {
            return Err(SpecError::BadValue {
                policy,
                knob,
                given: value.to_owned(),
            });
        }
    }
    Ok(config)
}

/// Writes the knobs that are not at their default.
pub fn write_knobs<C: Knobs>(f: &mut fmt::Formatter<'_>, config: &C) -> fmt::Result {
    let default = C::default();
    for knob in C::KNOBS {
        let value = config.show(knob.name);
        if value != default.show(knob.name) {
            write!(f, ":{}={value}", knob.name)?;
        }
    }
    Ok(())
}

/// Work for a policy whose type is settled by [`PolicySpec::visit`]: the way to run a policy named
/// at run time in code that is compiled for it alone.
pub trait Visitor {
    /// What the work gives.
    type Output;
    /// The work.
    fn visit<P: Policy + 'static>(self, config: &P::Config) -> Self::Output;
}

macro_rules! define_any {
    (served { $($name:ident = $policy:ty,)+ } simulated { $($wide_name:ident = $wide:ty,)* }) => {
        /// Every policy of the list.
        pub const POLICIES: &[About] = &[
            $(About {
                name: <$policy as Policy>::NAME,
                on_hit: <$policy as Policy>::ON_HIT,
                meta_bits: Some(<<$policy as Policy>::Meta as Meta>::BITS),
                knobs: <<$policy as Policy>::Config as Knobs>::KNOBS,
            },)+
            $(About {
                name: <$wide as Policy>::NAME,
                on_hit: <$wide as Policy>::ON_HIT,
                meta_bits: None,
                knobs: <<$wide as Policy>::Config as Knobs>::KNOBS,
            },)*
        ];

        /// A policy and its knobs, as named by a person: `lru`, `clock:2`, `s3fifo:small=0.2`.
        /// Knobs follow the name after colons, in their order or by name.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the policies, whose files tell about them")]
        pub enum PolicySpec {
            $($name(<$policy as Policy>::Config),)+
            $($wide_name(<$wide as Policy>::Config),)*
        }

        impl PolicySpec {
            /// The policy's name, without its knobs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(PolicySpec::$name(_) => <$policy as Policy>::NAME,)+
                    $(PolicySpec::$wide_name(_) => <$wide as Policy>::NAME,)*
                }
            }

            /// Whether it runs only where the future is known.
            pub fn needs_future(&self) -> bool {
                match self {
                    $(PolicySpec::$name(_) => <$policy as Policy>::NEEDS_FUTURE,)+
                    $(PolicySpec::$wide_name(_) => <$wide as Policy>::NEEDS_FUTURE,)*
                }
            }

            /// Does the work with the policy's own type.
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self {
                    $(PolicySpec::$name(config) => visitor.visit::<$policy>(config),)+
                    $(PolicySpec::$wide_name(config) => visitor.visit::<$wide>(config),)*
                }
            }
        }

        impl FromStr for PolicySpec {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<Self, SpecError> {
                let mut parts = text.split(':');
                let name = parts.next().unwrap_or_default();
                $(if name == <$policy as Policy>::NAME {
                    return read_knobs(<$policy as Policy>::NAME, parts).map(PolicySpec::$name);
                })+
                $(if name == <$wide as Policy>::NAME {
                    return read_knobs(<$wide as Policy>::NAME, parts).map(PolicySpec::$wide_name);
                })*
                Err(SpecError::UnknownPolicy(name.to_owned()))
            }
        }

        impl fmt::Display for PolicySpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())?;
                match self {
                    $(PolicySpec::$name(config) => write_knobs(f, config),)+
                    $(PolicySpec::$wide_name(config) => write_knobs(f, config),)*
                }
            }
        }

        /// A served policy chosen at run time. Its bits in an entry are a `u64` of which the low
        /// [`AnyPolicy::meta_bits`] may be set.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "the variants are the policies, whose files tell about them")]
        #[expect(clippy::large_enum_variant, reason = "a shard holds one, beside megabytes of entries")]
        pub enum AnyPolicy {
            $($name($policy),)+
        }

        impl AnyPolicy {
            /// The policy that the specification names; `None` for one that cannot be served.
            pub fn build(spec: &PolicySpec, capacity: u64, seed: u64) -> Option<Self> {
                match spec {
                    $(PolicySpec::$name(config) => {
                        Some(AnyPolicy::$name(<$policy as Policy>::new(capacity, config, seed)))
                    })+
                    $(PolicySpec::$wide_name(_) => None,)*
                }
            }

            /// How many low bits of the entry's `u64` this policy uses.
            pub fn meta_bits(&self) -> u32 {
                match self {
                    $(AnyPolicy::$name(_) => <<$policy as Policy>::Meta as Meta>::BITS,)+
                }
            }

            /// What a hit costs this policy. ([`Policy::reorder`] serves all three kinds.)
            pub fn on_hit(&self) -> OnHit {
                match self {
                    $(AnyPolicy::$name(_) => <$policy as Policy>::ON_HIT,)+
                }
            }

            /// The policy's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(AnyPolicy::$name(_) => <$policy as Policy>::NAME,)+
                }
            }
        }

        impl Policy for AnyPolicy {
            type Meta = u64;
            type Config = PolicySpec;
            const NAME: &'static str = "any";
            const ON_HIT: OnHit = OnHit::Reorder;

            fn new(capacity: u64, config: &PolicySpec, seed: u64) -> Self {
                AnyPolicy::build(config, capacity, seed).expect("the caller chose a served policy")
            }

            fn resize(&mut self, capacity: u64) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.resize(capacity),)+
                }
            }

            #[inline]
            fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
                match self {
                    $(AnyPolicy::$name(policy) => policy.miss(facts, key_hash, weight),)+
                }
            }

            #[inline]
            fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.insert(&mut Packed(cells), slot),)+
                }
            }

            #[inline]
            fn mark(&self, facts: &impl Facts, slot: Slot, meta: u64) -> Option<u64> {
                match self {
                    $(AnyPolicy::$name(policy) => {
                        policy.mark(facts, slot, Meta::unpack(meta)).map(Meta::pack)
                    })+
                }
            }

            #[inline]
            fn reorder(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                match self {
                    $(AnyPolicy::$name(policy) => match <$policy as Policy>::ON_HIT {
                        OnHit::Ignore => {}
                        OnHit::Mark => {
                            let meta = Meta::unpack(cells.get(slot));
                            if let Some(meta) = policy.mark(cells, slot, meta) {
                                cells.set(slot, meta.pack());
                            }
                        }
                        OnHit::Reorder => policy.reorder(&mut Packed(cells), slot),
                    },)+
                }
            }

            fn reweigh(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old_weight: u32) {
                match self {
                    $(AnyPolicy::$name(policy) => {
                        policy.reweigh(&mut Packed(cells), slot, old_weight);
                    })+
                }
            }

            fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.moved(&mut Packed(cells), old, new),)+
                }
            }

            fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.remove(&mut Packed(cells), slot),)+
                }
            }

            #[inline]
            fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
                match self {
                    $(AnyPolicy::$name(policy) => policy.evict(&mut Packed(cells), budget),)+
                }
            }

            fn usage(&self, cells: &impl Cells<u64>, slot: Slot) -> (Option<u64>, Option<u32>) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.usage(&PackedView(cells), slot),)+
                }
            }

            fn heap_bytes(&self) -> usize {
                match self {
                    $(AnyPolicy::$name(policy) => policy.heap_bytes(),)+
                }
            }

            fn heap_bytes_ahead(&self) -> usize {
                match self {
                    $(AnyPolicy::$name(policy) => policy.heap_bytes_ahead(),)+
                }
            }

            fn check(&self, cells: &impl Cells<u64>) {
                match self {
                    $(AnyPolicy::$name(policy) => policy.check(&PackedView(cells)),)+
                }
            }
        }
    };
}
eviction_policies!(define_any);

impl Default for PolicySpec {
    /// The policy that we recommend.
    fn default() -> Self {
        PolicySpec::S3Fifo(Default::default())
    }
}

/// Implements [`Facts`] for a wrapper of cells by asking what it wraps.
macro_rules! facts_of_inner {
    ($cells:ty) => {
        #[inline]
        fn now(&self) -> Tick {
            self.0.now()
        }
        #[inline]
        fn requests(&self) -> u64 {
            self.0.requests()
        }
        #[inline]
        fn is_live(&self, slot: Slot) -> bool {
            self.0.is_live(slot)
        }
        #[inline]
        fn weight(&self, slot: Slot) -> u32 {
            self.0.weight(slot)
        }
        #[inline]
        fn key_hash(&self, slot: Slot) -> u64 {
            self.0.key_hash(slot)
        }
        #[inline]
        fn deadline(&self, slot: Slot) -> Option<Tick> {
            self.0.deadline(slot)
        }
        #[inline]
        fn len(&self) -> usize {
            self.0.len()
        }
        #[inline]
        fn sample(&self, random: u64) -> Option<Slot> {
            self.0.sample(random)
        }
        #[inline]
        fn next_access(&self, slot: Slot) -> Option<u64> {
            self.0.next_access(slot)
        }
    };
}

pub(crate) use facts_of_inner;

/// A host's `u64` cells as the typed cells that a policy asks for.
pub(crate) struct Packed<'a, C>(pub(crate) &'a mut C);

impl<C: Cells<u64>> Facts for Packed<'_, C> {
    facts_of_inner!(C);
}

impl<M: Meta, C: Cells<u64>> Cells<M> for Packed<'_, C> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        M::unpack(self.0.get(slot))
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        self.0.set(slot, meta.pack());
    }
}

/// The same to look at only.
pub(crate) struct PackedView<'a, C>(pub(crate) &'a C);

impl<C: Cells<u64>> Facts for PackedView<'_, C> {
    facts_of_inner!(C);
}

impl<M: Meta, C: Cells<u64>> Cells<M> for PackedView<'_, C> {
    fn get(&self, slot: Slot) -> M {
        M::unpack(self.0.get(slot))
    }
    fn set(&mut self, _slot: Slot, _meta: M) {
        unreachable!("a check only reads: it has the cells by shared reference");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        text.parse::<PolicySpec>()
            .expect_err("the text is wrong")
            .to_string()
    }

    #[test]
    fn knobs_are_given_in_order_or_by_name() {
        let spec: PolicySpec = "clock:2".parse().expect("it is well formed");
        assert_eq!(spec, "clock:bits=2".parse().expect("it is well formed"));
        assert_eq!(spec.to_string(), "clock:bits=2");
        let spec: PolicySpec = "s3fifo:0.2:threshold=1".parse().expect("it is well formed");
        assert_eq!(spec.to_string(), "s3fifo:small=0.2:threshold=1");
        assert_eq!(PolicySpec::default().to_string(), "s3fifo");
    }

    /// The last one held, and the others were passed over in silence.
    #[test]
    fn a_knob_is_given_once() {
        let twice = "clock: the knob 'bits' is given twice";
        assert_eq!(message("clock:bits=1:bits=2"), twice);
        assert_eq!(message("clock:2:bits=2"), twice);
        let filter = "size:1:max=2".parse::<crate::admit::any::AdmitSpec>();
        let index = "buckets:size=1x1:size=2x2".parse::<crate::expire::any::ExpirySpec>();
        let told = |error: Option<SpecError>| error.map(|error| error.to_string());
        assert_eq!(
            told(filter.err()).as_deref(),
            Some("size: the knob 'max' is given twice")
        );
        assert_eq!(
            told(index.err()).as_deref(),
            Some("buckets: the knob 'size' is given twice")
        );
    }

    #[test]
    fn errors_say_what_was_expected() {
        assert_eq!(message("clock:9"), "clock: bits=9: expected 1 to 3");
        assert_eq!(message("clock:x"), "clock: bits=x: expected 1 to 3");
        assert_eq!(
            message("clock:2:3"),
            "clock has no knob for '3'; expected bits=1"
        );
        assert_eq!(
            message("lru:2"),
            "lru has no knob for '2'; expected no knobs after the name"
        );
        assert_eq!(
            message("s3fifo:tiny=1"),
            "s3fifo has no knob for 'tiny=1'; expected small=0.1, ghost=0.9, threshold=2"
        );
        assert!(
            message("lur")
                .starts_with("no eviction policy is called 'lur'; expected one of: fifo lru")
        );
    }

    #[test]
    fn names_differ_and_lead_back_to_their_policies() {
        for (index, about) in POLICIES.iter().enumerate() {
            assert!(
                POLICIES[..index]
                    .iter()
                    .all(|other| other.name != about.name)
            );
            let spec: PolicySpec = about.name.parse().expect("a name alone is a specification");
            assert_eq!(spec.name(), about.name);
            let built = AnyPolicy::build(&spec, 100, 1);
            assert_eq!(built.as_ref().map(AnyPolicy::meta_bits), about.meta_bits);
            assert_eq!(
                built.map_or(about.on_hit, |policy| policy.on_hit()),
                about.on_hit
            );
        }
    }

    #[test]
    fn defaults_and_bounds_are_shown_as_they_may_be_given() {
        fn check<S: FromStr<Err = SpecError> + fmt::Display>(name: &str, knobs: &[Knob]) {
            for knob in knobs {
                let given = |value: &str| format!("{name}:{}={value}", knob.name).parse::<S>();
                let spec = given(knob.default).expect("a knob takes its default");
                assert_eq!(spec.to_string(), name, "{}", knob.name);
                // Ranges that are not numbers are told in words.
                let bounds: Vec<&str> = knob.range.split(" to ").collect();
                let is_numbers = bounds.iter().all(|bound| !bound.contains(' '));
                for bound in bounds.into_iter().filter(|_| is_numbers) {
                    assert!(given(bound).is_ok(), "{name}: {} = {bound}", knob.name);
                }
            }
        }
        for about in POLICIES {
            check::<PolicySpec>(about.name, about.knobs);
        }
        for about in crate::expire::any::INDEXES {
            check::<crate::expire::any::ExpirySpec>(about.name, about.knobs);
        }
        for about in crate::admit::any::FILTERS {
            check::<crate::admit::any::AdmitSpec>(about.name, about.knobs);
        }
    }
}
