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
use session::spec::flag::{DENYOOM, FAST, MOVABLE_KEYS, READONLY, UNBOUNDED, WRITE};
use session::spec::{Access, Form, Keys};
use store::Set;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "set" [set]:
    "sadd" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "1.0.0",
        on_slab!(member::sadd).by_arguments(),
        "key member...", "Adds members to a set. Creates the set if needed.";
    "saddex" -4, WRITE | DENYOOM | FAST => Form::Members, Keys::ONE => Access::INSERT, "Dragonfly",
        on_slab!(lifetime::saddex).by_arguments(),
        "key (([KEEPTTL] seconds member...) | ([MNX | MXX] [EX seconds | PX milliseconds | EXAT \
         unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] (MEMBERS nummembers member...)))",
        "Adds members that expire after a number of seconds.";
    "scard" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "1.0.0", on_slab!(member::scard),
        "key", "Returns the number of members of a set.";
    "sdiff" -2, READONLY, Keys::Range(1, -1, 1) => Access::READ, "1.0.0",
        on_slab!(combine::sdiff).estimated(work::whole),
        "key...", "Returns the members of the first set that are in none of the others.";
    "sdiffcard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "8.10.0",
        on_slab!(combine::sdiffcard).estimated(work::whole),
        "numkeys key... [LIMIT limit]",
        "Returns the number of members of the first set that are in none of the others, up to a limit.";
    "sdiffstore" -3, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, -1, 1) => Access::OVERWRITE.then(Access::READ), "1.0.0",
        on_slab!(combine::sdiffstore).estimated(work::whole),
        "destination key...", "Stores the members of the first set that are in none of the others.";
    "sexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Seconds, Base::Now, "sexpire")).by_arguments(),
        "key seconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a number of seconds from now.";
    "sexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Seconds, Base::Epoch, "sexpireat")).by_arguments(),
        "key unix-time-seconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a Unix time in seconds.";
    "sexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "key (MEMBERS nummembers member...)",
        "Returns the expiration times of members, as Unix times in seconds.";
    "sinter" -2, READONLY, Keys::Range(1, -1, 1) => Access::READ, "1.0.0",
        on_slab!(combine::sinter).estimated(work::whole),
        "key...", "Returns the members that are in all of the given sets.";
    "sintercard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "7.0.0",
        on_slab!(combine::sintercard).estimated(work::whole),
        "numkeys key... [LIMIT limit]",
        "Returns the number of members that are in all of the given sets, up to a limit.";
    "sinterstore" -3, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, -1, 1) => Access::OVERWRITE.then(Access::READ), "1.0.0",
        on_slab!(combine::sinterstore).estimated(work::whole),
        "destination key...", "Stores the members that are in all of the given sets.";
    "sismember" 3, READONLY | FAST, Keys::ONE => Access::INSPECT, "1.0.0", on_slab!(member::sismember),
        "key member", "Returns whether a value is a member of a set.";
    "smembers" 2, READONLY, Keys::ONE => Access::READ, "1.0.0",
        on_slab!(list::smembers).estimated(work::whole),
        "key", "Returns all members of a set.";
    "smismember" -3, READONLY | FAST, Keys::ONE => Access::READ, "6.2.0",
        on_slab!(member::smismember).by_arguments(),
        "key member...", "Returns for each given value whether it is a member of a set.";
    "smove" 4, WRITE | FAST => Form::Same, Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "1.0.0",
        on_slab!(member::smove),
        "source destination member", "Moves a member from one set to another.";
    "spersist" -5, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "Valkey",
        on_slab!(family::persist::<Set>).by_arguments(),
        "key (MEMBERS nummembers member...)", "Removes the expiration of members.";
    "spexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Now, "spexpire")).by_arguments(),
        "key milliseconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a number of milliseconds from now.";
    "spexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "8.12.0",
        on_slab!(|ctx, args| family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch, "spexpireat")).by_arguments(),
        "key unix-time-milliseconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a Unix time in milliseconds.";
    "spexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "key (MEMBERS nummembers member...)",
        "Returns the expiration times of members, as Unix times in milliseconds.";
    "spop" -2, WRITE | FAST | UNBOUNDED => Form::Popped, Keys::ONE => Access::TAKE, "1.0.0",
        on_slab!(random::spop).estimated(work::counted),
        "key [count]", "Removes and returns random members of a set.";
    "spttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "key (MEMBERS nummembers member...)", "Returns the remaining times to live of members in milliseconds.";
    "srandmember" -2, READONLY, Keys::ONE => Access::READ, "1.0.0",
        on_slab!(random::srandmember).estimated(work::sampled),
        "key [count]", "Returns random members of a set.";
    "srem" -3, WRITE | FAST => Form::Same, Keys::ONE => Access::DELETE, "1.0.0",
        on_slab!(member::srem).by_arguments(),
        "key member...", "Removes members from a set. Deletes the key when no member remains.";
    "sscan" -3, READONLY, Keys::ONE => Access::READ, "2.8.0", on_slab!(list::sscan).estimated(work::scanned),
        "key cursor [MATCH pattern] [COUNT count]", "Iterates over the members of a set.";
    "sttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "8.12.0",
        on_slab!(|ctx, args| family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "key (MEMBERS nummembers member...)", "Returns the remaining times to live of members in seconds.";
    "sunion" -2, READONLY, Keys::Range(1, -1, 1) => Access::READ, "1.0.0",
        on_slab!(combine::sunion).estimated(work::whole),
        "key...", "Returns the members that are in any of the given sets.";
    "sunioncard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "8.10.0",
        on_slab!(combine::sunioncard).estimated(work::whole),
        "numkeys key... [APPROX] [LIMIT limit]",
        "Returns the number of members that are in any of the given sets, up to a limit.";
    "sunionstore" -3, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, -1, 1) => Access::OVERWRITE.then(Access::READ), "1.0.0",
        on_slab!(combine::sunionstore).estimated(work::whole),
        "destination key...", "Stores the members that are in any of the given sets.";
};
