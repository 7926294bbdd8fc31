//! Commands on sets. The submodules implement the commands of this table.

mod combine;
mod lifetime;
mod list;
mod member;
mod random;

use super::element_ttl::family;
use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use engine::lifetime::{Base, Unit};
use session::spec::Keys;
use session::spec::flag::{DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};
use store::Set;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "set":
    "sadd" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(member::sadd).by_arguments(),
        "Adds members to a set. Creates the set if needed.";
    "saddex" -4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "Dragonfly", on_slab!(lifetime::saddex).by_arguments(),
        "Adds members that expire after a number of seconds.";
    "scard" 2, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(member::scard),
        "Returns the number of members of a set.";
    "sdiff" -2, READONLY, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sdiff).estimated(work::whole),
        "Returns the members of the first set that are in none of the others.";
    "sdiffcard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "8.10.0", on_slab!(combine::sdiffcard).estimated(work::whole),
        "Returns the number of members of the first set that are in none of the others, up to a limit.";
    "sdiffstore" -3, WRITE | DENYOOM, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sdiffstore).estimated(work::whole),
        "Stores the members of the first set that are in none of the others.";
    "sexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Seconds, Base::Now, "sexpire")).by_arguments(),
        "Sets the expiration of members as a number of seconds from now.";
    "sexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Seconds, Base::Epoch, "sexpireat")).by_arguments(),
        "Sets the expiration of members as a Unix time in seconds.";
    "sexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of members, as Unix times in seconds.";
    "sinter" -2, READONLY, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sinter).estimated(work::whole),
        "Returns the members that are in all of the given sets.";
    "sintercard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "7.0.0", on_slab!(combine::sintercard).estimated(work::whole),
        "Returns the number of members that are in all of the given sets, up to a limit.";
    "sinterstore" -3, WRITE | DENYOOM, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sinterstore).estimated(work::whole),
        "Stores the members that are in all of the given sets.";
    "sismember" 3, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(member::sismember),
        "Returns whether a value is a member of a set.";
    "smembers" 2, READONLY, Keys::Range(1, 1, 1), "1.0.0", on_slab!(list::smembers).estimated(work::whole),
        "Returns all members of a set.";
    "smismember" -3, READONLY | FAST, Keys::Range(1, 1, 1), "6.2.0", on_slab!(member::smismember).by_arguments(),
        "Returns for each given value whether it is a member of a set.";
    "smove" 4, WRITE | FAST, Keys::Range(1, 2, 1), "1.0.0", on_slab!(member::smove),
        "Moves a member from one set to another.";
    "spersist" -5, WRITE | FAST, Keys::Range(1, 1, 1), "Valkey", on_slab!(family::persist::<Set>).by_arguments(),
        "Removes the expiration of members.";
    "spexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Now, "spexpire")).by_arguments(),
        "Sets the expiration of members as a number of milliseconds from now.";
    "spexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch, "spexpireat")).by_arguments(),
        "Sets the expiration of members as a Unix time in milliseconds.";
    "spexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of members, as Unix times in milliseconds.";
    "spop" -2, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(random::spop).estimated(work::counted),
        "Removes and returns random members of a set.";
    "spttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of members in milliseconds.";
    "srandmember" -2, READONLY, Keys::Range(1, 1, 1), "1.0.0", on_slab!(random::srandmember).estimated(work::sampled),
        "Returns random members of a set.";
    "srem" -3, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(member::srem).by_arguments(),
        "Removes members from a set. Deletes the key when no member remains.";
    "sscan" -3, READONLY, Keys::Range(1, 1, 1), "2.8.0", on_slab!(list::sscan).estimated(work::scanned),
        "Iterates over the members of a set.";
    "sttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of members in seconds.";
    "sunion" -2, READONLY, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sunion).estimated(work::whole),
        "Returns the members that are in any of the given sets.";
    "sunioncard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "8.10.0", on_slab!(combine::sunioncard).estimated(work::whole),
        "Returns the number of members that are in any of the given sets, up to a limit.";
    "sunionstore" -3, WRITE | DENYOOM, Keys::Range(1, -1, 1), "1.0.0", on_slab!(combine::sunionstore).estimated(work::whole),
        "Stores the members that are in any of the given sets.";
};
