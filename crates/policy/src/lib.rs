//! Eviction policies, admission filters and expiry indexes, each written once and run unchanged in
//! every host: the server, the simulator and the library.
//!
//! An algorithm here never owns keys, values or the table. The host names an entry by a [`Slot`],
//! answers questions about it through [`Facts`], and stores a few bits for the algorithm through
//! [`Cells`]. The host also *pulls* decisions: [`Policy::evict`] and [`ExpiryIndex::pop_expired`]
//! return one slot at a time, and the host frees the entry.
//!
//! The crate needs `alloc` only; its default feature `std` takes functions of real numbers from the
//! standard library.
//!
//! Deliberately absent: a clock (time is an argument), random numbers from outside (seeds are
//! arguments), threads, I/O, unsafe code and dependencies. Work that could grow with the data takes
//! a [`Budget`] and leaves the rest for the next call.
//!
//! Start reading with `evict/lru.rs`, `evict/fifo.rs` and `expire/wheel.rs`. Each of the folders
//! `evict/`, `admit/` and `expire/` has one list of its algorithms, in the folder's module, and one
//! file that chooses among them by name, `any.rs`. The registries are built on `names.rs`,
//! `knobs.rs` and `packed.rs`; `parts/` contains code shared by several algorithms.
#![forbid(unsafe_code)]
#![cfg_attr(not(any(test, feature = "std", feature = "suite")), no_std)]

/// The example of the README, compiled and run as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Named by `knobs!` in other crates.
#[doc(hidden)]
pub extern crate alloc;

pub mod admit;
pub mod any;
pub mod evict;
pub mod expire;
pub mod groups;
pub mod knobs;
pub mod marker;
pub mod names;
pub mod packed;
pub mod parts;
#[cfg(test)]
mod specs;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use marker::Marker;

/// Name of an entry within one shard. Slots are reused: after an entry has left, its slot may name
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Slot(pub u32);

impl Slot {
    /// Every slot is below this limit: a link to an entry fits in 31 bits, and two links leave 2
    /// bits of 64. An arena of 8-byte granules can still hold 16 GiB per shard.
    pub const LIMIT: u32 = (1 << 31) - 1;
}

/// Instant of the wall clock in milliseconds since the Unix epoch. Always an argument or a fact,
/// never read from a clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// Latest deadline: deadlines take 48 bits (until the year 10889), which leaves 16 bits of
    /// their word to the expiry index.
    pub const MAX: Tick = Tick((1 << 48) - 1);
}

/// Number of steps that a call may still take. One step reads one entry or passes one empty bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(pub u32);

impl Budget {
    /// Takes one step. Returns false if none was left.
    #[inline]
    pub fn spend(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }
}

/// Bits that an algorithm keeps in each entry, packed for the host.
///
/// Up to 8 bits are stored in the entry's header, more in a word of 4 or 8 bytes. An expiry index's
/// link of at most 16 bits is stored in the spare bits of the deadline's word.
pub trait Meta: Copy + Default {
    /// Number of low bits of [`Meta::pack`] that may be set.
    const BITS: u32;
    /// Returns the bits, right-aligned.
    fn pack(self) -> u64;
    /// Inverse of [`Meta::pack`].
    fn unpack(bits: u64) -> Self;
}

macro_rules! plain_meta {
    ($($int:ty),*) => {$(
        impl Meta for $int {
            const BITS: u32 = <$int>::BITS;
            #[inline]
            fn pack(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            fn unpack(bits: u64) -> Self {
                bits as $int
            }
        }
    )*};
}
plain_meta!(u8, u16, u32, u64);

impl Meta for () {
    const BITS: u32 = 0;
    fn pack(self) -> u64 {
        0
    }
    fn unpack(_bits: u64) {}
}

/// The host's data about entries, as an algorithm can read it. The host stores all of it anyway.
///
/// Any `slot` may be passed, live or vacant, because indexes keep stale references.
pub trait Facts {
    /// Instant of the current request.
    fn now(&self) -> Tick;
    /// Number of requests so far, which serves as a clock in traces without time.
    fn requests(&self) -> u64;
    /// Whether a live entry is at this slot. For a policy, only entries that were inserted into it
    /// count.
    fn is_live(&self, slot: Slot) -> bool;
    /// Size of a live entry in the host's unit: bytes, or 1 if the host counts objects.
    fn weight(&self, slot: Slot) -> u32;
    /// Hash of a live entry's key: 64 well-mixed bits, the same that [`Policy::miss`] receives.
    fn key_hash(&self, slot: Slot) -> u64;
    /// Deadline of a live entry; `None` if it has none or the slot is vacant.
    fn deadline(&self, slot: Slot) -> Option<Tick>;
    /// Number of live entries. A policy gets the number of entries inserted into it.
    fn len(&self) -> usize;
    /// Whether there is no live entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns a live slot chosen uniformly by the 64 random bits. The host offers only entries
    /// that were inserted into the algorithm. Where those are few among many others, the host may
    /// fail to find one within its bound; it then returns `None` and continues from there at the
    /// next call.
    fn sample(&self, random: u64) -> Option<Slot>;
    /// Returns the number of the next request for this entry; `u64::MAX` if there is none, `None`
    /// if the future is not known. Only an annotated trace has it.
    fn next_access(&self, _slot: Slot) -> Option<u64> {
        None
    }
}

/// Access to an algorithm's own bits in each entry, by value.
pub trait Cells<M: Copy>: Facts {
    /// Returns the bits stored at a live slot; `M::default()` for a new entry.
    fn get(&self, slot: Slot) -> M;
    /// Stores the bits at a live slot.
    fn set(&mut self, slot: Slot, meta: M);
}

/// Kind of work that a hit needs from the policy. It is part of the type, so that the host can use
/// a cheaper lock for policies with lazy promotion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnHit {
    /// A hit changes nothing (FIFO).
    Ignore,
    /// A hit calls [`Policy::mark`], which returns new bits for the entry; shared access is enough.
    /// A host whose readers hold no reference to the policy uses [`Policy::marker`] instead.
    Mark,
    /// A hit calls [`Policy::reorder`], which changes the policy's own structure; exclusive access
    /// is needed.
    Reorder,
}

/// Decision about a key that was missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admit {
    /// Make room and insert the key.
    Yes,
    /// Do not insert the key.
    No,
}

/// Result of [`Policy::evict`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// Victim of the eviction. The policy no longer holds it. The host frees it and does not call
    /// `remove`.
    Victim(Slot),
    /// The budget ran out before a victim was found; the host calls again.
    Again,
    /// The policy holds no entry.
    Empty,
}

/// An eviction policy.
///
/// The host calls the methods in this order. On a hit: `mark` or `reorder`, as `ON_HIT` says. On a
/// miss that inserts: `miss`, then `evict` until there is room, then `insert` once the entry is
/// live. When an entry changes its size in place: `reweigh`, after the change. When an entry is
/// relocated: `moved`, after its bits were copied and the old slot is vacant; if the size changed
/// with it, `reweigh` follows, and `moved` already sees the new weight. When an entry is deleted or
/// expires: `remove`, while it is still live.
///
/// A host drops the policy to forget everything. A policy may hold fewer entries than the host:
/// `volatile-*` policies receive only entries with a deadline.
pub trait Policy: Sized + Send {
    /// The entry's own bits. A policy whose type is [`Meta`] can be served. A wider type, or tables
    /// indexed by slot, confine a policy to the simulator, and its card says so.
    type Meta: Copy + Default;
    /// Knobs of the policy.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// Canonical name in `--policy` and in error texts.
    const NAME: &'static str;
    /// Other names that are accepted. Case, `-` and `_` are ignored anyway.
    const ALIASES: &'static [&'static str] = &[];
    /// Kind of work that a hit needs.
    const ON_HIT: OnHit;
    /// Whether the policy calls [`Facts::next_access`], and so runs only where the future is known.
    const NEEDS_FUTURE: bool = false;
    /// Whether a read of an entry is a hit. If false, a host that distinguishes writes reports only
    /// these as hits.
    const READS_COUNT: bool = true;

    /// Creates a policy for a cache of `capacity` units of weight. Equal seeds give equal
    /// decisions.
    fn new(capacity: u64, config: &Self::Config, seed: u64) -> Self;
    /// Sets the capacity in units of weight, and evicts nothing. A policy that does not depend on
    /// the capacity ignores it.
    fn resize(&mut self, _capacity: u64) {}
    /// Decides about a key that was missed, before room is made for it. Ghosts are looked up here,
    /// and filters can reject the key. A ghost that was found may be remembered until the matching
    /// `insert`, which is not certain to follow.
    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, _weight: u32) -> Admit {
        Admit::Yes
    }
    /// Inserts the entry at `slot`, which has become live.
    fn insert(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot);
    /// Handles a hit for `OnHit::Mark`: returns the entry's new bits, or `None` if they stay the
    /// same. Pure.
    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, _meta: Self::Meta) -> Option<Self::Meta> {
        None
    }
    /// Returns the rule of [`Policy::mark`] as a value, for hosts whose readers cannot hold a
    /// reference to the policy. Except for [`Marker::Windowed`] the rule stays the same until the
    /// policy is dropped. Readers may lose marks of each other, and may mark an entry that has just
    /// left.
    #[inline]
    fn marker(&self) -> Marker {
        Marker::Nothing
    }
    /// Handles a hit for `OnHit::Reorder`.
    #[inline]
    fn reorder(&mut self, _cells: &mut impl Cells<Self::Meta>, _slot: Slot) {}
    /// Handles a change of the entry's weight from `old_weight` to the current `Facts::weight`.
    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<Self::Meta>, _slot: Slot, _old_weight: u32) {}
    /// Handles the relocation of a live entry. Its bits are already at `new`; `old` is vacant.
    fn moved(&mut self, cells: &mut impl Cells<Self::Meta>, old: Slot, new: Slot);
    /// Removes an entry for a reason other than eviction. The call comes before the entry is freed,
    /// while it is still live.
    fn remove(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot);
    /// Chooses one victim, reading no more entries than the budget allows.
    fn evict(&mut self, cells: &mut impl Cells<Self::Meta>, budget: &mut Budget) -> Eviction;
    /// Returns the milliseconds since the last access of a live entry and its number of accesses,
    /// if the policy keeps them. For OBJECT IDLETIME and OBJECT FREQ.
    fn usage(&self, _cells: &impl Cells<Self::Meta>, _slot: Slot) -> (Option<u64>, Option<u32>) {
        (None, None)
    }
    /// Bytes on the heap: queues, ghosts, sketches.
    fn heap_bytes(&self) -> usize;
    /// Bytes by which [`Policy::heap_bytes`] will still grow while the number of entries stays the
    /// same, because a ghost queue is not full yet. A host that bounds its memory reserves them.
    /// Otherwise it would fill up with entries first and have to evict some of them for the ghosts.
    fn heap_bytes_ahead(&self) -> usize {
        0
    }
    /// Panics if the structure is inconsistent in itself or with the host. For tests and fuzzers;
    /// may be slow.
    fn check(&self, cells: &impl Cells<Self::Meta>);
}

/// Result of [`ExpiryIndex::pop_expired`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// An entry whose deadline has passed. The index no longer holds it.
    Slot(Slot),
    /// The budget ran out; more entries may be due.
    Again,
    /// No other entry is due as far as this index has recorded.
    Nothing,
}

/// An index of deadlines.
///
/// An entry is dead when `now > deadline`. The host calls `insert` when an entry gets a deadline
/// (after storing it), `update` when the deadline changes (likewise), and `remove` when the entry
/// loses its deadline or leaves (while `Facts::deadline` still returns the old one). If
/// [`ExpiryIndex::LATER_IS_FREE`], `update` may be omitted for later deadlines, and `old` of a
/// following `update` is then any deadline that the entry has had.
pub trait ExpiryIndex: Sized + Send {
    /// The entry's own bits in addition to its deadline. Up to 16 bits fit in the deadline's word.
    type Link: Meta;
    /// Knobs of the index.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// Canonical name in `--expiry` and in error texts.
    const NAME: &'static str;
    /// Other names that are accepted. Case, `-` and `_` are ignored anyway.
    const ALIASES: &'static [&'static str] = &[];
    /// Whether the host may store a later deadline in an entry without calling `update`. The index
    /// then reads the later deadline when the entry's reference comes up. If false, every change
    /// must be reported.
    const LATER_IS_FREE: bool = false;

    /// Creates an empty index. Equal seeds give equal behaviour.
    fn new(now: Tick, config: &Self::Config, seed: u64) -> Self;
    /// Maximum delay in milliseconds before it reports a dead entry, if it is called often enough.
    /// `Some(0)` is exact, `None` is unbounded (sampling).
    fn granularity(&self) -> Option<u64>;
    /// Inserts the entry at `slot`, which has the deadline that `Facts::deadline` returns.
    fn insert(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot);
    /// Removes an entry that loses its deadline, which `Facts::deadline` still returns, or leaves.
    fn remove(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot);
    /// Handles a change of the deadline from `old` to what `Facts::deadline` now returns.
    fn update(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot, old: Tick);
    /// Handles the relocation of a live entry. Its bits are already at `new`; `old` is vacant.
    fn moved(&mut self, cells: &mut impl Cells<Self::Link>, old: Slot, new: Slot);
    /// Returns one entry that is dead at `now` and removes it from the index, spending at most the
    /// budget.
    fn pop_expired(
        &mut self,
        cells: &mut impl Cells<Self::Link>,
        now: Tick,
        budget: &mut Budget,
    ) -> Due;
    /// Handles a jump of the clock back to `now`: an index that runs at intervals must not wait
    /// until the clock has caught up. The host calls it if an instant is before the last one that
    /// it worked at. A call without a jump is harmless.
    fn clock_went_back(&mut self, _now: Tick) {}
    /// Earliest `now` at which a call of `pop_expired` can be useful: a lower bound on the first
    /// moment at which an entry is dead, or at which the index itself has work (a cascade, a
    /// cycle). `None` if there is nothing to wait for.
    fn next_due(&self) -> Option<Tick>;
    /// Upper bound, in O(1), of the number of entries that are dead at `now` and were not returned
    /// yet.
    fn backlog(&self, now: Tick) -> usize;
    /// Number of live entries in the index.
    fn len(&self) -> usize;
    /// Whether the index holds no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// Panics if the structure is inconsistent in itself or with the host. For tests and fuzzers;
    /// may be slow.
    fn check(&self, cells: &impl Cells<Self::Link>);
}
