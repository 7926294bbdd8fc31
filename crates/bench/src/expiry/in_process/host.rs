//! Deadlines and links of entries in arrays: the minimal host of an index.

use policy::{Cells, Facts, Slot, Tick};

/// Bits of a word that hold the deadline. If all of them are set, the entry has no deadline.
const DEADLINE: u64 = u64::MAX >> 16;
/// Maximum number of link bits stored in the deadline's word, as in the server.
const BESIDE_BITS: u32 = 16;

/// Host in which entry `n` has slot `n`. Its word has 48 bits for the deadline and 16 bits for the
/// link. A wider link is stored in a separate word.
pub(super) struct Host {
    words: Vec<u64>,
    links: Vec<u64>,
    pub now: u64,
}

impl Host {
    pub fn new(count: usize, link_bits: u32, now: u64) -> Self {
        let wide = if link_bits <= BESIDE_BITS { 0 } else { count };
        Host {
            words: vec![DEADLINE; count],
            links: vec![0; wide],
            now,
        }
    }

    /// Sets a deadline and returns the previous one.
    #[inline]
    pub fn set_deadline(&mut self, slot: Slot, deadline: u64) -> Option<u64> {
        let word = &mut self.words[slot.0 as usize];
        let old = *word & DEADLINE;
        *word = *word & !DEADLINE | deadline.min(DEADLINE - 1);
        (old != DEADLINE).then_some(old)
    }

    /// Removes an entry and its link.
    #[inline]
    pub fn free(&mut self, slot: Slot) {
        self.words[slot.0 as usize] = DEADLINE;
        if let Some(link) = self.links.get_mut(slot.0 as usize) {
            *link = 0;
        }
    }

    /// Returns, for each dead entry still held, the time since its deadline.
    pub fn dead_for(&self) -> impl Iterator<Item = u64> + '_ {
        let deadlines = self.words.iter().map(|word| word & DEADLINE);
        deadlines
            .filter(|deadline| *deadline != DEADLINE && *deadline < self.now)
            .map(|deadline| self.now - deadline - 1)
    }
}

/// Returns the bytes per entry that the server stores outside of the deadline's word for a link of
/// this many bits.
pub(super) fn link_bytes(link_bits: u32) -> u32 {
    if link_bits <= BESIDE_BITS {
        0
    } else {
        link_bits.div_ceil(32) * 4
    }
}

impl Facts for Host {
    fn now(&self) -> Tick {
        Tick(self.now)
    }
    fn requests(&self) -> u64 {
        0
    }
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        self.words
            .get(slot.0 as usize)
            .is_some_and(|word| word & DEADLINE != DEADLINE)
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        u64::from(slot.0)
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        let deadline = self.words.get(slot.0 as usize)? & DEADLINE;
        (deadline != DEADLINE).then_some(Tick(deadline))
    }
    fn len(&self) -> usize {
        self.words.len()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        let slot = (u128::from(random) * self.words.len() as u128) >> 64;
        Some(Slot(slot as u32))
    }
}

impl Cells<u64> for Host {
    #[inline]
    fn get(&self, slot: Slot) -> u64 {
        if self.links.is_empty() {
            self.words[slot.0 as usize] >> 48
        } else {
            self.links[slot.0 as usize]
        }
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: u64) {
        if self.links.is_empty() {
            let word = &mut self.words[slot.0 as usize];
            *word = *word & DEADLINE | link << 48;
        } else {
            self.links[slot.0 as usize] = link;
        }
    }
}
