//! Commands on hashes. The submodules implement the commands of this table.

mod lifetime;
mod number;
mod range;
mod read;
mod scan;
mod write;

use super::element_ttl::family;
use super::lifetime::{Base, Unit};
use crate::context::{Run, Spec, settle};
use crate::spec::{Keys, flag};
use store::Hash;

/// Table of this family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "hdel",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Removes fields from a hash. Deletes the key when no field remains.",
        run: Run::slab(|ctx, args| settle(ctx, args, write::hdel)),
    },
    Spec {
        name: "hexists",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns whether a field exists in a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hexists)),
    },
    Spec {
        name: "hexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Sets the expiration of fields as a number of seconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Now, "hexpire")
            })
        }),
    },
    Spec {
        name: "hexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Sets the expiration of fields as a Unix time in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Epoch, "hexpireat")
            })
        }),
    },
    Spec {
        name: "hexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Returns the expiration times of fields, as Unix times in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "hget",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns the value of a field.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hget)),
    },
    Spec {
        name: "hgetall",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns all fields and their values.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hgetall)),
    },
    Spec {
        name: "hgetdel",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Returns the values of the given fields and removes the fields.",
        run: Run::slab(|ctx, args| settle(ctx, args, lifetime::hgetdel)),
    },
    Spec {
        name: "hgetex",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Returns the values of the given fields and sets or removes their expiration.",
        run: Run::slab(|ctx, args| settle(ctx, args, lifetime::hgetex)),
    },
    Spec {
        name: "hincrby",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Adds an integer to the value of a field. Keeps the field's expiration.",
        run: Run::slab(|ctx, args| settle(ctx, args, number::hincrby)),
    },
    Spec {
        name: "hincrbyfloat",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.6.0",
        summary: "Adds a floating-point number to the value of a field. Keeps the field's expiration.",
        run: Run::slab(|ctx, args| settle(ctx, args, number::hincrbyfloat)),
    },
    Spec {
        name: "hkeys",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns all fields of a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hkeys)),
    },
    Spec {
        name: "hlen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns the number of fields of a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hlen)),
    },
    Spec {
        name: "hmget",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns the values of the given fields.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hmget)),
    },
    Spec {
        name: "hmset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Sets the values of fields, as HSET does, and replies OK.",
        run: Run::slab(|ctx, args| settle(ctx, args, write::hmset)),
    },
    Spec {
        name: "hpersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Removes the expiration of fields.",
        run: Run::slab(|ctx, args| settle(ctx, args, family::persist::<Hash>)),
    },
    Spec {
        name: "hpexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Sets the expiration of fields as a number of milliseconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Now, "hpexpire")
            })
        }),
    },
    Spec {
        name: "hpexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Sets the expiration of fields as a Unix time in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch, "hpexpireat")
            })
        }),
    },
    Spec {
        name: "hpexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Returns the expiration times of fields, as Unix times in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "hpttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Returns the remaining times to live of fields in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "hrandfield",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "6.2.0",
        summary: "Returns random fields of a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, scan::hrandfield)),
    },
    Spec {
        name: "hrangebyttl",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "mayfly",
        summary: "Returns fields whose remaining time to live in milliseconds is within a range, the shortest first.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::hrangebyttl)),
    },
    Spec {
        name: "hscan",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.8.0",
        summary: "Iterates over the fields and values of a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, scan::hscan)),
    },
    Spec {
        name: "hset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Sets the values of fields and removes their expiration. Returns the number of new fields.",
        run: Run::slab(|ctx, args| settle(ctx, args, write::hset)),
    },
    Spec {
        name: "hsetex",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "8.0.0",
        summary: "Sets the values and the expiration of fields, optionally only if a condition holds.",
        run: Run::slab(|ctx, args| settle(ctx, args, lifetime::hsetex)),
    },
    Spec {
        name: "hsetnx",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Sets the value of a field only if the field does not exist.",
        run: Run::slab(|ctx, args| settle(ctx, args, write::hsetnx)),
    },
    Spec {
        name: "hstrlen",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "3.2.0",
        summary: "Returns the length of a field's value.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hstrlen)),
    },
    Spec {
        name: "httl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "7.4.0",
        summary: "Returns the remaining times to live of fields in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "hvals",
        arity: 2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "hash",
        since: "2.0.0",
        summary: "Returns all values of a hash.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::hvals)),
    },
];
