//! Kinds of sections of a prepared trace.

/// Rows of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Requests,
    Objects,
}

/// A kind of section.
#[derive(Debug)]
pub(super) struct Kind {
    /// Number in the file; sections are in ascending order.
    pub(super) number: u16,
    /// Name for messages.
    pub(super) name: &'static str,
    pub(super) rows: Rows,
    /// Maximum bytes of a value in the file.
    pub(super) width_max: usize,
    /// Bytes of a value in memory.
    pub(super) memory_bytes: u64,
    /// Whether the section is required, dense and has a value for each row.
    pub(super) is_complete: bool,
}

pub(super) const IDS: u16 = 1;
pub(super) const KEYS: u16 = 2;
pub(super) const SIZES: u16 = 3;
pub(super) const NEW_SIZES: u16 = 4;
pub(super) const GAPS: u16 = 5;
pub(super) const OPS: u16 = 6;
pub(super) const TTLS: u16 = 7;
pub(super) const KEY_SIZES: u16 = 8;
pub(super) const NEW_KEY_SIZES: u16 = 9;
pub(super) const CLIENTS: u16 = 10;

const fn kind(number: u16, name: &'static str, rows: Rows, width_max: usize) -> Kind {
    Kind {
        number,
        name,
        rows,
        width_max,
        memory_bytes: width_max as u64,
        is_complete: number <= SIZES,
    }
}

/// Every kind, in ascending order.
pub(super) static KINDS: [Kind; 10] = [
    kind(IDS, "the ids of requests", Rows::Requests, 4),
    kind(KEYS, "the keys of objects", Rows::Objects, 8),
    kind(SIZES, "the sizes of objects", Rows::Objects, 4),
    kind(
        NEW_SIZES,
        "the changed sizes of requests",
        Rows::Requests,
        4,
    ),
    // While gaps are read, they are in memory with 8 and with 4 bytes.
    Kind {
        memory_bytes: 12,
        ..kind(GAPS, "the times of requests", Rows::Requests, 8)
    },
    kind(OPS, "the operations of requests", Rows::Requests, 1),
    kind(TTLS, "the TTLs of requests", Rows::Requests, 4),
    kind(KEY_SIZES, "the sizes of keys", Rows::Objects, 4),
    kind(
        NEW_KEY_SIZES,
        "the changed sizes of keys",
        Rows::Requests,
        4,
    ),
    kind(CLIENTS, "the clients of requests", Rows::Requests, 4),
];
