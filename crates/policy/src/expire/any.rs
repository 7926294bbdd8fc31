//! Expiry indexes chosen by name.
//!
//! A new index is a file next to this one and a line in `expiry_indexes!` in the folder's module,
//! which declares the module. The line gives the index its name in [`ExpirySpec`], its place in
//! [`AnyExpiry`], and its row in [`INDEXES`]. The file runs the conformance suite with its own
//! line.

use crate::expire::{self, expiry_indexes};
use crate::knobs::{Knob, Knobs, SpecError, read_knobs, write_knobs};
use crate::names::is_same;
use crate::packed::{Packed, PackedView};
use crate::{Budget, Cells, Due, ExpiryIndex, Meta, Slot, Tick};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Description of one index; a row of the table in the docs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The canonical name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// Number of bits kept for each entry in addition to its deadline. Up to 16 fit in the word of
    /// the deadline.
    pub link_bits: u32,
    /// Knobs of the index.
    pub knobs: &'static [Knob],
}

impl About {
    /// Returns the canonical name, then the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        core::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Returns the canonical names, aliases and presets of all indexes.
pub fn names() -> impl Iterator<Item = &'static str> {
    INDEXES
        .iter()
        .flat_map(About::names)
        .chain(PRESETS.iter().map(|(name, _)| *name))
}

/// Finds an index by its name or an alias; case, `-` and `_` are ignored.
pub fn find(name: &str) -> Result<&'static About, SpecError> {
    let is_named = |about: &&About| about.names().any(|own| is_same(own, name));
    let found = INDEXES.iter().find(is_named);
    found.ok_or_else(|| SpecError::unknown_name("expiry index", name, names()))
}

/// Preset names, each with the index and knobs that it stands for. More knobs may follow a preset.
pub const PRESETS: &[(&str, &str)] = &[
    // Algorithm 2 of Xie and Chung with their N = 20, n = 10 and δ = 25 %: their reading of Redis
    // 5.
    ("sampled-5", "sampled:release=5:iterations=10"),
];

/// Replaces a preset's name at the start of a specification by the text that it stands for.
fn written_out(text: &str) -> Option<String> {
    let name = text.split(':').next()?;
    let (_, spec) = PRESETS.iter().find(|(preset, _)| is_same(preset, name))?;
    Some(format!("{spec}{}", &text[name.len()..]))
}

macro_rules! define_any {
    ($([mod $module:ident] $name:ident = $index:ty,)+) => {
        /// Descriptions of all indexes, in the order of the list.
        pub const INDEXES: &[About] = &[
            $(About {
                name: <$index as ExpiryIndex>::NAME,
                aliases: <$index as ExpiryIndex>::ALIASES,
                link_bits: <<$index as ExpiryIndex>::Link as Meta>::BITS,
                knobs: <<$index as ExpiryIndex>::Config as Knobs>::KNOBS,
            },)+
        ];

        /// An index and its knobs, as given by a user: `wheel`, `sampled:effort=10`. Knobs follow
        /// the name after colons, in their order or by name.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the indexes, whose files describe them")]
        pub enum ExpirySpec {
            $($name(<$index as ExpiryIndex>::Config),)+
        }

        impl ExpirySpec {
            /// Returns the index's canonical name, without its knobs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(ExpirySpec::$name(_) => <$index as ExpiryIndex>::NAME,)+
                }
            }

            /// Number of low bits of an entry's link that the index uses.
            pub fn link_bits(&self) -> u32 {
                match self {
                    $(ExpirySpec::$name(_) => <<$index as ExpiryIndex>::Link as Meta>::BITS,)+
                }
            }
        }

        impl FromStr for ExpirySpec {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<Self, SpecError> {
                let preset = written_out(text);
                let text = preset.as_deref().unwrap_or(text);
                let mut parts = text.split(':');
                let name = find(parts.next().unwrap_or_default())?.name;
                $(if name == <$index as ExpiryIndex>::NAME {
                    return read_knobs(<$index as ExpiryIndex>::NAME, parts).map(ExpirySpec::$name);
                })+
                unreachable!("every index found is in the list")
            }
        }

        impl fmt::Display for ExpirySpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())?;
                match self {
                    $(ExpirySpec::$name(config) => write_knobs(f, config),)+
                }
            }
        }

        /// An index chosen at run time. Its link in an entry is a `u64` of which the low
        /// [`AnyExpiry::link_bits`] may be set.
        #[expect(missing_docs, reason = "the variants are the indexes, whose files describe them")]
        pub enum AnyExpiry {
            $($name($index),)+
        }

        impl AnyExpiry {
            /// Number of low bits of an entry's link that this index uses.
            pub fn link_bits(&self) -> u32 {
                match self {
                    $(AnyExpiry::$name(_) => <<$index as ExpiryIndex>::Link as Meta>::BITS,)+
                }
            }

            /// Returns the index's canonical name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(AnyExpiry::$name(_) => <$index as ExpiryIndex>::NAME,)+
                }
            }
        }

        impl ExpiryIndex for AnyExpiry {
            type Link = u64;
            type Config = ExpirySpec;
            const NAME: &'static str = "any";

            fn new(now: Tick, config: &ExpirySpec, seed: u64) -> Self {
                match config {
                    $(ExpirySpec::$name(config) => {
                        AnyExpiry::$name(<$index as ExpiryIndex>::new(now, config, seed))
                    })+
                }
            }

            fn granularity(&self) -> Option<u64> {
                match self {
                    $(AnyExpiry::$name(index) => index.granularity(),)+
                }
            }

            #[inline]
            fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                debug_assert!(cells.deadline(slot).is_some(), "the deadline is stored first");
                match self {
                    $(AnyExpiry::$name(index) => index.insert(&mut Packed(cells), slot),)+
                }
            }

            #[inline]
            fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
                debug_assert!(cells.deadline(slot).is_some(), "the deadline is kept until then");
                match self {
                    $(AnyExpiry::$name(index) => index.remove(&mut Packed(cells), slot),)+
                }
            }

            #[inline]
            fn update(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old: Tick) {
                debug_assert!(cells.deadline(slot).is_some(), "the deadline is stored first");
                match self {
                    $(AnyExpiry::$name(index) => index.update(&mut Packed(cells), slot, old),)+
                }
            }

            fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
                match self {
                    $(AnyExpiry::$name(index) => index.moved(&mut Packed(cells), old, new),)+
                }
            }

            #[inline]
            fn pop_expired(
                &mut self,
                cells: &mut impl Cells<u64>,
                now: Tick,
                budget: &mut Budget,
            ) -> Due {
                let due = match self {
                    $(AnyExpiry::$name(index) => {
                        index.pop_expired(&mut Packed(cells), now, budget)
                    })+
                };
                if let Due::Slot(slot) = due {
                    let deadline = cells.deadline(slot);
                    debug_assert!(deadline.is_some_and(|deadline| deadline < now), "it is dead");
                }
                due
            }

            fn clock_went_back(&mut self, now: Tick) {
                match self {
                    $(AnyExpiry::$name(index) => index.clock_went_back(now),)+
                }
            }

            fn next_due(&self) -> Option<Tick> {
                match self {
                    $(AnyExpiry::$name(index) => index.next_due(),)+
                }
            }

            fn backlog(&self, now: Tick) -> usize {
                match self {
                    $(AnyExpiry::$name(index) => index.backlog(now),)+
                }
            }

            fn len(&self) -> usize {
                match self {
                    $(AnyExpiry::$name(index) => index.len(),)+
                }
            }

            fn heap_bytes(&self) -> usize {
                match self {
                    $(AnyExpiry::$name(index) => index.heap_bytes(),)+
                }
            }

            fn check(&self, cells: &impl Cells<u64>) {
                match self {
                    $(AnyExpiry::$name(index) => index.check(&PackedView(cells)),)+
                }
            }
        }
    };
}
expiry_indexes!(define_any);

impl AnyExpiry {
    /// Returns the index if it is [`Ranked`](expire::ranked::Ranked).
    #[inline]
    pub fn ranked(&self) -> Option<&expire::ranked::Ranked> {
        match self {
            AnyExpiry::Ranked(index) => Some(index),
            _ => None,
        }
    }
}

impl Default for ExpirySpec {
    /// Returns the wheel, because it is exact.
    fn default() -> Self {
        ExpirySpec::Wheel(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> ExpirySpec {
        text.parse().expect("it is well formed")
    }

    fn message(text: &str) -> String {
        text.parse::<ExpirySpec>()
            .expect_err("the text is wrong")
            .to_string()
    }

    macro_rules! specs {
        ($([mod $module:ident] $name:ident = $index:ty,)+) => { [$(<$index as ExpiryIndex>::NAME),+] };
    }

    #[test]
    fn names_lead_back_to_their_indexes() {
        for (name, about) in expiry_indexes!(specs).into_iter().zip(INDEXES) {
            assert_eq!(name, about.name);
            let spec = spec(name);
            assert_eq!(spec.to_string(), name);
            let index = AnyExpiry::new(Tick(0), &spec, 1);
            assert_eq!((index.name(), index.link_bits()), (name, about.link_bits));
            assert_eq!(spec.link_bits(), about.link_bits);
        }
    }

    #[test]
    fn knobs_are_given_in_order_or_by_name() {
        assert_eq!(spec("sampled:10"), spec("sampled:effort=10"));
        assert_eq!(
            spec("sampled:1:10:release=5").to_string(),
            "sampled:release=5"
        );
        assert_eq!(
            message("sampled:effort=11"),
            "sampled: effort=11: expected 1 to 10"
        );
        assert_eq!(
            message("wheel:3"),
            "wheel has no knob for '3'; expected no knobs after the name"
        );
        assert_eq!(
            message("whele"),
            "no expiry index is called 'whele': did you mean 'wheel'? docs/reference/policies.md lists all names"
        );
    }

    #[test]
    fn a_preset_is_an_index_with_knobs() {
        for (name, written) in PRESETS {
            assert_eq!(spec(name), spec(written));
        }
        assert_eq!(
            spec("sampled-5:shards=8").to_string(),
            "sampled:release=5:shards=8:iterations=10"
        );
        assert_eq!(spec("Sampled_5:shards=8"), spec("sampled-5:shards=8"));
        assert_eq!(spec("TimingWheel"), spec("wheel"));
        assert!(message("sampled-50").contains("no expiry index is called 'sampled-50'"));
        assert_eq!(
            message("sampled-5:release=7"),
            "sampled: the knob 'release' is given twice"
        );
    }

    #[test]
    fn a_ring_of_buckets_is_given_by_its_size() {
        assert_eq!(spec("buckets:120x1000"), spec("buckets"));
        assert_eq!(spec("buckets:60x1000").to_string(), "buckets:size=60x1000");
        assert_eq!(
            spec("buckets:size=1x1:iterations=10").to_string(),
            "buckets:size=1x1:iterations=10"
        );
        assert_eq!(
            spec("buckets:hz=20:shards=8").to_string(),
            "buckets:hz=20:shards=8"
        );
        assert_eq!(message("buckets:hz=0"), "buckets: hz=0: expected 1 to 500");
        for size in [
            "0x1000",
            "120x0",
            "120",
            "x",
            "120x-1",
            "65537x1",
            "2x140737488355329",
            "60000x18446744073709551615",
            "1x18446744073709551616",
        ] {
            assert_eq!(
                message(&format!("buckets:{size}")),
                format!(
                    "buckets: size={size}: expected NUM_BUCKETSxBASE such as 120x1000: 1 to 65536 \
                     buckets of at least 1 ms, together at most 2^48 ms"
                )
            );
        }
    }

    crate::index_suite!(
        AnyExpiry,
        ExpirySpec::default(),
        spec("sampled:effort=3"),
        spec("buckets")
    );
}
