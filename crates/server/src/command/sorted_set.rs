//! Commands on sorted sets. The submodules implement the commands of this table.

pub mod access;
pub mod add;
mod combine;
mod interval;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod reply;
pub mod result;
mod scan;

use super::element_ttl::family;
use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use engine::lifetime::{Base, Unit};
use session::spec::Keys;
use session::spec::flag::{BLOCKING, DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};
use store::SortedSet;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "sorted-set":
    "bzmpop" -5, WRITE | BLOCKING | MOVABLE_KEYS, Keys::Counted(2), "7.0.0", on_slab!(pop::bzmpop),
        "Removes and returns members with the lowest or highest scores from the first non-empty sorted set. Blocks until there is one.";
    "bzpopmax" -3, WRITE | BLOCKING | FAST, Keys::Range(1, -2, 1), "5.0.0",
        on_slab!(pop::bzpopmax),
        "Removes and returns the member with the highest score from the first non-empty sorted set. Blocks until there is one.";
    "bzpopmin" -3, WRITE | BLOCKING | FAST, Keys::Range(1, -2, 1), "5.0.0",
        on_slab!(pop::bzpopmin),
        "Removes and returns the member with the lowest score from the first non-empty sorted set. Blocks until there is one.";
    "zadd" -4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.2.0", on_slab!(add::zadd).by_arguments(),
        "Adds members to a sorted set, or updates their scores.";
    "zcard" 2, READONLY | FAST, Keys::Range(1, 1, 1), "1.2.0", on_slab!(read::zcard),
        "Returns the number of members of a sorted set.";
    "zcount" 4, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::zcount),
        "Returns the number of members whose scores are within a range.";
    "zdiff" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "6.2.0", on_slab!(combine::zdiff).estimated(work::whole),
        "Returns the members of the first sorted set that are in none of the others.";
    "zdiffstore" -4, WRITE | DENYOOM | MOVABLE_KEYS, Keys::FirstAndCounted(2), "6.2.0",
        on_slab!(combine::zdiffstore).estimated(work::whole),
        "Stores the members of the first sorted set that are in none of the others.";
    "zexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Now, "zexpire")).by_arguments(),
        "Sets the expiration of members as a number of seconds from now.";
    "zexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch, "zexpireat")).by_arguments(),
        "Sets the expiration of members as a Unix time in seconds.";
    "zexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of members, as Unix times in seconds.";
    "zincrby" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "1.2.0", on_slab!(add::zincrby),
        "Adds a number to a member's score; a missing member counts as 0.";
    "zinter" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "6.2.0", on_slab!(combine::zinter).estimated(work::whole),
        "Returns the members that are in all of the given sorted sets.";
    "zintercard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "7.0.0", on_slab!(combine::zintercard).estimated(work::whole),
        "Returns the number of members that are in all of the given sorted sets, up to a limit.";
    "zinterstore" -4, WRITE | DENYOOM | MOVABLE_KEYS, Keys::FirstAndCounted(2), "2.0.0",
        on_slab!(combine::zinterstore).estimated(work::whole),
        "Stores the members that are in all of the given sorted sets.";
    "zlexcount" 4, READONLY | FAST, Keys::Range(1, 1, 1), "2.8.9", on_slab!(read::zlexcount),
        "Returns the number of members within a lexicographical range.";
    "zmpop" -4, WRITE | MOVABLE_KEYS, Keys::Counted(1), "7.0.0", on_slab!(pop::zmpop).estimated(work::popped),
        "Removes and returns members with the lowest or highest scores from the first non-empty sorted set.";
    "zmscore" -3, READONLY | FAST, Keys::Range(1, 1, 1), "6.2.0", on_slab!(read::zmscore).by_arguments(),
        "Returns the scores of the given members.";
    "zpersist" -5, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly", on_slab!(family::persist::<SortedSet>).by_arguments(),
        "Removes the expiration of members.";
    "zpexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now, "zpexpire")).by_arguments(),
        "Sets the expiration of members as a number of milliseconds from now.";
    "zpexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Epoch, "zpexpireat",)).by_arguments(),
        "Sets the expiration of members as a Unix time in milliseconds.";
    "zpexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of members, as Unix times in milliseconds.";
    "zpopmax" -2, WRITE | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(pop::zpopmax).estimated(work::counted),
        "Removes and returns the members with the highest scores.";
    "zpopmin" -2, WRITE | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(pop::zpopmin).estimated(work::counted),
        "Removes and returns the members with the lowest scores.";
    "zpttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of members in milliseconds.";
    "zrandmember" -2, READONLY, Keys::Range(1, 1, 1), "6.2.0", on_slab!(random::zrandmember).estimated(work::sampled),
        "Returns random members of a sorted set.";
    "zrange" -4, READONLY, Keys::Range(1, 1, 1), "1.2.0", on_slab!(range::zrange).estimated(range::work),
        "Returns the members within a range of ranks, scores or names.";
    "zrangebylex" -4, READONLY, Keys::Range(1, 1, 1), "2.8.9", on_slab!(range::zrangebylex).estimated(range::work),
        "Returns the members within a lexicographical range.";
    "zrangebyscore" -4, READONLY, Keys::Range(1, 1, 1), "1.0.5", on_slab!(range::zrangebyscore).estimated(range::work),
        "Returns the members whose scores are within a range.";
    "zrangestore" -5, WRITE | DENYOOM, Keys::Range(1, 2, 1), "6.2.0", on_slab!(range::zrangestore).estimated(range::work),
        "Stores a range of members of a sorted set under another key.";
    "zrank" -3, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::zrank),
        "Returns the rank of a member, the lowest score first.";
    "zrem" -3, WRITE | FAST, Keys::Range(1, 1, 1), "1.2.0", on_slab!(remove::zrem).by_arguments(),
        "Removes members from a sorted set. Deletes the key when no member remains.";
    "zremrangebylex" 4, WRITE, Keys::Range(1, 1, 1), "2.8.9", on_slab!(remove::zremrangebylex).estimated(remove::work),
        "Removes the members within a lexicographical range.";
    "zremrangebyrank" 4, WRITE, Keys::Range(1, 1, 1), "2.0.0", on_slab!(remove::zremrangebyrank).estimated(remove::work),
        "Removes the members within a range of ranks.";
    "zremrangebyscore" 4, WRITE, Keys::Range(1, 1, 1), "1.2.0", on_slab!(remove::zremrangebyscore).estimated(remove::work),
        "Removes the members whose scores are within a range.";
    "zrevrange" -4, READONLY, Keys::Range(1, 1, 1), "1.2.0", on_slab!(range::zrevrange).estimated(range::work),
        "Returns the members within a range of ranks, the highest score first.";
    "zrevrangebylex" -4, READONLY, Keys::Range(1, 1, 1), "2.8.9", on_slab!(range::zrevrangebylex).estimated(range::work),
        "Returns the members within a lexicographical range, the greatest first.";
    "zrevrangebyscore" -4, READONLY, Keys::Range(1, 1, 1), "2.2.0", on_slab!(range::zrevrangebyscore).estimated(range::work),
        "Returns the members whose scores are within a range, the highest score first.";
    "zrevrank" -3, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::zrevrank),
        "Returns the rank of a member, the highest score first.";
    "zscan" -3, READONLY, Keys::Range(1, 1, 1), "2.8.0", on_slab!(scan::zscan).estimated(work::scanned),
        "Iterates over the members and scores of a sorted set.";
    "zscore" 3, READONLY | FAST, Keys::Range(1, 1, 1), "1.2.0", on_slab!(read::zscore),
        "Returns the score of a member.";
    "zttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of members in seconds.";
    "zunion" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1), "6.2.0", on_slab!(combine::zunion).estimated(work::whole),
        "Returns the members that are in any of the given sorted sets.";
    "zunionstore" -4, WRITE | DENYOOM | MOVABLE_KEYS, Keys::FirstAndCounted(2), "2.0.0",
        on_slab!(combine::zunionstore).estimated(work::whole),
        "Stores the members that are in any of the given sorted sets.";
};
