//! Commands on strings as arrays of bits, the most significant bit of each byte first. The
//! submodules implement the commands of this table.

mod bit;
mod combine;
mod field;
mod range;

use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use session::spec::flag::{DENYOOM, FAST, READONLY, WRITE};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "bitmap" [bitmap]:
    "bitcount" -2, READONLY, Keys::ONE => Access::READ, "2.6.0",
        on_slab!(range::bitcount).estimated(work::whole),
        "key [start end [BYTE | BIT]]", "Counts the set bits of a string, or of a range of it.";
    "bitfield" -2, WRITE | DENYOOM => Form::Same, Keys::ONE => Access::UPDATE.by(field::access), "3.2.0",
        on_slab!(field::bitfield).estimated(work::bit_field),
        "key [(GET encoding offset) | ([OVERFLOW (WRAP | SAT | FAIL)] ((SET encoding offset value:integer) | \
         (INCRBY encoding offset increment)))]...",
        "Reads and writes integers of any width within a string.";
    "bitfield_ro" -2, READONLY | FAST, Keys::ONE => Access::READ, "6.0.0", on_slab!(field::bitfield_ro),
        "key [GET encoding offset]...", "Reads integers of any width within a string.";
    "bitop" -4, WRITE | DENYOOM => Form::Bits,
        Keys::Range(2, -1, 1) => Access::OVERWRITE.then(Access::READ), "2.6.0",
        on_slab!(combine::bitop).estimated(work::whole),
        "(AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE) destkey key...",
        "Combines strings with a bitwise operation and stores the result.";
    "bitpos" -3, READONLY, Keys::ONE => Access::READ, "2.8.7", on_slab!(range::bitpos).estimated(work::whole),
        "key bit [start [end [BYTE | BIT]]]",
        "Returns the position of the first set or clear bit of a string, or of a range of it.";
    "bitrangeintarray" -4, READONLY, Keys::ONE => Access::READ, "8.12.0",
        on_slab!(range::bitrangeintarray).estimated(work::whole),
        "key start end [BYTE | BIT] [LIMIT count] [ZEROS]",
        "Returns the offsets of the set or clear bits in a range of a string.";
    "getbit" 3, READONLY | FAST, Keys::ONE => Access::READ, "2.2.0", on_slab!(bit::getbit),
        "key offset", "Returns one bit of a string.";
    "setbit" 4, WRITE | DENYOOM => Form::Same, Keys::ONE => Access::UPDATE, "2.2.0",
        on_slab!(bit::setbit).estimated(work::set_bit),
        "key offset value:integer", "Sets or clears one bit of a string, which grows as needed.";
};
