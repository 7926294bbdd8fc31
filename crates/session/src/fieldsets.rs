//! Names of hash fields that a client has prepared for HIMPORT. They belong to the client's session
//! and count towards its memory.

use std::collections::{HashMap, HashSet};

/// Maximum number of bytes of all fieldsets of a session.
const BYTES_MAX: usize = 64 << 20;
/// Bytes that a name takes in addition to its own: its vector and the allocator's overhead.
const NAME_BYTES: usize = 40;

/// Fieldsets of a session by name.
#[derive(Debug, Default)]
pub struct Fieldsets {
    by_name: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    bytes: usize,
}

/// Reason why a fieldset is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A field occurs twice.
    Duplicate,
    /// The session's fieldsets would take too much memory.
    TooLarge,
}

fn bytes_of(name: &[u8], fields: &[Vec<u8>]) -> usize {
    let fields = fields.iter().map(|field| field.len() + NAME_BYTES);
    name.len() + 2 * NAME_BYTES + fields.sum::<usize>()
}

impl Fieldsets {
    /// Adds a fieldset. One of the same name is replaced.
    ///
    /// # Errors
    ///
    /// The fieldset is refused; an existing one of the same name remains.
    pub fn prepare(&mut self, name: &[u8], fields: Vec<Vec<u8>>) -> Result<(), Flaw> {
        let mut seen = HashSet::with_capacity(fields.len());
        if !fields.iter().all(|field| seen.insert(field)) {
            return Err(Flaw::Duplicate);
        }
        let bytes = bytes_of(name, &fields);
        let old = self.by_name.get(name).map_or(0, |old| bytes_of(name, old));
        if self.bytes - old + bytes > BYTES_MAX {
            return Err(Flaw::TooLarge);
        }
        self.by_name.insert(name.to_vec(), fields);
        self.bytes = self.bytes - old + bytes;
        Ok(())
    }

    /// Returns the fields of a fieldset.
    pub fn get(&self, name: &[u8]) -> Option<&[Vec<u8>]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    /// Removes a fieldset. Returns whether it existed.
    pub fn discard(&mut self, name: &[u8]) -> bool {
        let removed = self.by_name.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |old| bytes_of(name, old));
        removed.is_some()
    }

    /// Returns the number of fieldsets.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are no fieldsets.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the bytes of all fieldsets.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_present_fieldsets() {
        let fields = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut all = Fieldsets::default();
        assert_eq!(all.prepare(b"a", fields(&["x", "y"])), Ok(()));
        let bytes = all.heap_bytes();
        assert_eq!(all.prepare(b"a", fields(&["x", "x"])), Err(Flaw::Duplicate));
        assert_eq!(all.prepare(b"b", fields(&["x", "y"])), Ok(()));
        assert_eq!(all.prepare(b"b", fields(&["x", "z"])), Ok(()));
        assert_eq!(all.heap_bytes(), 2 * bytes);
        let large = vec![vec![0; BYTES_MAX]];
        assert_eq!(all.prepare(b"b", large), Err(Flaw::TooLarge));
        assert_eq!(all.get(b"b").map(<[_]>::len), Some(2));
        assert!(all.discard(b"a") && !all.discard(b"a") && all.discard(b"b"));
        assert_eq!((all.heap_bytes(), all.len(), all.is_empty()), (0, 0, true));
    }
}
