//! Commands on strings as arrays of bits, the most significant bit of each byte first. The
//! submodules implement the commands of this table.

mod bit;
mod combine;
mod field;
mod range;

use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use session::spec::Keys;
use session::spec::flag::{DENYOOM, FAST, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "bitmap":
    "bitcount" -2, READONLY, Keys::Range(1, 1, 1), "2.6.0", on_slab!(range::bitcount).estimated(work::whole),
        "Counts the set bits of a string, or of a range of it.";
    "bitfield" -2, WRITE | DENYOOM, Keys::Range(1, 1, 1), "3.2.0", on_slab!(field::bitfield).estimated(work::bit_field),
        "Reads and writes integers of any width within a string.";
    "bitfield_ro" -2, READONLY | FAST, Keys::Range(1, 1, 1), "6.0.0", on_slab!(field::bitfield_ro),
        "Reads integers of any width within a string.";
    "bitop" -4, WRITE | DENYOOM, Keys::Range(2, -1, 1), "2.6.0", on_slab!(combine::bitop).estimated(work::whole),
        "Combines strings with a bitwise operation and stores the result.";
    "bitpos" -3, READONLY, Keys::Range(1, 1, 1), "2.8.7", on_slab!(range::bitpos).estimated(work::whole),
        "Returns the position of the first set or clear bit of a string, or of a range of it.";
    "getbit" 3, READONLY | FAST, Keys::Range(1, 1, 1), "2.2.0", on_slab!(bit::getbit),
        "Returns one bit of a string.";
    "setbit" 4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.2.0", on_slab!(bit::setbit).estimated(work::set_bit),
        "Sets or clears one bit of a string, which grows as needed.";
};
