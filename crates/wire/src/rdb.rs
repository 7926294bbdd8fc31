//! Snapshot files in Redis's RDB format, over byte buffers.
//!
//! ```text
//! file     header 9 │ item … │ 255 │ CRC-64 of all before it 8, or 0
//! header   "REDIS0009" │ "VALKEY080" │ "MAYFLY001"
//! item     250 name, value │ 245 code of a library │ 254 database │ 251 keys, keys with deadlines
//!          [252 deadline 8] type 1, key, body of the value
//! ```
//!
//! Values have the bodies of the module [`dump`](crate::dump); names, values and keys are its
//! strings, databases and numbers of keys its lengths. Databases may be selected more than once, so
//! that the items of several writers can be joined in any order if each part selects its database.
//!
//! # Versions
//! [`Writer`] writes plain types and determines the lowest [`Version`] that has all of them. The
//! header is therefore known only when the last item has been written. A file begins with
//! [`HEADER_PENDING`], which no server accepts, and its header is written last. The checksum is
//! computed as if the header had been there from the beginning ([`Framing`]). A file with only
//! plain types has version 9, which Redis since 5 and Valkey read. Hashes with field deadlines need
//! Redis 7.4 or Valkey 9, as the caller chooses.
//!
//! # Data that other servers cannot express
//! Deadlines of members of sets and sorted sets, own deadlines of stream entries, and maximum ages
//! of streams have types of this server (128 to 130), as in DUMP. A file that contains one of them
//! begins with `MAYFLY001`. Redis and Valkey check these bytes first, report a wrong signature and
//! keep their data. The alternatives are worse:
//! - Under another header, they read the file until they reach the unknown type, possibly after
//!   hours, and report only its number.
//! - In additional fields (opcode 250), which they skip without a message, deadlines would be lost:
//!   the members would never expire.
//! - Additional data of modules (opcode 247) ends their start with the name of a module that does
//!   not exist; again only after the data before it.
//!
//! The flags that memcached clients store with an item, the tags of a key, and its protection from
//! eviction are different: other servers could not use them. They are written as additional fields
//! before the key ([`ITEM_FIELD`], [`TAGS_FIELD`], [`PROTECTED_FIELD`]), so that the file remains
//! readable everywhere.
//!
//! # Reading
//! [`Reader`] reads files of Redis since 2.4, of Valkey, and of this server from any
//! [`std::io::Read`], in one pass. Its memory is [a buffer](WINDOW_BYTES), which grows to twice the
//! longest string as the bytes of the string arrive, plus that string expanded, which is at most 88
//! times as long. Values of modules are passed to the caller by the name of their module.
//! [`Reader::raw_value`] takes a value out of the file unchanged, so that another thread can build
//! it.
//!
//! Not supported: compression when writing, access times and frequencies (read and ignored, because
//! eviction policies here keep other state), and data of modules.

mod reader;
mod version;
mod window;
mod writer;

pub use reader::{Cause, Entry, Item, Kind, RawHead, RawValue, RdbError, Reader};
pub use version::{HEADER_BYTES, HEADER_PENDING, Version};
pub use window::WINDOW_BYTES;
pub use writer::{Ending, Framing, Writer};

/// Name of the additional field with the head of a memcached item, which precedes its key.
pub const ITEM_FIELD: &[u8] = b"mayfly-item";
/// Name of the additional field with the tags and the freshness of a key, which precedes it.
pub const TAGS_FIELD: &[u8] = b"mayfly-tags";
/// Name of the additional field before a key that is protected from eviction. Its value is empty.
pub const PROTECTED_FIELD: &[u8] = b"mayfly-no-evict";

/// Bytes that begin items other than keys.
mod opcode {
    /// Metadata of modules for the next key (Redis since 8.6), or an import of cluster slots
    /// (Valkey since 9).
    pub const KEY_METADATA: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const MODULE_FIELD: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const FIELD: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const DEADLINE_MS: u8 = 252;
    pub const DEADLINE_SECONDS: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
}

#[cfg(test)]
mod tests;
