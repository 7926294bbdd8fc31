//! Storage of objects: segments, the hash table, and reads without locks.

pub(crate) mod chain;
pub(crate) mod chains;
pub(crate) mod content;
pub(crate) mod counter;
pub(crate) mod hash;
pub(crate) mod heap;
pub(crate) mod hint;
pub(crate) mod line;
pub(crate) mod memory;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod sizes;
pub(crate) mod stored;
pub(crate) mod table;
pub(crate) mod ttl;
pub(crate) mod words;
