//! Assigns ids to keys in the order of first appearance: open addressing over ids, with the keys in
//! a vector of the caller.

use super::column::ROWS_BETWEEN_CHECKS;
use crate::random::Random;

/// The table is doubled when more than this number of eighths of it are full.
const FULL_EIGHTHS: usize = 5;
const VACANT: u32 = u32::MAX;

/// Ids, or [`VACANT`]; the length is a power of two.
#[derive(Debug)]
pub(super) struct Ids {
    table: Vec<u32>,
}

impl Ids {
    pub(super) fn new() -> Self {
        Ids {
            table: vec![VACANT; 1 << 10],
        }
    }

    /// Returns the table position of a key, or the vacant position where it would be inserted.
    #[inline]
    fn place(&self, keys: &[u64], key: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = Random::new(key).bits() as usize & mask;
        loop {
            match self.table[at] {
                VACANT => return at,
                id if keys[id as usize] == key => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Returns the id of a key and whether the key is new.
    #[inline]
    pub(super) fn id(&mut self, keys: &mut Vec<u64>, key: u64) -> (u32, bool) {
        let at = self.place(keys, key);
        if self.table[at] != VACANT {
            return (self.table[at], false);
        }
        let id = keys.len() as u32;
        self.table[at] = id;
        keys.push(key);
        if keys.len() > self.table.len() / 8 * FULL_EIGHTHS {
            self.grow(keys);
        }
        (id, true)
    }

    #[cold]
    fn grow(&mut self, keys: &[u64]) {
        self.table = vec![VACANT; self.table.len() * 2];
        for (id, &key) in keys.iter().enumerate() {
            let at = self.place(keys, key);
            self.table[at] = id as u32;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.table.len() * 4
    }

    pub(super) fn growth_bytes(&self, keys: usize) -> usize {
        let is_near = keys + ROWS_BETWEEN_CHECKS as usize > self.table.len() / 8 * FULL_EIGHTHS;
        if is_near { self.table.len() * 8 } else { 0 }
    }
}
