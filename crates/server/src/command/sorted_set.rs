//! Commands on sorted sets. The submodules implement the commands of this table.

mod access;
mod add;
mod combine;
mod interval;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod reply;
mod result;
mod scan;

use super::element_ttl::family;
use super::lifetime::{Base, Unit};
use crate::context::{Run, Spec, settle};
use crate::spec::{Keys, flag};
use store::SortedSet;

/// Table of this family's commands.
pub const TABLE: &[Spec] = &[
    Spec {
        name: "bzmpop",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING | flag::MOVABLE_KEYS,
        keys: Keys::Counted(2),
        group: "sorted-set",
        since: "7.0.0",
        summary: "Removes and returns members with the lowest or highest scores from the first non-empty sorted set. Blocks until there is one.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::bzmpop)),
    },
    Spec {
        name: "bzpopmax",
        arity: -3,
        flags: flag::WRITE | flag::NOSCRIPT | flag::BLOCKING | flag::FAST,
        keys: Keys::Range(1, -2, 1),
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the member with the highest score from the first non-empty sorted set. Blocks until there is one.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::bzpopmax)),
    },
    Spec {
        name: "bzpopmin",
        arity: -3,
        flags: flag::WRITE | flag::NOSCRIPT | flag::BLOCKING | flag::FAST,
        keys: Keys::Range(1, -2, 1),
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the member with the lowest score from the first non-empty sorted set. Blocks until there is one.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::bzpopmin)),
    },
    Spec {
        name: "zadd",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Adds members to a sorted set, or updates their scores.",
        run: Run::slab(|ctx, args| settle(ctx, args, add::zadd)),
    },
    Spec {
        name: "zcard",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the number of members of a sorted set.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zcard)),
    },
    Spec {
        name: "zcount",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Returns the number of members whose scores are within a range.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zcount)),
    },
    Spec {
        name: "zdiff",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members of the first sorted set that are in none of the others.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zdiff)),
    },
    Spec {
        name: "zdiffstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLE_KEYS,
        keys: Keys::FirstAndCounted(2),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Stores the members of the first sorted set that are in none of the others.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zdiffstore)),
    },
    Spec {
        name: "zexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Sets the expiration of members as a number of seconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Now, "zexpire")
            })
        }),
    },
    Spec {
        name: "zexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Sets the expiration of members as a Unix time in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch, "zexpireat")
            })
        }),
    },
    Spec {
        name: "zexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Returns the expiration times of members, as Unix times in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "zincrby",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Adds a number to a member's score; a missing member counts as 0.",
        run: Run::slab(|ctx, args| settle(ctx, args, add::zincrby)),
    },
    Spec {
        name: "zinter",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members that are in all of the given sorted sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zinter)),
    },
    Spec {
        name: "zintercard",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "sorted-set",
        since: "7.0.0",
        summary: "Returns the number of members that are in all of the given sorted sets, up to a limit.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zintercard)),
    },
    Spec {
        name: "zinterstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLE_KEYS,
        keys: Keys::FirstAndCounted(2),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Stores the members that are in all of the given sorted sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zinterstore)),
    },
    Spec {
        name: "zlexcount",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.8.9",
        summary: "Returns the number of members within a lexicographical range.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zlexcount)),
    },
    Spec {
        name: "zmpop",
        arity: -4,
        flags: flag::WRITE | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "sorted-set",
        since: "7.0.0",
        summary: "Removes and returns members with the lowest or highest scores from the first non-empty sorted set.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::zmpop)),
    },
    Spec {
        name: "zmscore",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the scores of the given members.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zmscore)),
    },
    Spec {
        name: "zpersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Removes the expiration of members.",
        run: Run::slab(|ctx, args| settle(ctx, args, family::persist::<SortedSet>)),
    },
    Spec {
        name: "zpexpire",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Sets the expiration of members as a number of milliseconds from now.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now, "zpexpire")
            })
        }),
    },
    Spec {
        name: "zpexpireat",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Sets the expiration of members as a Unix time in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::expire::<SortedSet>(
                    ctx,
                    args,
                    Unit::Milliseconds,
                    Base::Epoch,
                    "zpexpireat",
                )
            })
        }),
    },
    Spec {
        name: "zpexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Returns the expiration times of members, as Unix times in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Epoch)
            })
        }),
    },
    Spec {
        name: "zpopmax",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the members with the highest scores.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::zpopmax)),
    },
    Spec {
        name: "zpopmin",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the members with the lowest scores.",
        run: Run::slab(|ctx, args| settle(ctx, args, pop::zpopmin)),
    },
    Spec {
        name: "zpttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Returns the remaining times to live of members in milliseconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "zrandmember",
        arity: -2,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns random members of a sorted set.",
        run: Run::slab(|ctx, args| settle(ctx, args, random::zrandmember)),
    },
    Spec {
        name: "zrange",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the members within a range of ranks, scores or names.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrange)),
    },
    Spec {
        name: "zrangebylex",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.8.9",
        summary: "Returns the members within a lexicographical range.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrangebylex)),
    },
    Spec {
        name: "zrangebyscore",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.0.5",
        summary: "Returns the members whose scores are within a range.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrangebyscore)),
    },
    Spec {
        name: "zrangestore",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM,
        keys: Keys::Range(1, 2, 1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Stores a range of members of a sorted set under another key.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrangestore)),
    },
    Spec {
        name: "zrank",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Returns the rank of a member, the lowest score first.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zrank)),
    },
    Spec {
        name: "zrem",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Removes members from a sorted set. Deletes the key when no member remains.",
        run: Run::slab(|ctx, args| settle(ctx, args, remove::zrem)),
    },
    Spec {
        name: "zremrangebylex",
        arity: 4,
        flags: flag::WRITE,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.8.9",
        summary: "Removes the members within a lexicographical range.",
        run: Run::slab(|ctx, args| settle(ctx, args, remove::zremrangebylex)),
    },
    Spec {
        name: "zremrangebyrank",
        arity: 4,
        flags: flag::WRITE,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Removes the members within a range of ranks.",
        run: Run::slab(|ctx, args| settle(ctx, args, remove::zremrangebyrank)),
    },
    Spec {
        name: "zremrangebyscore",
        arity: 4,
        flags: flag::WRITE,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Removes the members whose scores are within a range.",
        run: Run::slab(|ctx, args| settle(ctx, args, remove::zremrangebyscore)),
    },
    Spec {
        name: "zrevrange",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the members within a range of ranks, the highest score first.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrevrange)),
    },
    Spec {
        name: "zrevrangebylex",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.8.9",
        summary: "Returns the members within a lexicographical range, the greatest first.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrevrangebylex)),
    },
    Spec {
        name: "zrevrangebyscore",
        arity: -4,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.2.0",
        summary: "Returns the members whose scores are within a range, the highest score first.",
        run: Run::slab(|ctx, args| settle(ctx, args, range::zrevrangebyscore)),
    },
    Spec {
        name: "zrevrank",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Returns the rank of a member, the highest score first.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zrevrank)),
    },
    Spec {
        name: "zscan",
        arity: -3,
        flags: flag::READONLY,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "2.8.0",
        summary: "Iterates over the members and scores of a sorted set.",
        run: Run::slab(|ctx, args| settle(ctx, args, scan::zscan)),
    },
    Spec {
        name: "zscore",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the score of a member.",
        run: Run::slab(|ctx, args| settle(ctx, args, read::zscore)),
    },
    Spec {
        name: "zttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        keys: Keys::Range(1, 1, 1),
        group: "sorted-set",
        since: "mayfly",
        summary: "Returns the remaining times to live of members in seconds.",
        run: Run::slab(|ctx, args| {
            settle(ctx, args, |ctx, args| {
                family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Now)
            })
        }),
    },
    Spec {
        name: "zunion",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLE_KEYS,
        keys: Keys::Counted(1),
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members that are in any of the given sorted sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zunion)),
    },
    Spec {
        name: "zunionstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLE_KEYS,
        keys: Keys::FirstAndCounted(2),
        group: "sorted-set",
        since: "2.0.0",
        summary: "Stores the members that are in any of the given sorted sets.",
        run: Run::slab(|ctx, args| settle(ctx, args, combine::zunionstore)),
    },
];
