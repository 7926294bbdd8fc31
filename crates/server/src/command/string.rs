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
use session::spec::flag::{DENYOOM, FAST, MOVABLE_KEYS, READONLY, UNBOUNDED, WRITE};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "string" [string]:
    "append" 3, WRITE | DENYOOM | FAST | UNBOUNDED => Form::Same, Keys::ONE => Access::INSERT, "2.0.0",
        on_both!(edit::append).estimated(work::append),
        "key value", "Appends to a string; a missing key counts as empty.";
    "decr" 2, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0",
        on_both!(number::decr),
        "key", "Subtracts one from an integer; a missing key counts as 0.";
    "decrby" 3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0",
        on_both!(number::decrby),
        "key decrement", "Subtracts a number from an integer; a missing key counts as 0.";
    "delex" -2, WRITE | FAST | UNBOUNDED => Form::Deleted,
        Keys::ONE => Access::DELETE.by(condition::access), "8.4.0", on_slab!(condition::delex),
        "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
        "Deletes a key only if its value meets a condition.";
    "digest" 2, READONLY | FAST | UNBOUNDED, Keys::ONE => Access::READ, "8.4.0",
        on_slab!(condition::digest).of_strings(),
        "key", "Returns the XXH3 digest of a string as 16 hexadecimal digits.";
    "get" 2, READONLY | FAST, Keys::ONE => Access::READ, "1.0.0", on_both!(get::get).of_replied_strings(),
        "key", "Returns the string value of a key.";
    "getdel" 2, WRITE | FAST => Form::Deleted, Keys::ONE => Access::TAKE, "6.2.0",
        on_both!(get::getdel).of_strings(),
        "key", "Returns the string value of a key and deletes the key.";
    "getex" -2, WRITE | FAST => Form::Deadline, Keys::ONE => Access::UPDATE, "6.2.0",
        on_both!(get::getex).of_strings(),
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        "Returns the string value of a key and sets or removes its expiration.";
    "getrange" 4, READONLY, Keys::ONE => Access::READ, "2.4.0",
        on_slab!(get::getrange).estimated(work::byte_range),
        "key start end", "Returns a range of a string.";
    "getset" 3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0",
        on_both!(set::getset).by_arguments(),
        "key value", "Replaces the string value of a key and returns the old value.";
    "incr" 2, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0",
        on_both!(number::incr),
        "key", "Adds one to an integer; a missing key counts as 0.";
    "incrby" 3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0",
        on_both!(number::incrby),
        "key increment", "Adds a number to an integer; a missing key counts as 0.";
    "incrbyfloat" 3, WRITE | DENYOOM | FAST => Form::String, Keys::ONE => Access::UPDATE, "2.6.0",
        on_slab!(number::incrbyfloat),
        "key increment:double", "Adds a floating-point number to a number; a missing key counts as 0.";
    "increx" -2, WRITE | DENYOOM | FAST => Form::String, Keys::ONE => Access::UPDATE, "8.8.0",
        on_slab!(increx::increx),
        "key [BYINT increment | BYFLOAT increment:double] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] \
         [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]",
        "Adds to a number within bounds and sets or removes the key's expiration.";
    "lcs" -3, READONLY | UNBOUNDED, Keys::Range(1, 2, 1) => Access::READ, "7.0.0",
        on_slab!(lcs::lcs).estimated(work::lcs),
        "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
        "Returns the longest common subsequence of two strings.";
    "mget" -2, READONLY | FAST, Keys::Range(1, -1, 1) => Access::READ, "1.0.0",
        on_both!(get::mget).of_replied_strings().read_in_steps_on_segment(),
        "key...", "Returns the string values of several keys.";
    "mset" -3, WRITE | DENYOOM => Form::Same, Keys::Range(1, -1, 2) => Access::OVERWRITE, "1.0.1",
        on_both!(multi::mset).by_arguments().written_in_steps_on_segment(),
        "(key value)...", "Sets the string values of several keys.";
    "msetex" -4, WRITE | DENYOOM | MOVABLE_KEYS => Form::Strings,
        Keys::CountedStep(1, 2) => Access::OVERWRITE, "8.4.0", on_slab!(multi::msetex).by_arguments(),
        "numkeys (key value)... [NX | XX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
         unix-time-milliseconds | KEEPTTL]",
        "Sets the string values of several keys with one expiration, optionally only if a condition holds.";
    "msetnx" -3, WRITE | DENYOOM => Form::Same, Keys::Range(1, -1, 2) => Access::CREATE, "1.0.1",
        on_slab!(multi::msetnx).by_arguments(),
        "(key value)...", "Sets the string values of several keys only if none of the keys exists.";
    "psetex" 4, WRITE | DENYOOM => Form::String, Keys::ONE => Access::OVERWRITE, "2.6.0",
        on_both!(set::psetex).by_arguments(),
        "key milliseconds value", "Sets the string value of a key that expires after a number of milliseconds.";
    "set" -3, WRITE | DENYOOM => Form::Set, Keys::ONE => Access::UPDATE.by(set::access), "1.0.0",
        on_both!(set::set).of_value(),
        "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] \
         [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] \
         [TAGS numtags:integer tag...] [STALE stale-seconds | PSTALE stale-milliseconds | NEGATIVE] [TOKEN token]",
        "Sets the string value of a key, optionally with an expiration, tags and a stale time and only if a condition holds.";
    "setex" 4, WRITE | DENYOOM => Form::String, Keys::ONE => Access::OVERWRITE, "2.0.0",
        on_both!(set::setex).by_arguments(),
        "key seconds value", "Sets the string value of a key that expires after a number of seconds.";
    "setnx" 3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CREATE, "1.0.0",
        on_both!(set::setnx).by_arguments(),
        "key value", "Sets the string value of a key only if the key does not exist.";
    "setrange" 4, WRITE | DENYOOM | UNBOUNDED => Form::Same, Keys::ONE => Access::CHANGE, "2.2.0",
        on_slab!(edit::setrange).estimated(work::set_range),
        "key offset value", "Overwrites a part of a string; a gap is filled with zero bytes.";
    "strlen" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "2.2.0", on_both!(get::strlen),
        "key", "Returns the length of a string.";
    "substr" 4, READONLY, Keys::ONE => Access::READ, "1.0.0",
        on_slab!(get::getrange).estimated(work::byte_range),
        "key start end", "Returns a range of a string. Older name of GETRANGE.";
};
