//! The table of commands, which finds a command by its name.

use super::{COMMANDS_MAX, Chosen, Spec, SpecIndex, Subcommand, flag};
use std::collections::HashMap;
use std::ops::Deref;
use wire::Args;

/// Number of bytes of a name that are compared as one number.
const WORD_BYTES: usize = 8;

/// Slot of the lookup table. A name of up to [`WORD_BYTES`] bytes, which most names are, is
/// compared with one instruction.
#[derive(Clone, Copy)]
struct NameSlot {
    /// First bytes of the name in lower case, the first one in the lowest bits.
    word: u64,
    /// Bit 0x20 of each of these bytes that is a letter. Setting these bits in another word makes
    /// its letters lower-case and leaves the other bytes unchanged.
    letters: u64,
    len: u32,
    /// Index of the command; [`SpecIndex::MAX`] if the slot is empty.
    index: SpecIndex,
}

/// Slots of the lookup table: a power of two, several times the number of commands.
const SLOTS: usize = 2048;

const EMPTY_SLOT: NameSlot = NameSlot {
    word: 0,
    letters: 0,
    len: 0,
    index: SpecIndex::MAX,
};

/// All commands, found by name, and their subcommands. The index of a subcommand is its position
/// after all commands.
pub struct Table<R: 'static> {
    specs: Vec<&'static Spec<R>>,
    /// Name by which clients call each command; empty if they cannot call it.
    names: Vec<String>,
    slots: Vec<NameSlot>,
    /// Commands by the names of their specifications.
    own_names: HashMap<&'static str, SpecIndex>,
    /// Subcommands of all containers, sorted by name.
    subcommands: Vec<&'static Subcommand>,
}

impl<R> Table<R> {
    /// Creates the table of these families, in their order, and of their subcommands.
    ///
    /// # Panics
    /// There are more than [`COMMANDS_MAX`] commands and subcommands.
    pub fn new(families: &[&'static [Spec<R>]]) -> Table<R> {
        let specs: Vec<&'static Spec<R>> =
            families.iter().flat_map(|family| family.iter()).collect();
        let subcommands = specs.iter().flat_map(|spec| spec.subcommands);
        let mut subcommands: Vec<&'static Subcommand> = subcommands.collect();
        subcommands.sort_unstable_by_key(|subcommand| subcommand.name);
        assert!(specs.len() + subcommands.len() <= COMMANDS_MAX && specs.len() * 2 < SLOTS);
        let own_names = specs.iter().zip(0..);
        let mut table = Table {
            own_names: own_names.map(|(spec, index)| (spec.name, index)).collect(),
            names: specs.iter().map(|spec| spec.name.to_owned()).collect(),
            specs,
            slots: Vec::new(),
            subcommands,
        };
        table.fill_slots();
        table
    }

    fn fill_slots(&mut self) {
        self.slots = vec![EMPTY_SLOT; SLOTS];
        for (index, name) in self.names.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let word = word_of(name.as_bytes());
            let mut slot = slot_of(word, name.as_bytes());
            while self.slots[slot].index != SpecIndex::MAX {
                slot = (slot + 1) % SLOTS;
            }
            let letter = |byte: u8| if byte.is_ascii_lowercase() { 0x20 } else { 0 };
            self.slots[slot] = NameSlot {
                word,
                letters: u64::from_le_bytes(word.to_le_bytes().map(letter)),
                len: name.len() as u32,
                index: index as SpecIndex,
            };
        }
    }

    /// Gives a command another name for its callers; an empty one removes it. Reports and
    /// statistics keep the name of the specification.
    ///
    /// # Errors
    /// No command has the name, or another command already has the new name.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), String> {
        let found = self.lookup(name.as_bytes());
        let index = found.ok_or_else(|| "no command has this name".to_owned())?;
        if !new.is_empty() && self.lookup(new.as_bytes()).is_some() {
            return Err(format!("another command has the name '{new}'"));
        }
        self.names[index as usize] = new.to_ascii_lowercase();
        self.fill_slots();
        Ok(())
    }

    /// Whether clients can call the command with this index, so that it was not removed.
    pub fn is_callable(&self, index: usize) -> bool {
        self.names.get(index).is_some_and(|name| !name.is_empty())
    }

    /// Returns the index of the command with this name. Case is ignored.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Option<SpecIndex> {
        let word = word_of(name);
        let mut slot = slot_of(word, name);
        loop {
            let found = &self.slots[slot];
            if found.index == SpecIndex::MAX {
                return None;
            }
            if word | found.letters == found.word
                && name.len() == found.len as usize
                && (name.len() <= WORD_BYTES || self.has_tail(found.index, name))
            {
                return Some(found.index);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the index of the command whose specification has this name, regardless of
    /// `rename-command`. Case is ignored.
    pub fn lookup_own(&self, name: &[u8]) -> Option<SpecIndex> {
        let name = name.to_ascii_lowercase();
        let name = std::str::from_utf8(&name).ok()?;
        self.own_names.get(name).copied()
    }

    /// Whether a long name ends like a command's name. Case is ignored.
    #[inline(never)]
    fn has_tail(&self, index: SpecIndex, name: &[u8]) -> bool {
        let own = &self.names[index as usize].as_bytes()[WORD_BYTES..];
        own.eq_ignore_ascii_case(&name[WORD_BYTES..])
    }

    /// Returns the command with this index and the subcommand that the arguments select.
    #[inline]
    pub fn choose(&self, index: SpecIndex, args: Args<'_>) -> Chosen<R> {
        let mut chosen = self.plain(index);
        if chosen.spec.has(flag::CONTAINER) {
            self.choose_subcommand(&mut chosen, args);
        }
        chosen
    }

    /// Returns the command with this index without a subcommand.
    #[inline]
    pub fn plain(&self, index: SpecIndex) -> Chosen<R> {
        Chosen {
            spec: self.specs[index as usize],
            index,
            subcommand: None,
            is_unknown: false,
        }
    }

    /// Adds the subcommand that the arguments select to a container command.
    #[inline(never)]
    pub fn choose_subcommand(&self, chosen: &mut Chosen<R>, args: Args<'_>) {
        if let Some(word) = args.get(1) {
            chosen.subcommand = self.subcommand(chosen.spec, word);
            chosen.is_unknown = chosen.subcommand.is_none();
        }
    }

    /// Returns the flags for a call of this command: its subcommand's flags, if it has one.
    #[inline]
    pub fn flags_of(&self, spec: &Spec<R>, args: Args<'_>) -> u32 {
        if !spec.has(flag::CONTAINER) {
            return spec.flags;
        }
        let word = args.get(1).unwrap_or_default();
        self.subcommand(spec, word)
            .map_or(spec.flags, |(_, subcommand)| subcommand.flags)
    }

    /// Returns the subcommands of all containers, sorted by name.
    pub fn subcommands(&self) -> &[&'static Subcommand] {
        &self.subcommands
    }

    /// Returns the subcommand of this command with the name `word`, and its index. Case is ignored.
    pub fn subcommand(
        &self,
        command: &Spec<R>,
        word: &[u8],
    ) -> Option<(SpecIndex, &'static Subcommand)> {
        let all = &self.subcommands;
        let first = all.partition_point(|other| other.parts().0 < command.name);
        for (at, subcommand) in all.iter().enumerate().skip(first) {
            let (container, name) = subcommand.parts();
            if container != command.name {
                break;
            }
            if name.as_bytes().eq_ignore_ascii_case(word) {
                return Some(((self.specs.len() + at) as SpecIndex, subcommand));
            }
        }
        None
    }

    /// Returns the name of the command or subcommand with this index; `NULL` if there is none, as
    /// in CLIENT LIST.
    pub fn name(&self, index: SpecIndex) -> &'static str {
        let index = index as usize;
        match self.specs.get(index) {
            Some(spec) => spec.name,
            None => {
                let subcommand = self.subcommands.get(index.wrapping_sub(self.specs.len()));
                subcommand.map_or("NULL", |subcommand| subcommand.name)
            }
        }
    }

    /// Returns the family of the command or subcommand with this index; empty if there is none.
    pub fn group(&self, index: usize) -> &'static str {
        let spec = self.specs.get(index).copied().or_else(|| {
            let subcommand = self.subcommands.get(index.checked_sub(self.specs.len())?)?;
            let container = subcommand.parts().0;
            self.specs
                .iter()
                .copied()
                .find(|spec| spec.name == container)
        });
        spec.map_or("", |spec| spec.group)
    }

    /// Returns the index and the name of every command and subcommand.
    pub fn names(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let commands = self.specs.iter().map(|spec| spec.name);
        let subcommands = self.subcommands.iter().map(|subcommand| subcommand.name);
        commands.chain(subcommands).enumerate()
    }
}

impl<R> Deref for Table<R> {
    type Target = [&'static Spec<R>];

    fn deref(&self) -> &Self::Target {
        &self.specs
    }
}

/// Returns the first bytes of a name as a number.
#[inline]
fn word_of(name: &[u8]) -> u64 {
    let half = |at: usize| {
        name[at..]
            .first_chunk()
            .map_or(0, |four| u32::from_le_bytes(*four))
    };
    match *name {
        [] => 0,
        [a] => u64::from_le_bytes([a, 0, 0, 0, 0, 0, 0, 0]),
        [a, b] => u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]),
        [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
        _ => {
            // The two halves overlap if there are fewer than eight bytes.
            let end = name.len().min(WORD_BYTES) - 4;
            u64::from(half(0)) | u64::from(half(end)) << (8 * end)
        }
    }
}

/// Hashes the first bytes of a name, its last byte and its length. Setting bit 0x20 makes letters
/// lower-case. It also changes other bytes, which is harmless because the names are compared.
#[inline]
fn slot_of(word: u64, name: &[u8]) -> usize {
    let tail = name.last().map_or(0, |byte| u64::from(byte | 0x20));
    let folded = (word | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 57 ^ tail << 48;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize % SLOTS
}
