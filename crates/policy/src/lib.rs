//! Eviction policies, admission filters and expiry indexes, each written once and run unchanged in
//! three hosts: simulator, embedded library, server.
//!
//! An algorithm here never owns keys, values or the table. The host names an entry by a [`Slot`],
//! answers questions about it through [`Facts`], keeps a few bits for the algorithm through
//! [`Cells`], and *pulls* decisions: [`Policy::evict`] and [`ExpiryIndex::pop_expired`] hand back one
//! slot at a time, the host frees it and knows why.
//!
//! Deliberately absent: a clock (time is an argument), a source of chance (seeds are arguments),
//! threads, I/O, unsafe code and dependencies. Work that could grow with the data takes a
//! [`Budget`] and leaves the rest for the next call.
//!
//! Start reading with `evict/fifo.rs` and `expire/wheel.rs`; `any.rs` is the one list of names. What may
//! stand before a policy is in `admit/`.
#![forbid(unsafe_code)]

pub mod admit;
pub mod any;
pub mod evict;
pub mod expire;
pub mod groups;
pub mod knobs;
pub mod names;
pub mod packed;
pub mod parts;
#[cfg(test)]
mod specs;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

/// Names an entry of one shard. Slots are reused: after an entry is gone its slot may name another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Slot(pub u32);

impl Slot {
    /// Every slot is below this: a link to an entry fits 31 bits, and two links leave 2 bits of 64.
    /// (An arena of 8-byte granules may still hold 16 GiB a shard.)
    pub const LIMIT: u32 = (1 << 31) - 1;
}

/// An instant of the wall clock: milliseconds since the Unix epoch. Always an argument or a fact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// The last instant that a deadline may name: deadlines take 48 bits (the year 10889), which
    /// leaves 16 bits of their word to the expiry index.
    pub const MAX: Tick = Tick((1 << 48) - 1);
}

/// Steps a call may still take. One step is one entry looked at or one empty bucket passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(pub u32);

impl Budget {
    /// Takes one step; false when none was left.
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

/// The bits that an algorithm keeps in each entry, packed for the host.
///
/// `BITS` ≤ 8 live in the entry's header, 9–32 and 33–64 in a word of their own. (An expiry index's
/// link of ≤ 16 bits lives in the spare bits of the deadline's word.)
pub trait Meta: Copy + Default {
    /// How many low bits of [`Meta::pack`] may be set.
    const BITS: u32;
    /// The bits, right-aligned.
    fn pack(self) -> u64;
    /// The inverse of [`Meta::pack`].
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

/// What an algorithm may ask about entries. The host stores all of it anyway.
///
/// Any `slot` may be asked about, live or not: an index that keeps stale references relies on it.
pub trait Facts {
    /// The instant of the current request.
    fn now(&self) -> Tick;
    /// Requests so far: a clock for traces without time.
    fn requests(&self) -> u64;
    /// Whether an entry lives at this slot; to a policy, only an entry that it was told of.
    fn is_live(&self, slot: Slot) -> bool;
    /// The size of a live entry in the host's unit (bytes, or 1 when objects are counted).
    fn weight(&self, slot: Slot) -> u32;
    /// The hash of a live entry's key: 64 good bits, the same as [`Policy::miss`] was told.
    fn key_hash(&self, slot: Slot) -> u64;
    /// When a live entry dies; `None` when it never does, or when the slot is vacant.
    fn deadline(&self, slot: Slot) -> Option<Tick>;
    /// How many entries live; to a policy, how many of those that it was told of.
    fn len(&self) -> usize;
    /// Whether no entry lives.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A live slot, chosen uniformly by the 64 random bits. The host offers only entries that the
    /// asking algorithm was told of by `insert`; where those are few among many others it may fail
    /// to find one within its bound, answers `None`, and goes on from there at the next call.
    fn sample(&self, random: u64) -> Option<Slot>;
    /// The number of the request that asks for this entry next (`u64::MAX`: never); `None` where
    /// the future is not known. Only an annotated trace knows.
    fn next_access(&self, _slot: Slot) -> Option<u64> {
        None
    }
}

/// An algorithm's own bits in each entry, by value.
pub trait Cells<M: Copy>: Facts {
    /// The bits stored at a live slot; `M::default()` after the entry was born.
    fn get(&self, slot: Slot) -> M;
    /// Stores the bits at a live slot.
    fn set(&mut self, slot: Slot, meta: M);
}

/// What a hit costs the policy, in the type: lazy promotion made visible to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnHit {
    /// Nothing to do (FIFO).
    Ignore,
    /// [`Policy::mark`]: a new value for the entry's own bits, shared access is enough.
    Mark,
    /// [`Policy::reorder`]: the policy's own structure changes, exclusive access is needed.
    Reorder,
}

/// The answer to a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admit {
    /// Make room and insert it.
    Yes,
    /// Do not keep it.
    No,
}

/// The answer to [`Policy::evict`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// This entry goes. The policy has forgotten it: the host frees it and does not call `remove`.
    Victim(Slot),
    /// The budget ran out before a victim was found; call again.
    Again,
    /// The policy holds no entry.
    Empty,
}

/// What a policy that learns has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lessons {
    /// Models learned, each in place of the one before.
    pub trainings: u64,
    /// Trainings that taught nothing.
    pub failures: u64,
    /// Rows of features learned from, in all trainings.
    pub training_rows: u64,
    /// How often the model was asked.
    pub inferences: u64,
    /// Rows of features that it was asked about.
    pub inference_rows: u64,
    /// The number of the request at which the last model was learned; `None` before there is one.
    pub trained_at: Option<u64>,
    /// Groups of entries evicted, where whole groups are: those that were merged into others.
    pub groups_evicted: u64,
    /// Bytes on the heap that are there to learn and to predict, and for nothing else.
    pub learning_bytes: u64,
    /// How much each feature counts in the last model, as shares of one; empty before there is one.
    pub importances: Vec<(&'static str, f32)>,
}

/// An eviction policy.
///
/// The host's order of calls. Hit: `mark` or `reorder`, as `ON_HIT` says. Miss that inserts: `miss`
/// → (`evict` until there is room) → the entry becomes live → `insert`. An entry that changes its
/// size in place: `reweigh` after the change. An entry relocated: `moved` after its bits were
/// copied and the old slot fell vacant; if its size changed with it, `reweigh` follows, and `moved`
/// already sees the new weight. An entry deleted or expired: `remove` while it still lives.
///
/// A policy may be told to forget everything by being dropped; it may hold fewer entries than the
/// host (`volatile-*` policies are told of some entries only).
pub trait Policy: Sized + Send {
    /// The entry's own bits. Types that are [`Meta`] can be served; wider ones, or side tables
    /// indexed by slot, confine a policy to the simulator, and its card says so.
    type Meta: Copy + Default;
    /// The policy's knobs.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// The canonical name in `--policy` and in `any.rs`.
    const NAME: &'static str;
    /// Other names that people use for it. Case, `-` and `_` are ignored anyway.
    const ALIASES: &'static [&'static str] = &[];
    /// What a hit costs.
    const ON_HIT: OnHit;
    /// Whether it asks [`Facts::next_access`], and so runs only where the future is known.
    const NEEDS_FUTURE: bool = false;

    /// A policy for a cache of `capacity` units of weight. Equal seeds give equal decisions.
    fn new(capacity: u64, config: &Self::Config, seed: u64) -> Self;
    /// Sets the capacity. Never evicts by itself; a policy that keeps no bound ignores it.
    fn resize(&mut self, _capacity: u64) {}
    /// A key was asked for and is absent, and is about to be inserted: before room is made. Ghosts
    /// learn here and filters veto. What it finds it may keep until the matching `insert`, which
    /// might not come.
    #[inline]
    fn miss(&mut self, _facts: &impl Facts, _key_hash: u64, _weight: u32) -> Admit {
        Admit::Yes
    }
    /// The entry at `slot` became live.
    fn insert(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot);
    /// A hit, for `OnHit::Mark`: the entry's new bits, or `None` when they stay. Pure.
    #[inline]
    fn mark(&self, _facts: &impl Facts, _slot: Slot, _meta: Self::Meta) -> Option<Self::Meta> {
        None
    }
    /// A hit, for `OnHit::Reorder`.
    #[inline]
    fn reorder(&mut self, _cells: &mut impl Cells<Self::Meta>, _slot: Slot) {}
    /// The entry's weight changed from `old_weight` to what `Facts::weight` now says.
    #[inline]
    fn reweigh(&mut self, _cells: &mut impl Cells<Self::Meta>, _slot: Slot, _old_weight: u32) {}
    /// The host relocated a live entry; its bits are already at `new`, `old` is vacant.
    fn moved(&mut self, cells: &mut impl Cells<Self::Meta>, old: Slot, new: Slot);
    /// The entry is about to leave for another reason than eviction; it still lives.
    fn remove(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot);
    /// Chooses one victim, looking at no more entries than the budget allows.
    fn evict(&mut self, cells: &mut impl Cells<Self::Meta>, budget: &mut Budget) -> Eviction;
    /// What it knows of a live entry's use: milliseconds since the last, and how often; each `None`
    /// where it keeps no such thing. For OBJECT IDLETIME and FREQ.
    fn usage(&self, _cells: &impl Cells<Self::Meta>, _slot: Slot) -> (Option<u64>, Option<u32>) {
        (None, None)
    }
    /// Bytes on the heap: queues, ghosts, sketches.
    fn heap_bytes(&self) -> usize;
    /// Bytes that [`Policy::heap_bytes`] will grow by while the entries stay as many as they are: a
    /// ghost queue that is not full yet. A host that bounds its memory sets them aside, or it
    /// would fill up with entries first and have to give a part of them back to the ghosts.
    fn heap_bytes_ahead(&self) -> usize {
        0
    }
    /// Panics when the structure contradicts itself or the host. For tests and fuzzers; may be slow.
    fn check(&self, cells: &impl Cells<Self::Meta>);
}

/// The answer to [`ExpiryIndex::pop_expired`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// This entry's deadline has passed. The index has forgotten it.
    Slot(Slot),
    /// The budget ran out; more may be due.
    Again,
    /// Nothing (more) is due that this index knows of.
    Nothing,
}

/// An index of deadlines.
///
/// An entry is dead when `now > deadline`. The host tells of an entry when it gets a deadline
/// (`insert`, after the deadline was stored), when the deadline changes (`update`, likewise), and
/// when it loses it or leaves (`remove`, while `Facts::deadline` still tells the old one).
pub trait ExpiryIndex: Sized + Send {
    /// The entry's own bits beside its deadline: 16 fit in the deadline's word.
    type Link: Meta;
    /// The index's knobs.
    type Config: Clone + Default + core::fmt::Debug + Send;
    /// The canonical name in `--expiry` and in `expire/any.rs`.
    const NAME: &'static str;
    /// Other names that people use for it. Case, `-` and `_` are ignored anyway.
    const ALIASES: &'static [&'static str] = &[];

    /// An empty index. Equal seeds give equal behaviour.
    fn new(now: Tick, config: &Self::Config, seed: u64) -> Self;
    /// How late, in milliseconds, it may report when called often enough: `Some(0)` is exact,
    /// `None` unbounded (sampling).
    fn granularity(&self) -> Option<u64>;
    /// The entry at `slot` got the deadline that `Facts::deadline` tells.
    fn insert(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot);
    /// The entry loses its deadline (`Facts::deadline` still tells it) or leaves.
    fn remove(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot);
    /// The deadline changed from `old` to what `Facts::deadline` now tells.
    fn update(&mut self, cells: &mut impl Cells<Self::Link>, slot: Slot, old: Tick);
    /// The host relocated a live entry; its bits are already at `new`, `old` is vacant.
    fn moved(&mut self, cells: &mut impl Cells<Self::Link>, old: Slot, new: Slot);
    /// Hands out one entry that is dead at `now`, spending at most the budget.
    fn pop_expired(
        &mut self,
        cells: &mut impl Cells<Self::Link>,
        now: Tick,
        budget: &mut Budget,
    ) -> Due;
    /// The clock went back to `now`: an index that runs at intervals must not wait until it gets to where
    /// it was. A host says so when an instant is before the last one that it worked at; to say it though
    /// the clock went on is harmless.
    fn clock_went_back(&mut self, _now: Tick) {}
    /// The earliest `now` at which calling `pop_expired` again can be useful: a lower bound of the
    /// first moment at which an entry is dead, or at which the index wants to run (a cascade, a
    /// cycle). `None`: nothing to wait for.
    fn next_due(&self) -> Option<Tick>;
    /// An upper bound, in O(1), of the entries dead at `now` and not yet handed out.
    fn backlog(&self, now: Tick) -> usize;
    /// How many live entries it holds.
    fn len(&self) -> usize;
    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
    /// Panics when the structure contradicts itself or the host. For tests and fuzzers; may be slow.
    fn check(&self, cells: &impl Cells<Self::Link>);
}
