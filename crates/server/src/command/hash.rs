//! Hashes: each command's place in the table. The code is in the files below, by what it does.

mod lifetime;
mod number;
mod range;
mod read;
mod scan;
mod write;

use super::element_ttl::family;
use super::lifetime::{Base, Unit};
use super::refusal::settle;
use super::{Keys, Spec, flag};
use store::Hash;

/// This family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "hdel",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Removes fields; the last one takes the key along.",
        run: |ctx, args| settle(ctx, args, write::hdel),
    },
    Spec {
        name: "hexists",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Tells whether a field exists.",
        run: |ctx, args| settle(ctx, args, read::hexists),
    },
    Spec {
        name: "hexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Lets fields expire after so many seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Now, "hexpire")
            })
        },
    },
    Spec {
        name: "hexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Lets fields expire at a Unix time in seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Epoch, "hexpireat")
            })
        },
    },
    Spec {
        name: "hexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Tells when fields expire, as Unix times in seconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Epoch)
            })
        },
    },
    Spec {
        name: "hget",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Reads a field.",
        run: |ctx, args| settle(ctx, args, read::hget),
    },
    Spec {
        name: "hgetall",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Reads all fields with their values.",
        run: |ctx, args| settle(ctx, args, read::hgetall),
    },
    Spec {
        name: "hgetdel",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Reads fields and removes them.",
        run: |ctx, args| settle(ctx, args, lifetime::hgetdel),
    },
    Spec {
        name: "hgetex",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Reads fields, and gives them deadlines or takes them.",
        run: |ctx, args| settle(ctx, args, lifetime::hgetex),
    },
    Spec {
        name: "hincrby",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Adds to the integer in a field; its deadline stays.",
        run: |ctx, args| settle(ctx, args, number::hincrby),
    },
    Spec {
        name: "hincrbyfloat",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.6.0",
        summary: "Adds to the number in a field; its deadline stays.",
        run: |ctx, args| settle(ctx, args, number::hincrbyfloat),
    },
    Spec {
        name: "hkeys",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Lists all fields.",
        run: |ctx, args| settle(ctx, args, read::hkeys),
    },
    Spec {
        name: "hlen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Counts the fields.",
        run: |ctx, args| settle(ctx, args, read::hlen),
    },
    Spec {
        name: "hmget",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Reads several fields.",
        run: |ctx, args| settle(ctx, args, read::hmget),
    },
    Spec {
        name: "hmset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Gives fields values, as HSET does, and says OK.",
        run: |ctx, args| settle(ctx, args, write::hmset),
    },
    Spec {
        name: "hpersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Takes the deadlines of fields.",
        run: |ctx, args| settle(ctx, args, family::persist::<Hash>),
    },
    Spec {
        name: "hpexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Lets fields expire after so many milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Now, "hpexpire")
            })
        },
    },
    Spec {
        name: "hpexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Lets fields expire at a Unix time in milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch, "hpexpireat")
            })
        },
    },
    Spec {
        name: "hpexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Tells when fields expire, as Unix times in milliseconds.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch)
            })
        },
    },
    Spec {
        name: "hpttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Tells how many milliseconds fields have to live.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Now)
            })
        },
    },
    Spec {
        name: "hrandfield",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "6.2.0",
        summary: "Tells fields chosen by chance.",
        run: |ctx, args| settle(ctx, args, scan::hrandfield),
    },
    Spec {
        name: "hrangebyttl",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "mayfly",
        summary: "Lists fields by the milliseconds that they have to live, the shortest first.",
        run: |ctx, args| settle(ctx, args, range::hrangebyttl),
    },
    Spec {
        name: "hscan",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.8.0",
        summary: "Lists fields with their values, some at a time.",
        run: |ctx, args| settle(ctx, args, scan::hscan),
    },
    Spec {
        name: "hset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Gives fields values and no deadline; tells how many are new.",
        run: |ctx, args| settle(ctx, args, write::hset),
    },
    Spec {
        name: "hsetex",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Gives fields values and deadlines, on conditions.",
        run: |ctx, args| settle(ctx, args, lifetime::hsetex),
    },
    Spec {
        name: "hsetnx",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Gives a field a value, unless it has one.",
        run: |ctx, args| settle(ctx, args, write::hsetnx),
    },
    Spec {
        name: "hstrlen",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "3.2.0",
        summary: "Tells how long a field's value is.",
        run: |ctx, args| settle(ctx, args, read::hstrlen),
    },
    Spec {
        name: "httl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Tells how many seconds fields have to live.",
        run: |ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Now)
            })
        },
    },
    Spec {
        name: "hvals",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Lists all values.",
        run: |ctx, args| settle(ctx, args, read::hvals),
    },
];
