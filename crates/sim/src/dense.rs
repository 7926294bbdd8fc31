//! Entries whose slots are object ids: no keys, no values, no table.
//!
//! ```text
//! by object    live 1 bit · policy bits size_of Meta · next access 4*
//! sampling     8 bytes, from the first sample on
//! with TTLs    weight 4 · deadline 6 and link 2, or a separate link of 8
//! ```
//!
//! A column marked * exists only if the policy needs it. Weights that never change are the trace's,
//! shared by all replays.

use cache::prefetch::prefetch;
use cache::{Entries, Owner};
use policy::parts::chance::scramble;
use policy::{Cells, Facts, Meta, Slot, Tick};
use std::cell::OnceCell;

/// Owner id of the only policy of a replay.
pub(crate) const OWNER: Owner = 1;
/// Maximum number of entries inspected to find a random one with a deadline.
const LOOKS_MAX: u64 = 32;

/// Weights, deadlines and index links of entries.
pub(crate) trait Traits {
    /// Whether no entry ever has a deadline or changes weight, so that hosts can leave out code for
    /// these.
    const IS_FIXED: bool;
    /// Bits of the expiry index in each entry.
    type Link: Meta;
    fn weight(&self, slot: Slot) -> u32;
    fn deadline(&self, slot: Slot) -> Option<Tick>;
    fn link(&self, slot: Slot) -> Self::Link;
    fn set_link(&mut self, slot: Slot, link: Self::Link);
    /// Clears the deadline of a removed entry.
    fn clear(&mut self, slot: Slot);
    /// Number of live entries with a deadline.
    fn deadline_count(&self) -> usize;
    fn heap_bytes(&self) -> usize;
}

/// Weights of the trace, without deadlines.
#[derive(Debug)]
pub(crate) struct Fixed<'t> {
    weights: &'t [u32],
    /// Mask applied to the weights: all ones, or 0 if one weight is used for all objects.
    mask: u32,
}

impl<'t> Fixed<'t> {
    /// Weight 1 for every entry.
    pub(crate) fn ones() -> Self {
        Fixed {
            weights: &[1],
            mask: 0,
        }
    }

    pub(crate) fn by_object(weights: &'t [u32]) -> Self {
        Fixed {
            weights,
            mask: u32::MAX,
        }
    }
}

impl Traits for Fixed<'_> {
    const IS_FIXED: bool = true;
    type Link = ();
    #[inline(always)]
    fn weight(&self, slot: Slot) -> u32 {
        self.weights[(slot.0 & self.mask) as usize]
    }
    #[inline]
    fn deadline(&self, _slot: Slot) -> Option<Tick> {
        None
    }
    fn link(&self, _slot: Slot) {}
    fn set_link(&mut self, _slot: Slot, _link: ()) {}
    #[inline]
    fn clear(&mut self, _slot: Slot) {}
    fn deadline_count(&self) -> usize {
        0
    }
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Weights and deadlines of each entry.
#[derive(Debug)]
pub(crate) struct Varying {
    weights: Vec<u32>,
    /// `deadline 48 | link 16`; deadline 0 means none.
    deadlines: Vec<u64>,
    /// Links of an index that needs more than 16 bits.
    wide_links: Vec<u64>,
    deadline_count: usize,
}

const LINK_BITS: u32 = 16;

impl Varying {
    pub(crate) fn new(objects: usize, link_bits: u32) -> Self {
        Varying {
            weights: vec![0; objects],
            deadlines: vec![0; objects],
            wide_links: if link_bits > LINK_BITS {
                vec![0; objects]
            } else {
                Vec::new()
            },
            deadline_count: 0,
        }
    }

    /// Bytes per object.
    pub(crate) fn bytes_per_object(link_bits: u32) -> u64 {
        if link_bits > LINK_BITS { 20 } else { 12 }
    }

    pub(crate) fn set_weight(&mut self, slot: Slot, weight: u32) {
        self.weights[slot.0 as usize] = weight;
    }

    /// Sets or removes the deadline. A new deadline starts with an empty link, a changed one keeps
    /// its link.
    pub(crate) fn set_deadline(&mut self, slot: Slot, deadline: Option<Tick>) {
        let at = slot.0 as usize;
        let had = self.deadlines[at] >> LINK_BITS != 0;
        let link = if had { self.deadlines[at] & 0xffff } else { 0 };
        self.deadlines[at] = match deadline {
            Some(Tick(ms)) => {
                debug_assert!(ms > 0 && ms <= Tick::MAX.0);
                ms << LINK_BITS | link
            }
            None => 0,
        };
        if !had && let Some(link) = self.wide_links.get_mut(at) {
            *link = 0;
        }
        self.deadline_count += usize::from(deadline.is_some());
        self.deadline_count -= usize::from(had);
    }
}

impl Traits for Varying {
    const IS_FIXED: bool = false;
    type Link = u64;
    #[inline]
    fn weight(&self, slot: Slot) -> u32 {
        self.weights[slot.0 as usize]
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        match self.deadlines[slot.0 as usize] >> LINK_BITS {
            0 => None,
            ms => Some(Tick(ms)),
        }
    }
    #[inline]
    fn link(&self, slot: Slot) -> u64 {
        match self.wide_links.get(slot.0 as usize) {
            Some(&link) => link,
            None => self.deadlines[slot.0 as usize] & 0xffff,
        }
    }
    #[inline]
    fn set_link(&mut self, slot: Slot, link: u64) {
        if let Some(wide) = self.wide_links.get_mut(slot.0 as usize) {
            *wide = link;
            return;
        }
        debug_assert!(link <= 0xffff);
        let word = &mut self.deadlines[slot.0 as usize];
        *word = *word & !0xffff | link;
    }
    fn clear(&mut self, slot: Slot) {
        self.set_deadline(slot, None);
    }
    fn deadline_count(&self) -> usize {
        self.deadline_count
    }
    fn heap_bytes(&self) -> usize {
        self.weights.capacity() * 4 + (self.deadlines.capacity() + self.wide_links.capacity()) * 8
    }
}

/// Live slots in arbitrary order with the position of each, for uniform samples.
#[derive(Debug)]
struct LiveList {
    members: Vec<u32>,
    places: Vec<u32>,
}

impl LiveList {
    fn of(live: &Bits, objects: usize) -> Self {
        let mut live_list = LiveList {
            members: Vec::new(),
            places: vec![0; objects],
        };
        live.ones().for_each(|slot| live_list.add(slot));
        live_list
    }

    fn add(&mut self, slot: u32) {
        self.places[slot as usize] = self.members.len() as u32;
        self.members.push(slot);
    }

    fn take(&mut self, slot: u32) {
        let place = self.places[slot as usize];
        let taken = self.members.swap_remove(place as usize);
        debug_assert_eq!(taken, slot);
        if let Some(&other) = self.members.get(place as usize) {
            self.places[other as usize] = place;
        }
    }

    fn sample(&self, random: u64) -> Option<Slot> {
        let index = (u128::from(random) * self.members.len() as u128) >> 64;
        self.members.get(index as usize).map(|&slot| Slot(slot))
    }
}

/// One bit per object. For a million objects they fit the L2 cache.
#[derive(Debug)]
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    #[inline(always)]
    fn has(&self, slot: Slot) -> bool {
        let word = self.words.get(slot.0 as usize / 64);
        word.is_some_and(|word| word >> (slot.0 % 64) & 1 != 0)
    }
    #[inline(always)]
    fn set(&mut self, slot: Slot) {
        self.words[slot.0 as usize / 64] |= 1 << (slot.0 % 64);
    }
    #[inline(always)]
    fn clear(&mut self, slot: Slot) {
        self.words[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
    }
    fn ones(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 != 0)
                .map(move |bit| index as u32 * 64 + bit)
        })
    }
}

/// Entries of a replay.
#[derive(Debug)]
pub(crate) struct Dense<M, T> {
    metas: Vec<M>,
    live: Bits,
    len: usize,
    pub(crate) traits: T,
    live_list: OnceCell<LiveList>,
    /// Number of each object's next request; empty unless the policy needs it.
    upcoming: Vec<u32>,
    now: Tick,
    requests: u64,
}

/// Maximum bytes per object of the arrays of a [`Dense`], without its traits.
pub(crate) fn bytes_per_object<M>() -> u64 {
    let (live, upcoming, live_list) = (1, 4, 8);
    size_of::<M>() as u64 + live + upcoming + live_list
}

impl<M: Copy + Default, T: Traits> Dense<M, T> {
    pub(crate) fn new(objects: usize, traits: T, knows_future: bool) -> Self {
        Dense {
            metas: vec![M::default(); objects],
            live: Bits {
                words: vec![0; objects.div_ceil(64)],
            },
            len: 0,
            traits,
            live_list: OnceCell::new(),
            upcoming: if knows_future {
                vec![u32::MAX; objects]
            } else {
                Vec::new()
            },
            now: Tick(0),
            requests: 0,
        }
    }

    /// Bytes of the arrays.
    pub(crate) fn heap_bytes(&self) -> usize {
        let live_list = self.live_list.get().map_or(0, |live_list| {
            (live_list.members.capacity() + live_list.places.capacity()) * 4
        });
        self.metas.capacity() * size_of::<M>()
            + self.live.words.len() * 8
            + self.traits.heap_bytes()
            + self.upcoming.capacity() * 4
            + live_list
    }

    /// Prefetches the cache lines that a request for this object accesses first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: Slot) {
        prefetch(&self.live.words[slot.0 as usize / 64]);
        prefetch(&self.metas[slot.0 as usize]);
    }

    #[inline(always)]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.live.has(slot)
    }

    /// Sets the number of the next request for this object.
    #[inline(always)]
    pub(crate) fn set_upcoming(&mut self, slot: Slot, next: u32) {
        self.upcoming[slot.0 as usize] = next;
    }

    /// Makes an entry live. Its weight and deadline must already be set.
    #[inline]
    pub(crate) fn add(&mut self, slot: Slot) {
        debug_assert!(!self.live.has(slot));
        self.metas[slot.0 as usize] = M::default();
        self.live.set(slot);
        self.len += 1;
        if let Some(live_list) = self.live_list.get_mut() {
            live_list.add(slot.0);
        }
    }

    /// Removes an entry that the algorithms no longer track.
    #[inline]
    pub(crate) fn take(&mut self, slot: Slot) {
        debug_assert!(self.live.has(slot));
        self.live.clear(slot);
        self.traits.clear(slot);
        self.len -= 1;
        if let Some(live_list) = self.live_list.get_mut() {
            live_list.take(slot.0);
        }
    }

    /// Sets the time between requests.
    pub(crate) fn set_now(&mut self, now: Tick) {
        self.now = now;
    }

    /// Iterates over the live slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.live.ones().map(Slot)
    }
}

/// Hash of an object's id.
#[inline(always)]
pub(crate) fn hash_of(slot: Slot) -> u64 {
    scramble(u64::from(slot.0) + 1)
}

macro_rules! facts {
    () => {
        #[inline]
        fn now(&self) -> Tick {
            self.entries().now
        }
        #[inline]
        fn requests(&self) -> u64 {
            self.entries().requests
        }
        #[inline(always)]
        fn is_live(&self, slot: Slot) -> bool {
            self.entries().live.has(slot)
        }
        #[inline(always)]
        fn weight(&self, slot: Slot) -> u32 {
            self.entries().traits.weight(slot)
        }
        #[inline(always)]
        fn key_hash(&self, slot: Slot) -> u64 {
            hash_of(slot)
        }
        #[inline]
        fn deadline(&self, slot: Slot) -> Option<Tick> {
            let entries = self.entries();
            if entries.live.has(slot) {
                entries.traits.deadline(slot)
            } else {
                None
            }
        }
        fn next_access(&self, slot: Slot) -> Option<u64> {
            // Counted from 1, as in `requests`.
            match self.entries().upcoming.get(slot.0 as usize) {
                Some(&u32::MAX) => Some(u64::MAX),
                Some(&next) => Some(u64::from(next) + 1),
                None => None,
            }
        }
    };
}

impl<M: Copy + Default, T: Traits> Dense<M, T> {
    #[inline(always)]
    fn entries(&self) -> &Self {
        self
    }

    fn live_list(&self) -> &LiveList {
        self.live_list
            .get_or_init(|| LiveList::of(&self.live, self.metas.len()))
    }
}

impl<M: Copy + Default, T: Traits> Facts for Dense<M, T> {
    facts!();
    fn len(&self) -> usize {
        self.len
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        self.live_list().sample(random)
    }
}

/// Entries as seen by the policy; other owners have none.
pub(crate) struct PolicyCells<'a, M, T>(&'a mut Dense<M, T>, Owner);

impl<M: Copy + Default, T: Traits> PolicyCells<'_, M, T> {
    #[inline(always)]
    fn entries(&self) -> &Dense<M, T> {
        self.0
    }
}

impl<M: Copy + Default, T: Traits> Facts for PolicyCells<'_, M, T> {
    facts!();
    #[inline]
    fn len(&self) -> usize {
        if self.1 == OWNER { self.0.len } else { 0 }
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        self.0.live_list().sample(random)
    }
}

impl<M: Copy + Default, T: Traits> Cells<M> for PolicyCells<'_, M, T> {
    #[inline(always)]
    fn get(&self, slot: Slot) -> M {
        self.0.metas[slot.0 as usize]
    }
    #[inline(always)]
    fn set(&mut self, slot: Slot, meta: M) {
        self.0.metas[slot.0 as usize] = meta;
    }
}

/// Entries as seen by the expiry index.
pub(crate) struct LinkCells<'a, M, T>(&'a mut Dense<M, T>);

impl<M: Copy + Default, T: Traits> LinkCells<'_, M, T> {
    #[inline(always)]
    fn entries(&self) -> &Dense<M, T> {
        self.0
    }
}

impl<M: Copy + Default, T: Traits> Facts for LinkCells<'_, M, T> {
    facts!();
    fn len(&self) -> usize {
        self.0.traits.deadline_count()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        if self.len() == 0 {
            return None;
        }
        let live_list = self.0.live_list();
        let looks = (0..LOOKS_MAX).map(|look| scramble(random.wrapping_add(look)));
        let mut slots = std::iter::once(random)
            .chain(looks)
            .filter_map(|random| live_list.sample(random));
        slots.find(|&slot| self.0.traits.deadline(slot).is_some())
    }
}

impl<M: Copy + Default, T: Traits> Cells<T::Link> for LinkCells<'_, M, T> {
    #[inline]
    fn get(&self, slot: Slot) -> T::Link {
        self.0.traits.link(slot)
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: T::Link) {
        self.0.traits.set_link(slot, link);
    }
}

impl<M: Copy + Default, T: Traits> Entries for Dense<M, T> {
    type Meta = M;
    type Link = T::Link;
    type PolicyCells<'a>
        = PolicyCells<'a, M, T>
    where
        Self: 'a;
    type LinkCells<'a>
        = LinkCells<'a, M, T>
    where
        Self: 'a;
    #[inline(always)]
    fn policy_cells(&mut self, owner: Owner) -> PolicyCells<'_, M, T> {
        PolicyCells(self, owner)
    }
    #[inline]
    fn link_cells(&mut self) -> LinkCells<'_, M, T> {
        LinkCells(self)
    }
    #[inline]
    fn link_cells_of(&mut self, _slot: Slot) -> LinkCells<'_, M, T> {
        LinkCells(self)
    }
    #[inline(always)]
    fn owner(&self, _slot: Slot) -> Owner {
        OWNER
    }
    #[inline(always)]
    fn begin(&mut self, now: Tick) {
        self.now = now;
        self.requests += 1;
    }
}
