//! Commands on strings as arrays of bits, the most significant bit of each byte first. The
//! submodules implement the commands of this table.

mod bit;
mod combine;
mod field;
mod range;

use crate::context::{Run, Spec, settle};
use crate::spec::{Keys, flag};

/// Table of this family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "bitcount",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "2.6.0",
        summary: "Counts the set bits of a string, or of a range of it.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::bitcount)),
    },
    Spec {
        name: "bitfield",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "3.2.0",
        summary: "Reads and writes integers of any width within a string.",
        run: Run::slab(|ctx, args| settle(ctx, args, field::bitfield)),
    },
    Spec {
        name: "bitfield_ro",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "6.0.0",
        summary: "Reads integers of any width within a string.",
        run: Run::slab(|ctx, args| settle(ctx, args, field::bitfield_ro)),
    },
    Spec {
        name: "bitop",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(2, -1, 1),
        group: "bitmap",
        since: "2.6.0",
        summary: "Combines strings with a bitwise operation and stores the result.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::bitop)),
    },
    Spec {
        name: "bitpos",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "2.8.7",
        summary: "Returns the position of the first set or clear bit of a string, or of a range of it.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::bitpos)),
    },
    Spec {
        name: "getbit",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "2.2.0",
        summary: "Returns one bit of a string.",
        run: Run::slab(|ctx, args| settle(ctx, args, bit::getbit)),
    },
    Spec {
        name: "setbit",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 1, 1),
        group: "bitmap",
        since: "2.2.0",
        summary: "Sets or clears one bit of a string, which grows as needed.",
        run: Run::slab(|ctx, args| settle(ctx, args, bit::setbit)),
    },
];
