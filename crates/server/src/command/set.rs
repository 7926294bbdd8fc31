//! Sets: each command's place in the table. The code is in the files below, by what it does.

mod combine;
mod lifetime;
mod list;
mod member;
mod random;

use super::element_ttl::family;
use super::lifetime::{Base, Unit};
use super::refusal::settle;
use super::{Keys, Spec, flag};
use store::Set;

/// This family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "sadd",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Adds members to a set; a missing one is made.",
        run: |ctx, args| settle(ctx, args, member::sadd),
    },
    Spec {
        name: "saddex",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "Dragonfly",
        summary: "Adds members that expire after so many seconds.",
        run: |ctx, args| settle(ctx, args, lifetime::saddex),
    },
    Spec {
        name: "scard",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Tells how many members a set has.",
        run: |ctx, args| settle(ctx, args, member::scard),
    },
    Spec {
        name: "sdiff",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Lists what only the first of several sets has.",
        run: |ctx, args| settle(ctx, args, combine::sdiff),
    },
    Spec {
        name: "sdiffstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores what only the first of several sets has.",
        run: |ctx, args| settle(ctx, args, combine::sdiffstore),
    },
    Spec {
        name: "sexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Lets members expire after so many seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Seconds, Base::Now, "sexpire")
            })
        },
    },
    Spec {
        name: "sexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Lets members expire at a Unix time in seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Seconds, Base::Epoch, "sexpireat")
            })
        },
    },
    Spec {
        name: "sexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Tells when members expire, as Unix times in seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Epoch)
            })
        },
    },
    Spec {
        name: "sinter",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Lists what all of several sets have.",
        run: |ctx, args| settle(ctx, args, combine::sinter),
    },
    Spec {
        name: "sintercard",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "set",
        since: "7.0.0",
        summary: "Counts what all of several sets have, up to a limit.",
        run: |ctx, args| settle(ctx, args, combine::sintercard),
    },
    Spec {
        name: "sinterstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores what all of several sets have.",
        run: |ctx, args| settle(ctx, args, combine::sinterstore),
    },
    Spec {
        name: "sismember",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Tells whether a set has a member.",
        run: |ctx, args| settle(ctx, args, member::sismember),
    },
    Spec {
        name: "smembers",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Lists all members of a set.",
        run: |ctx, args| settle(ctx, args, list::smembers),
    },
    Spec {
        name: "smismember",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "6.2.0",
        summary: "Tells which of several members a set has.",
        run: |ctx, args| settle(ctx, args, member::smismember),
    },
    Spec {
        name: "smove",
        arity: 4,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 2, 1),
        group: "set",
        since: "1.0.0",
        summary: "Moves a member from one set to another.",
        run: |ctx, args| settle(ctx, args, member::smove),
    },
    Spec {
        name: "spersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Takes members' deadlines away.",
        run: |ctx, args| settle(ctx, args, family::persist::<Set>),
    },
    Spec {
        name: "spexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Lets members expire after so many milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Now, "spexpire")
            })
        },
    },
    Spec {
        name: "spexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Lets members expire at a Unix time in milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch, "spexpireat")
            })
        },
    },
    Spec {
        name: "spexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Tells when members expire, as Unix times in milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch)
            })
        },
    },
    Spec {
        name: "spop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Removes members chosen by chance and lists them.",
        run: |ctx, args| settle(ctx, args, random::spop),
    },
    Spec {
        name: "spttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Tells how many milliseconds members still live.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Now)
            })
        },
    },
    Spec {
        name: "srandmember",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Lists members chosen by chance.",
        run: |ctx, args| settle(ctx, args, random::srandmember),
    },
    Spec {
        name: "srem",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Removes members; the last one takes the key along.",
        run: |ctx, args| settle(ctx, args, member::srem),
    },
    Spec {
        name: "sscan",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "2.8.0",
        summary: "Lists the members of a set step by step.",
        run: |ctx, args| settle(ctx, args, list::sscan),
    },
    Spec {
        name: "sttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Tells how many seconds members still live.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Now)
            })
        },
    },
    Spec {
        name: "sunion",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Lists what any of several sets has.",
        run: |ctx, args| settle(ctx, args, combine::sunion),
    },
    Spec {
        name: "sunionstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores what any of several sets has.",
        run: |ctx, args| settle(ctx, args, combine::sunionstore),
    },
];
