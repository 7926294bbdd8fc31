//! Eviction policies chosen by name.
//!
//! The list of policies is `eviction_policies!` in `evict.rs`. A line gives the policy its name in
//! [`PolicySpec`] (`--policy`, `--maxmemory-policy`), its place in [`AnyPolicy`] (run-time choice,
//! for the server), its turn in [`PolicySpec::visit`] (static choice, for the simulator), and its
//! row in [`POLICIES`] (for the docs).

use crate::evict::{self, eviction_policies};
use crate::knobs::{Knob, Knobs, SpecError, read_knobs, write_knobs};
use crate::names::is_same;
use crate::packed::{Packed, PackedView};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, Meta, OnHit, Policy, Slot};
use core::fmt;
use core::str::FromStr;

/// Description of one policy; a row of the table in the docs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The canonical name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// Kind of work that a hit needs.
    pub on_hit: OnHit,
    /// Number of bits kept in an entry; `None` for a policy that only the simulator runs.
    pub meta_bits: Option<u32>,
    /// Knobs of the policy.
    pub knobs: &'static [Knob],
}

impl About {
    /// Returns the canonical name, then the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        core::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether this is the policy's name or one of its aliases; case, `-` and `_` are ignored.
    pub fn is_named(&self, name: &str) -> bool {
        self.names().any(|own| is_same(own, name))
    }
}

/// Name of the kind of this list's elements in a [`SpecError`].
pub const KIND: &str = "eviction policy";

/// Returns the canonical names and aliases of all policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().flat_map(About::names)
}

/// Finds a policy by its name or an alias; case, `-` and `_` are ignored.
///
/// ```
/// assert_eq!(policy::any::find("S3-FIFO").map(|about| about.name), Ok("s3fifo"));
/// let error = policy::any::find("lur").expect_err("there is no such policy");
/// assert!(error.to_string().contains("did you mean 'lru'?"));
/// ```
pub fn find(name: &str) -> Result<&'static About, SpecError> {
    let found = POLICIES.iter().find(|about| about.is_named(name));
    found.ok_or_else(|| SpecError::unknown_name(KIND, name, names()))
}

/// Code to run with a policy whose type [`PolicySpec::visit`] chooses: a policy named at run time
/// runs in code compiled for it alone.
pub trait Visitor {
    /// Type of the code's result.
    type Output;
    /// Runs the code with policy `P`.
    fn visit<P: Policy + 'static>(self, config: &P::Config) -> Self::Output;
}

macro_rules! define_any {
    (served { $($([mod $module:ident])? $name:ident = $policy:ty,)+ }
     simulated { $($([mod $wide_module:ident])? $wide_name:ident = $wide:ty,)* }) => {
        /// Descriptions of all policies, in the order of the list.
        pub const POLICIES: &[About] = &[
            $(About {
                name: <$policy as Policy>::NAME,
                aliases: <$policy as Policy>::ALIASES,
                on_hit: <$policy as Policy>::ON_HIT,
                meta_bits: Some(<<$policy as Policy>::Meta as Meta>::BITS),
                knobs: <<$policy as Policy>::Config as Knobs>::KNOBS,
            },)+
            $(About {
                name: <$wide as Policy>::NAME,
                aliases: <$wide as Policy>::ALIASES,
                on_hit: <$wide as Policy>::ON_HIT,
                meta_bits: None,
                knobs: <<$wide as Policy>::Config as Knobs>::KNOBS,
            },)*
        ];

        /// A policy and its knobs, as given by a user: `lru`, `clock:2`, `s3fifo:small=0.2`. Knobs
        /// follow the name after colons, in their order or by name.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the policies, whose files describe them")]
        pub enum PolicySpec {
            $($name(<$policy as Policy>::Config),)+
            $($wide_name(<$wide as Policy>::Config),)*
        }

        impl PolicySpec {
            /// Returns the policy's canonical name, without its knobs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(PolicySpec::$name(_) => <$policy as Policy>::NAME,)+
                    $(PolicySpec::$wide_name(_) => <$wide as Policy>::NAME,)*
                }
            }

            /// Whether the policy needs to know future requests, which only the simulator does.
            pub fn needs_future(&self) -> bool {
                match self {
                    $(PolicySpec::$name(_) => <$policy as Policy>::NEEDS_FUTURE,)+
                    $(PolicySpec::$wide_name(_) => <$wide as Policy>::NEEDS_FUTURE,)*
                }
            }

            /// Runs the visitor with the policy's own type.
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
                let name = find(parts.next().unwrap_or_default())?.name;
                $(if name == <$policy as Policy>::NAME {
                    return read_knobs(<$policy as Policy>::NAME, parts).map(PolicySpec::$name);
                })+
                $(if name == <$wide as Policy>::NAME {
                    return read_knobs(<$wide as Policy>::NAME, parts).map(PolicySpec::$wide_name);
                })*
                unreachable!("every policy found is in the list")
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
        #[expect(missing_docs, reason = "the variants are the policies, whose files describe them")]
        pub enum AnyPolicy {
            $($name($policy),)+
        }

        impl AnyPolicy {
            /// Creates the policy that the specification names; `None` if it cannot be served.
            pub fn build(spec: &PolicySpec, capacity: u64, seed: u64) -> Option<Self> {
                match spec {
                    $(PolicySpec::$name(config) => {
                        Some(AnyPolicy::$name(<$policy as Policy>::new(capacity, config, seed)))
                    })+
                    $(PolicySpec::$wide_name(_) => None,)*
                }
            }

            /// Number of low bits of the entry's `u64` that this policy uses.
            pub fn meta_bits(&self) -> u32 {
                match self {
                    $(AnyPolicy::$name(_) => <<$policy as Policy>::Meta as Meta>::BITS,)+
                }
            }

            /// Returns the kind of work that a hit needs. [`Policy::reorder`] handles all three
            /// kinds.
            pub fn on_hit(&self) -> OnHit {
                match self {
                    $(AnyPolicy::$name(_) => <$policy as Policy>::ON_HIT,)+
                }
            }

            /// Returns the policy's canonical name.
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
                debug_assert!(cells.is_live(slot), "an entry is inserted once it is live");
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
            fn marker(&self) -> Marker {
                match self {
                    $(AnyPolicy::$name(policy) => policy.marker(),)+
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
                debug_assert_ne!(old, new, "a relocated entry has another slot");
                debug_assert!(cells.is_live(new), "a relocated entry is live");
                match self {
                    $(AnyPolicy::$name(policy) => policy.moved(&mut Packed(cells), old, new),)+
                }
            }

            fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                debug_assert!(cells.is_live(slot), "an entry is removed while it is live");
                match self {
                    $(AnyPolicy::$name(policy) => policy.remove(&mut Packed(cells), slot),)+
                }
            }

            #[inline]
            fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
                let eviction = match self {
                    $(AnyPolicy::$name(policy) => policy.evict(&mut Packed(cells), budget),)+
                };
                if let Eviction::Victim(slot) = eviction {
                    debug_assert!(cells.is_live(slot), "a victim is live until it is freed");
                }
                eviction
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
    /// Returns the recommended policy: on the open traces, it has the best mean miss ratio of those
    /// whose hits only mark entries (`docs/lab/library.md`).
    fn default() -> Self {
        PolicySpec::S3FifoW(Default::default())
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
        assert_eq!(PolicySpec::default().to_string(), "s3fifo-w");
    }

    #[test]
    fn a_knob_given_twice_is_refused() {
        let twice = "clock: the knob 'bits' is given twice";
        assert_eq!(message("clock:bits=1:bits=2"), twice);
        assert_eq!(message("clock:2:bits=2"), twice);
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
        assert_eq!(
            message("lur"),
            "no eviction policy is called 'lur': did you mean 'lru'? docs/reference/policies.md lists all names"
        );
        assert_eq!(
            message("quantum"),
            "no eviction policy is called 'quantum': docs/reference/policies.md lists all names"
        );
    }

    #[test]
    fn names_lead_back_to_their_policies() {
        for about in POLICIES {
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
    fn names_ignore_case_and_hyphens_and_have_aliases() {
        for (given, name) in [
            ("LRU", "lru"),
            ("exact-lru", "lru"),
            ("Exact_LFU", "lfu"),
            ("2q", "twoq"),
            ("2Q:newcomers=0.3", "twoq"),
            ("s3-fifo", "s3fifo"),
            ("S3_FIFO_D", "s3fifo-d"),
            ("wtinylfu", "w-tinylfu"),
            ("W-TinyLFU", "w-tinylfu"),
            ("lru2", "lru-k"),
            ("CLOCKPRO", "clock-pro"),
        ] {
            let spec: PolicySpec = given.parse().expect("it names a policy");
            assert_eq!(spec.name(), name);
        }
    }
}
