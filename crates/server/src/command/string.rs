//! Commands on strings. The submodules implement the commands of this table.

pub mod condition;
mod edit;
mod get;
mod increx;
mod lcs;
mod multi;
pub mod number;
pub mod set;

use super::table::{commands, on_slab};
use super::work;
use crate::context::{Spec, on_both};
use session::spec::Keys;
use session::spec::flag::{DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "string":
    "append" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.0.0", on_both!(edit::append).estimated(work::append),
        "Appends to a string; a missing key counts as empty.";
    "decr" 2, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(number::decr),
        "Subtracts one from an integer; a missing key counts as 0.";
    "decrby" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(number::decrby),
        "Subtracts a number from an integer; a missing key counts as 0.";
    "delex" -2, WRITE | FAST, Keys::Range(1, 1, 1), "8.4.0", on_slab!(condition::delex),
        "Deletes a key only if its value meets a condition.";
    "digest" 2, READONLY | FAST, Keys::Range(1, 1, 1), "8.4.0", on_slab!(condition::digest).of_strings(),
        "Returns the XXH3 digest of a string as 16 hexadecimal digits.";
    "get" 2, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(get::get).of_strings(),
        "Returns the string value of a key.";
    "getdel" 2, WRITE | FAST, Keys::Range(1, 1, 1), "6.2.0", on_both!(get::getdel).of_strings(),
        "Returns the string value of a key and deletes the key.";
    "getex" -2, WRITE | FAST, Keys::Range(1, 1, 1), "6.2.0", on_both!(get::getex).of_strings(),
        "Returns the string value of a key and sets or removes its expiration.";
    "getrange" 4, READONLY, Keys::Range(1, 1, 1), "2.4.0", on_slab!(get::getrange).estimated(work::byte_range),
        "Returns a range of a string.";
    "getset" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(set::getset).by_arguments(),
        "Replaces the string value of a key and returns the old value.";
    "incr" 2, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(number::incr),
        "Adds one to an integer; a missing key counts as 0.";
    "incrby" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(number::incrby),
        "Adds a number to an integer; a missing key counts as 0.";
    "incrbyfloat" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.6.0", on_slab!(number::incrbyfloat),
        "Adds a floating-point number to a number; a missing key counts as 0.";
    "increx" -2, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.8.0", on_slab!(increx::increx),
        "Adds to a number within bounds and sets or removes the key's expiration.";
    "lcs" -3, READONLY, Keys::Range(1, 2, 1), "7.0.0", on_slab!(lcs::lcs).estimated(work::lcs),
        "Returns the longest common subsequence of two strings.";
    "mget" -2, READONLY | FAST, Keys::Range(1, -1, 1), "1.0.0", on_both!(get::mget).of_strings(),
        "Returns the string values of several keys.";
    "mset" -3, WRITE | DENYOOM, Keys::Range(1, -1, 2), "1.0.1", on_both!(multi::mset).by_arguments(),
        "Sets the string values of several keys.";
    "msetex" -4, WRITE | DENYOOM | MOVABLE_KEYS, Keys::CountedStep(1, 2), "8.4.0", on_slab!(multi::msetex).by_arguments(),
        "Sets the string values of several keys with one expiration, optionally only if a condition holds.";
    "msetnx" -3, WRITE | DENYOOM, Keys::Range(1, -1, 2), "1.0.1", on_slab!(multi::msetnx).by_arguments(),
        "Sets the string values of several keys only if none of the keys exists.";
    "psetex" 4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.6.0", on_both!(set::psetex).by_arguments(),
        "Sets the string value of a key that expires after a number of milliseconds.";
    "set" -3, WRITE | DENYOOM, Keys::Range(1, 1, 1), "1.0.0", on_both!(set::set).of_value(),
        "Sets the string value of a key, optionally with an expiration and only if a condition holds.";
    "setex" 4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.0.0", on_both!(set::setex).by_arguments(),
        "Sets the string value of a key that expires after a number of seconds.";
    "setnx" 3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(set::setnx).by_arguments(),
        "Sets the string value of a key only if the key does not exist.";
    "setrange" 4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.2.0", on_slab!(edit::setrange).estimated(work::set_range),
        "Overwrites a part of a string; a gap is filled with zero bytes.";
    "strlen" 2, READONLY | FAST, Keys::Range(1, 1, 1), "2.2.0", on_both!(get::strlen),
        "Returns the length of a string.";
    "substr" 4, READONLY, Keys::Range(1, 1, 1), "1.0.0", on_slab!(get::getrange).estimated(work::byte_range),
        "Returns a range of a string. Older name of GETRANGE.";
};
