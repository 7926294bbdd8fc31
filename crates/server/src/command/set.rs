//! Commands on sets. The submodules implement the commands of this table.

mod combine;
mod lifetime;
mod list;
mod member;
mod random;

use super::element_ttl::family;
use super::lifetime::{Base, Unit};
use crate::context::{Run, Spec, settle};
use crate::spec::{Keys, flag};
use store::Set;

/// Table of this family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "sadd",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Adds members to a set. Creates the set if needed.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::sadd)),
    },
    Spec {
        name: "saddex",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "Dragonfly",
        summary: "Adds members that expire after a number of seconds.",
        run: Run::slab(|ctx, args| settle(ctx, args, lifetime::saddex)),
    },
    Spec {
        name: "scard",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns the number of members of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::scard)),
    },
    Spec {
        name: "sdiff",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns the members of the first set that are in none of the others.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sdiff)),
    },
    Spec {
        name: "sdiffstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores the members of the first set that are in none of the others.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sdiffstore)),
    },
    Spec {
        name: "sexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Sets the expiration of members as a number of seconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Seconds, Base::Now, "sexpire")
            })
        }),
    },
    Spec {
        name: "sexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Sets the expiration of members as a Unix time in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Seconds, Base::Epoch, "sexpireat")
            })
        }),
    },
    Spec {
        name: "sexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Returns the expiration times of members, as Unix times in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "sinter",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns the members that are in all of the given sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sinter)),
    },
    Spec {
        name: "sintercard",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "set",
        since: "7.0.0",
        summary: "Returns the number of members that are in all of the given sets, up to a limit.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sintercard)),
    },
    Spec {
        name: "sinterstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores the members that are in all of the given sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sinterstore)),
    },
    Spec {
        name: "sismember",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns whether a value is a member of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::sismember)),
    },
    Spec {
        name: "smembers",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns all members of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, list::smembers)),
    },
    Spec {
        name: "smismember",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "6.2.0",
        summary: "Returns for each given value whether it is a member of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::smismember)),
    },
    Spec {
        name: "smove",
        arity: 4,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 2, 1),
        group: "set",
        since: "1.0.0",
        summary: "Moves a member from one set to another.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::smove)),
    },
    Spec {
        name: "spersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Removes the expiration of members.",
        run: Run::slab(|ctx, args| settle(ctx, args, family::persist::<Set>)),
    },
    Spec {
        name: "spexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Sets the expiration of members as a number of milliseconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Now, "spexpire")
            })
        }),
    },
    Spec {
        name: "spexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Sets the expiration of members as a Unix time in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch, "spexpireat")
            })
        }),
    },
    Spec {
        name: "spexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Returns the expiration times of members, as Unix times in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "spop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Removes and returns random members of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, random::spop)),
    },
    Spec {
        name: "spttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Returns the remaining times to live of members in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Milliseconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "srandmember",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns random members of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, random::srandmember)),
    },
    Spec {
        name: "srem",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Removes members from a set. Deletes the key when no member remains.",
        run: Run::slab(|ctx, args| settle(ctx, args, member::srem)),
    },
    Spec {
        name: "sscan",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "2.8.0",
        summary: "Iterates over the members of a set.",
        run: Run::slab(|ctx, args| settle(ctx, args, list::sscan)),
    },
    Spec {
        name: "sttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "set",
        since: "mayfly",
        summary: "Returns the remaining times to live of members in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Set>(ctx, args, Unit::Seconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "sunion",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Returns the members that are in any of the given sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sunion)),
    },
    Spec {
        name: "sunionstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, -1, 1),
        group: "set",
        since: "1.0.0",
        summary: "Stores the members that are in any of the given sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::sunionstore)),
    },
];
