//! Commands on sorted sets. The submodules implement the commands of this table.

pub mod access;
pub mod add;
mod combine;
mod interval;
mod move_members;
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
use session::spec::flag::{BLOCKING, DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};
use session::spec::{Access, Form, Keys};
use store::SortedSet;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "sorted-set" [sortedset]:
    "bzmpop" -5, WRITE | BLOCKING | MOVABLE_KEYS => Form::ServedMany, Keys::Counted(2) => Access::TAKE, "7.0.0",
        on_slab!(pop::bzmpop),
        "timeout numkeys key... (MIN | MAX) [COUNT count]",
        "Removes and returns members with the lowest or highest scores from the first non-empty sorted set. Blocks until there is one.";
    "bzmove" -5, WRITE | DENYOOM | BLOCKING => Form::Without("ZMOVE", 4),
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "8.12.0", on_slab!(move_members::bzmove),
        "source destination (MIN | MAX) timeout [COUNT count]",
        "Moves members with the lowest or highest scores to another sorted set and returns them. Blocks until there is one.";
    "bzpopmax" -3, WRITE | BLOCKING | FAST => Form::ServedBy("ZPOPMAX"),
        Keys::Range(1, -2, 1) => Access::TAKE, "5.0.0", on_slab!(pop::bzpopmax),
        "key... timeout",
        "Removes and returns the member with the highest score from the first non-empty sorted set. Blocks until there is one.";
    "bzpopmin" -3, WRITE | BLOCKING | FAST => Form::ServedBy("ZPOPMIN"),
        Keys::Range(1, -2, 1) => Access::TAKE, "5.0.0", on_slab!(pop::bzpopmin),
        "key... timeout",
        "Removes and returns the member with the lowest score from the first non-empty sorted set. Blocks until there is one.";
    "zadd" -4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "1.2.0",
        on_slab!(add::zadd).by_arguments().with_element_at(3),
        "key [NX | XX] [GT | LT] [CH] [INCR] (score member)...",
        "Adds members to a sorted set, or updates their scores.";
    "zcard" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "1.2.0", on_slab!(read::zcard),
        "key", "Returns the number of members of a sorted set.";
    "zcount" 4, READONLY | FAST, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::zcount),
        "key min:double max:double", "Returns the number of members whose scores are within a range.";
    "zdiff" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "6.2.0",
        on_slab!(combine::zdiff).estimated(work::whole),
        "numkeys key... [WITHSCORES]",
        "Returns the members of the first sorted set that are in none of the others.";
    "zdiffstore" -4, WRITE | DENYOOM | MOVABLE_KEYS => Form::Same,
        Keys::FirstAndCounted(2) => Access::OVERWRITE.then(Access::READ), "6.2.0",
        on_slab!(combine::zdiffstore).estimated(work::whole),
        "destination numkeys key...",
        "Stores the members of the first sorted set that are in none of the others.";
    "zexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Now, "zexpire")).by_arguments(),
        "key seconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a number of seconds from now.";
    "zexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch, "zexpireat")).by_arguments(),
        "key unix-time-seconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a Unix time in seconds.";
    "zexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "key (MEMBERS nummembers member...)",
        "Returns the expiration times of members, as Unix times in seconds.";
    "zincrby" 4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.2.0",
        on_slab!(add::zincrby).with_element_at(3),
        "key increment:double member", "Adds a number to a member's score; a missing member counts as 0.";
    "zinter" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "6.2.0",
        on_slab!(combine::zinter).estimated(work::whole),
        "numkeys key... [WEIGHTS weight...] [AGGREGATE (SUM | MIN | MAX | COUNT)] [WITHSCORES]",
        "Returns the members that are in all of the given sorted sets.";
    "zintercard" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "7.0.0",
        on_slab!(combine::zintercard).estimated(work::whole),
        "numkeys key... [LIMIT limit]",
        "Returns the number of members that are in all of the given sorted sets, up to a limit.";
    "zinterstore" -4, WRITE | DENYOOM | MOVABLE_KEYS => Form::Same,
        Keys::FirstAndCounted(2) => Access::OVERWRITE.then(Access::READ), "2.0.0",
        on_slab!(combine::zinterstore).estimated(work::whole),
        "destination numkeys key... [WEIGHTS weight...] [AGGREGATE (SUM | MIN | MAX | COUNT)]",
        "Stores the members that are in all of the given sorted sets.";
    "zlexcount" 4, READONLY | FAST, Keys::ONE => Access::READ, "2.8.9", on_slab!(read::zlexcount),
        "key min max", "Returns the number of members within a lexicographical range.";
    "zmove" -4, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "8.12.0",
        on_slab!(move_members::zmove).estimated(work::whole),
        "source destination (MIN | MAX | (BYSCORE score-min:double score-max:double)) [COUNT count]",
        "Moves members with the lowest or highest scores, or those within a range, to another sorted set and returns them.";
    "zmovemember" -6, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::TAKE.then(Access::INSERT), "8.12.0",
        on_slab!(move_members::zmovemember).by_arguments(),
        "source destination [NX | XX] (MEMBERS num-members:integer member...)",
        "Moves the given members to another sorted set and returns them.";
    "zmpop" -4, WRITE | MOVABLE_KEYS => Form::ServedMany, Keys::Counted(1) => Access::TAKE, "7.0.0",
        on_slab!(pop::zmpop).estimated(work::popped),
        "numkeys key... (MIN | MAX) [COUNT count]",
        "Removes and returns members with the lowest or highest scores from the first non-empty sorted set.";
    "zmscore" -3, READONLY | FAST, Keys::ONE => Access::READ, "6.2.0", on_slab!(read::zmscore).by_arguments(),
        "key member...", "Returns the scores of the given members.";
    "zpersist" -5, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(family::persist::<SortedSet>).by_arguments(),
        "key (MEMBERS nummembers member...)", "Removes the expiration of members.";
    "zpexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now, "zpexpire")).by_arguments(),
        "key milliseconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a number of milliseconds from now.";
    "zpexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| family::expire::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Epoch, "zpexpireat",)).by_arguments(),
        "key unix-time-milliseconds [NX | XX | GT | LT] (MEMBERS nummembers member...)",
        "Sets the expiration of members as a Unix time in milliseconds.";
    "zpexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "key (MEMBERS nummembers member...)",
        "Returns the expiration times of members, as Unix times in milliseconds.";
    "zpopmax" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::TAKE, "5.0.0",
        on_slab!(pop::zpopmax).estimated(work::counted),
        "key [count]", "Removes and returns the members with the highest scores.";
    "zpopmin" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::TAKE, "5.0.0",
        on_slab!(pop::zpopmin).estimated(work::counted),
        "key [count]", "Removes and returns the members with the lowest scores.";
    "zpttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "key (MEMBERS nummembers member...)", "Returns the remaining times to live of members in milliseconds.";
    "zrandmember" -2, READONLY, Keys::ONE => Access::READ, "6.2.0",
        on_slab!(random::zrandmember).estimated(work::sampled),
        "key [count [WITHSCORES]]", "Returns random members of a sorted set.";
    "zrange" -4, READONLY, Keys::ONE => Access::READ, "1.2.0", on_slab!(range::zrange).estimated(range::work),
        "key start:string stop:string [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "Returns the members within a range of ranks, scores or names.";
    "zrangebylex" -4, READONLY, Keys::ONE => Access::READ, "2.8.9",
        on_slab!(range::zrangebylex).estimated(range::work),
        "key min max [LIMIT offset count]", "Returns the members within a lexicographical range.";
    "zrangebyscore" -4, READONLY, Keys::ONE => Access::READ, "1.0.5",
        on_slab!(range::zrangebyscore).estimated(range::work),
        "key min:double max:double [WITHSCORES] [LIMIT offset count]",
        "Returns the members whose scores are within a range.";
    "zrangestore" -5, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::OVERWRITE.then(Access::READ), "6.2.0",
        on_slab!(range::zrangestore).estimated(range::work),
        "dst:key src:key min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "Stores a range of members of a sorted set under another key.";
    "zrank" -3, READONLY | FAST, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::zrank),
        "key member [WITHSCORE]", "Returns the rank of a member, the lowest score first.";
    "zrem" -3, WRITE | FAST => Form::Same, Keys::ONE => Access::DELETE, "1.2.0",
        on_slab!(remove::zrem).by_arguments(),
        "key member...", "Removes members from a sorted set. Deletes the key when no member remains.";
    "zremrangebylex" 4, WRITE => Form::Same, Keys::ONE => Access::DELETE, "2.8.9",
        on_slab!(remove::zremrangebylex).estimated(remove::work),
        "key min max", "Removes the members within a lexicographical range.";
    "zremrangebyrank" 4, WRITE => Form::Same, Keys::ONE => Access::DELETE, "2.0.0",
        on_slab!(remove::zremrangebyrank).estimated(remove::work),
        "key start stop", "Removes the members within a range of ranks.";
    "zremrangebyscore" 4, WRITE => Form::Same, Keys::ONE => Access::DELETE, "1.2.0",
        on_slab!(remove::zremrangebyscore).estimated(remove::work),
        "key min:double max:double", "Removes the members whose scores are within a range.";
    "zrevrange" -4, READONLY, Keys::ONE => Access::READ, "1.2.0",
        on_slab!(range::zrevrange).estimated(range::work),
        "key start stop [WITHSCORES]", "Returns the members within a range of ranks, the highest score first.";
    "zrevrangebylex" -4, READONLY, Keys::ONE => Access::READ, "2.8.9",
        on_slab!(range::zrevrangebylex).estimated(range::work),
        "key max min [LIMIT offset count]",
        "Returns the members within a lexicographical range, the greatest first.";
    "zrevrangebyscore" -4, READONLY, Keys::ONE => Access::READ, "2.2.0",
        on_slab!(range::zrevrangebyscore).estimated(range::work),
        "key max:double min:double [WITHSCORES] [LIMIT offset count]",
        "Returns the members whose scores are within a range, the highest score first.";
    "zrevrank" -3, READONLY | FAST, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::zrevrank),
        "key member [WITHSCORE]", "Returns the rank of a member, the highest score first.";
    "zscan" -3, READONLY, Keys::ONE => Access::READ, "2.8.0", on_slab!(scan::zscan).estimated(work::scanned),
        "key cursor [MATCH pattern] [COUNT count]", "Iterates over the members and scores of a sorted set.";
    "zscore" 3, READONLY | FAST, Keys::ONE => Access::READ, "1.2.0", on_slab!(read::zscore),
        "key member", "Returns the score of a member.";
    "zttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| family::ttl::<SortedSet>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "key (MEMBERS nummembers member...)", "Returns the remaining times to live of members in seconds.";
    "zunion" -3, READONLY | MOVABLE_KEYS, Keys::Counted(1) => Access::READ, "6.2.0",
        on_slab!(combine::zunion).estimated(work::whole),
        "numkeys key... [WEIGHTS weight...] [AGGREGATE (SUM | MIN | MAX | COUNT)] [WITHSCORES]",
        "Returns the members that are in any of the given sorted sets.";
    "zunionstore" -4, WRITE | DENYOOM | MOVABLE_KEYS => Form::Same,
        Keys::FirstAndCounted(2) => Access::OVERWRITE.then(Access::READ), "2.0.0",
        on_slab!(combine::zunionstore).estimated(work::whole),
        "destination numkeys key... [WEIGHTS weight...] [AGGREGATE (SUM | MIN | MAX | COUNT)]",
        "Stores the members that are in any of the given sorted sets.";
};
