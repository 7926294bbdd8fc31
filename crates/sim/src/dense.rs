//! Entries whose slots are the objects' ids: no keys, no values, no table.
//!
//! ```text
//! by object    live 1 bit · policy's bits size_of Meta · next access 4*
//! sampling     8 bytes, from the first sample on
//! with TTLs    weight 4 · deadline 6 and link 2, or a link of 8 of its own
//! ```
//! A column marked * is kept where the policy asks for it. Weights that never change are the trace's
//! own, and shared by all replays.

use cache::prefetch::prefetch;
use cache::{Entries, Owner};
use policy::parts::chance::scramble;
use policy::{Cells, Facts, Meta, Slot, Tick};
use std::cell::OnceCell;

/// The one policy of a replay.
pub(crate) const OWNER: Owner = 1;
/// Looks at entries without a deadline before a sample of those with one is given up.
const LOOKS_MAX: u64 = 32;

/// What an entry has beside the policy's bits: its weight, its deadline.
pub(crate) trait Traits {
    /// Whether no entry ever has a deadline or another weight: hosts leave out what is for these.
    const IS_FIXED: bool;
    /// The expiry index's bits.
    type Link: Meta;
    fn weight(&self, slot: Slot) -> u32;
    fn deadline(&self, slot: Slot) -> Option<Tick>;
    fn link(&self, slot: Slot) -> Self::Link;
    fn set_link(&mut self, slot: Slot, link: Self::Link);
    /// The entry has left.
    fn clear(&mut self, slot: Slot);
    /// How many live entries have a deadline.
    fn deadline_count(&self) -> usize;
    fn heap_bytes(&self) -> usize;
}

/// Weights that the trace tells, and no deadlines.
#[derive(Debug)]
pub(crate) struct Fixed<'t> {
    weights: &'t [u32],
    /// All ones; or 0, where one weight stands for all.
    mask: u32,
}

impl<'t> Fixed<'t> {
    /// Every entry weighs 1.
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

/// Weights and deadlines that each entry has of its own.
#[derive(Debug)]
pub(crate) struct Varying {
    weights: Vec<u32>,
    /// `deadline 48 | link 16`; a deadline of 0: none.
    deadlines: Vec<u64>,
    /// For an index whose link does not fit there.
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

    /// Bytes by object.
    pub(crate) fn bytes_per_object(link_bits: u32) -> u64 {
        if link_bits > LINK_BITS { 20 } else { 12 }
    }

    pub(crate) fn set_weight(&mut self, slot: Slot, weight: u32) {
        self.weights[slot.0 as usize] = weight;
    }

    /// Sets or takes the deadline. A new one comes with an empty link, a changed one keeps its link.
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

/// The live slots in no order, and where each is: for uniform samples.
#[derive(Debug)]
struct Roster {
    members: Vec<u32>,
    places: Vec<u32>,
}

impl Roster {
    fn of(live: &Bits, objects: usize) -> Self {
        let mut roster = Roster {
            members: Vec::new(),
            places: vec![0; objects],
        };
        live.ones().for_each(|slot| roster.add(slot));
        roster
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

/// One bit by object: for a million of them they stay in the second cache.
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

/// See the module text.
#[derive(Debug)]
pub(crate) struct Dense<M, T> {
    metas: Vec<M>,
    live: Bits,
    len: usize,
    pub(crate) traits: T,
    roster: OnceCell<Roster>,
    /// By object, the number of its next request; empty where nobody asks.
    upcoming: Vec<u32>,
    now: Tick,
    requests: u64,
}

/// The most that the arrays of a [`Dense`] take by object, its traits apart.
pub(crate) fn bytes_per_object<M>() -> u64 {
    let (live, upcoming, roster) = (1, 4, 8);
    size_of::<M>() as u64 + live + upcoming + roster
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
            roster: OnceCell::new(),
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
        let roster = self.roster.get().map_or(0, |roster| {
            (roster.members.capacity() + roster.places.capacity()) * 4
        });
        self.metas.capacity() * size_of::<M>()
            + self.live.words.len() * 8
            + self.traits.heap_bytes()
            + self.upcoming.capacity() * 4
            + roster
    }

    /// Asks the processor for what a request for this object will touch first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: Slot) {
        prefetch(&self.live.words[slot.0 as usize / 64]);
        prefetch(&self.metas[slot.0 as usize]);
    }

    #[inline(always)]
    pub(crate) fn lives(&self, slot: Slot) -> bool {
        self.live.has(slot)
    }

    /// The object of this request is asked for again by the request of number `next`.
    #[inline(always)]
    pub(crate) fn set_upcoming(&mut self, slot: Slot, next: u32) {
        self.upcoming[slot.0 as usize] = next;
    }

    /// Makes an entry live; its weight and deadline are set already.
    #[inline]
    pub(crate) fn add(&mut self, slot: Slot) {
        debug_assert!(!self.live.has(slot));
        self.metas[slot.0 as usize] = M::default();
        self.live.set(slot);
        self.len += 1;
        if let Some(roster) = self.roster.get_mut() {
            roster.add(slot.0);
        }
    }

    /// Removes an entry that the algorithms have forgotten.
    #[inline]
    pub(crate) fn take(&mut self, slot: Slot) {
        debug_assert!(self.live.has(slot));
        self.live.clear(slot);
        self.traits.clear(slot);
        self.len -= 1;
        if let Some(roster) = self.roster.get_mut() {
            roster.take(slot.0);
        }
    }

    /// Time passes between requests.
    pub(crate) fn set_now(&mut self, now: Tick) {
        self.now = now;
    }

    /// The live slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.live.ones().map(Slot)
    }
}

/// A hash of an object's id.
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
            // Requests are counted from 1, as `requests` does.
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

    fn roster(&self) -> &Roster {
        self.roster
            .get_or_init(|| Roster::of(&self.live, self.metas.len()))
    }
}

impl<M: Copy + Default, T: Traits> Facts for Dense<M, T> {
    facts!();
    fn len(&self) -> usize {
        self.len
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        self.roster().sample(random)
    }
}

/// The entries as the policy sees them; to any other owner there are none.
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
        self.0.roster().sample(random)
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

/// The entries as the expiry index sees them.
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
        let roster = self.0.roster();
        let looks = (0..LOOKS_MAX).map(|look| scramble(random.wrapping_add(look)));
        let mut slots = std::iter::once(random)
            .chain(looks)
            .filter_map(|random| roster.sample(random));
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
