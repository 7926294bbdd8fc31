//! The rule by which a hit marks an entry, as a value that readers copy.
//!
//! A host whose readers take no lock cannot call [`Policy::mark`](crate::Policy::mark), because the
//! writer holds the policy by exclusive reference at the same time. It copies a [`Marker`] when it
//! creates the policy and applies it to the entry's packed bits ([`Meta::pack`]). Every policy
//! whose hits mark describes its rule in this form only, so that both hosts follow one rule. The
//! one part of a rule that changes is a word, [`Marker::young`], which the host publishes.

use crate::Meta;

/// A count of hits in some of an entry's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Bits that hold the count.
    pub mask: u64,
    /// Value of these bits at which hits no longer count.
    pub max: u64,
    /// Value that a hit adds.
    pub one: u64,
}

impl Count {
    /// Returns a single bit, which the first hit sets.
    pub const fn bit(bit: u64) -> Count {
        Count {
            mask: bit,
            max: bit,
            one: bit,
        }
    }

    #[inline]
    fn mark(self, bits: u64) -> Option<u64> {
        (bits & self.mask < self.max).then(|| bits + self.one)
    }

    /// Returns the same rule for bits that are stored `shift` places higher.
    const fn shifted(self, shift: u32) -> Count {
        Count {
            mask: self.mask << shift,
            max: self.max << shift,
            one: self.one << shift,
        }
    }
}

/// Rule by which a hit changes an entry's packed bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// A hit changes nothing that a marker can express.
    Nothing,
    /// A hit counts.
    Count(Count),
    /// A hit counts unless the entry is young. The set of young numbers changes when entries are
    /// inserted or evicted. A host that copies the rule reads [`Marker::young`] again after each
    /// change of the policy and applies it by [`Marker::with_young`]. One that does not counts all
    /// hits, because no entry is young at first.
    Windowed {
        /// Count for entries that are not young.
        count: Count,
        /// Set of the numbers in an entry's low six bits that make it young.
        young: u64,
    },
    /// A hit stores the number of the request, shortened by [`stamp_of`].
    Stamp,
    /// Where the bits under `mask` are `value`, a hit counts as `inside`, elsewhere as `outside`.
    Split {
        /// Bits that are compared.
        mask: u64,
        /// Their value for `inside`.
        value: u64,
        /// Count for entries with that value.
        inside: Count,
        /// Count for all other entries.
        outside: Count,
    },
}

impl Marker {
    /// Returns the new bits of an entry after a hit, or `None` if they stay the same. `requests` is
    /// [`Facts::requests`](crate::Facts::requests).
    ///
    /// ```
    /// use policy::{Marker, Policy, any::{AnyPolicy, PolicySpec}};
    /// let sieve = AnyPolicy::build(&"sieve".parse().expect("a policy"), 100, 1).expect("served");
    /// let marked = sieve.marker().mark(0, 1).expect("the first hit sets a bit");
    /// assert_eq!(sieve.marker().mark(marked, 2), None);
    /// ```
    #[inline]
    pub fn mark(self, bits: u64, requests: u64) -> Option<u64> {
        match self {
            Marker::Nothing => None,
            Marker::Count(count) => count.mark(bits),
            Marker::Windowed { young, .. } if young >> (bits & 63) & 1 != 0 => None,
            Marker::Windowed { count, .. } => count.mark(bits),
            Marker::Stamp => {
                let stamp = u64::from(stamp_of(requests));
                (bits != stamp).then_some(stamp)
            }
            Marker::Split {
                mask,
                value,
                inside,
                outside,
            } => {
                let count = if bits & mask == value {
                    inside
                } else {
                    outside
                };
                count.mark(bits)
            }
        }
    }

    /// Returns the set of young numbers of a windowed rule, which changes while the policy works.
    /// A host whose readers hold a copy of the rule publishes this set for them.
    #[inline]
    pub fn young(self) -> Option<u64> {
        match self {
            Marker::Windowed { young, .. } => Some(young),
            _ => None,
        }
    }

    /// Returns a windowed rule with this set of young numbers; any other rule unchanged.
    #[inline]
    pub fn with_young(self, young: u64) -> Marker {
        match self {
            Marker::Windowed { count, .. } => Marker::Windowed { count, young },
            other => other,
        }
    }

    /// Applies the rule to typed bits.
    #[inline]
    pub fn mark_meta<M: Meta>(self, meta: M, requests: u64) -> Option<M> {
        self.mark(meta.pack(), requests).map(M::unpack)
    }

    /// Returns this rule for bits that are stored `shift` places higher; `None` if the rule cannot
    /// be shifted, because it replaces all bits, depends on them, or is a split itself.
    pub fn shifted(self, shift: u32) -> Option<Count> {
        match self {
            Marker::Count(count) => Some(count.shifted(shift)),
            _ => None,
        }
    }
}

/// Returns the number of a request in 32 bits. It is never 0, which means that an entry has none.
#[inline]
pub fn stamp_of(requests: u64) -> u32 {
    (requests as u32).max(1)
}
