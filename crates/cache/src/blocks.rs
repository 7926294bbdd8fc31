//! Storage of entries without the table: blocks and outside objects. It is a separate struct
//! because a table change hashes keys again, which reads the blocks while the table is borrowed
//! mutably.

use crate::arena::Arena;
use crate::block::{Layout, Widths, read_u32};
use crate::value::Outside;
use policy::{Slot, Tick};
use siphasher::sip::SipHasher13;

/// Maximum length of the list of outside objects that stays allocated when no object is left.
const KEPT_MAX: usize = 1024;

pub(crate) struct OutsideEntry<O> {
    pub key: Option<Box<[u8]>>,
    pub object: O,
}

impl<O: Outside> OutsideEntry<O> {
    pub fn heap_bytes(&self) -> u64 {
        (self.object.heap_bytes() + self.key.as_ref().map_or(0, |k| k.len())) as u64
    }
}

/// Blocks of all entries and the objects and keys outside them.
pub(crate) struct Blocks<O> {
    pub arena: Arena,
    pub outside: Vec<Option<OutsideEntry<O>>>,
    pub outside_vacant: Vec<u32>,
    pub outside_bytes: u64,
    pub hasher: SipHasher13,
    pub widths: Widths,
}

impl<O: Outside> Blocks<O> {
    #[inline(always)]
    pub fn parts(&self, slot: Slot) -> (&[u8], Layout) {
        let block = self.arena.from(slot.0);
        (block, self.widths.layout(block))
    }

    pub fn granules(&self, block: &[u8]) -> usize {
        self.widths.layout(block).granules()
    }

    pub fn number(block: &[u8], layout: &Layout) -> usize {
        read_u32(block, layout.value_at()) as usize
    }

    pub fn outside_entry(&self, block: &[u8], layout: &Layout) -> &OutsideEntry<O> {
        self.outside[Self::number(block, layout)]
            .as_ref()
            .expect("its number names an object")
    }

    #[inline]
    pub fn key(&self, slot: Slot) -> &[u8] {
        let (block, layout) = self.parts(slot);
        if layout.is_key_outside() {
            return self
                .outside_entry(block, &layout)
                .key
                .as_deref()
                .expect("its key is outside");
        }
        &block[layout.key_at..layout.value_at()]
    }

    pub fn key_hash(&self, slot: Slot) -> u64 {
        self.hasher.hash(self.key(slot))
    }

    #[inline(always)]
    pub fn deadline(&self, slot: Slot) -> Option<Tick> {
        self.widths.deadline(self.arena.from(slot.0))
    }

    pub fn hold(&mut self, outside_entry: OutsideEntry<O>) -> u32 {
        self.outside_bytes += outside_entry.heap_bytes();
        match self.outside_vacant.pop() {
            Some(number) => {
                self.outside[number as usize] = Some(outside_entry);
                number
            }
            None => {
                self.outside.push(Some(outside_entry));
                self.outside.len() as u32 - 1
            }
        }
    }

    pub fn release_outside(&mut self, number: usize) -> OutsideEntry<O> {
        let outside_entry = self.outside[number]
            .take()
            .expect("its number names an object");
        self.outside_bytes -= outside_entry.heap_bytes();
        self.outside_vacant.push(number as u32);
        if self.outside_vacant.len() == self.outside.len() && self.outside.len() > KEPT_MAX {
            (self.outside, self.outside_vacant) = (Vec::new(), Vec::new());
        }
        outside_entry
    }
}
