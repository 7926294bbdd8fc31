//! Commands on streams. The submodules implement the commands of this table.

mod add;
mod arguments;
mod claim;
mod group;
mod info;
mod lifetime;
mod pending;
mod range;
mod read;
mod remove;
mod reply;

use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use engine::lifetime::{Base, Unit};
use session::spec::Keys;
use session::spec::flag::{BLOCKING, CONTAINER, DENYOOM, FAST, MOVABLE_KEYS, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "stream":
    "xack" -4, WRITE | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(pending::xack).by_arguments(),
        "Acknowledges entries that a consumer of a group has received.";
    "xackdel" -6, WRITE | FAST, Keys::Range(1, 1, 1), "8.2.0", on_slab!(remove::xackdel).by_arguments(),
        "Acknowledges entries of a group and deletes them.";
    "xadd" -5, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(add::xadd).estimated(work::added),
        "Adds an entry to a stream. Creates the stream if needed.";
    "xautoclaim" -6, WRITE | FAST, Keys::Range(1, 1, 1), "6.2.0", on_slab!(claim::xautoclaim).estimated(work::claimed),
        "Transfers pending entries that have not been acknowledged for a time to a consumer.";
    "xcfgset" -2, WRITE | FAST, Keys::Range(1, 1, 1), "8.6.0", on_slab!(info::xcfgset),
        "Sets for how long and how many messages of each producer are recognized when they are sent again.";
    "xclaim" -6, WRITE | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(claim::xclaim).by_arguments(),
        "Transfers pending entries to a consumer.";
    "xdel" -3, WRITE | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(remove::xdel).by_arguments(),
        "Deletes entries.";
    "xdelex" -5, WRITE | FAST, Keys::Range(1, 1, 1), "8.2.0", on_slab!(remove::xdelex).by_arguments(),
        "Deletes entries, with a choice of what happens to pending ones.";
    "xgroup" -2, WRITE | DENYOOM | CONTAINER, Keys::Range(2, 2, 1), "5.0.0", on_slab!(group::xgroup).estimated(work::group),
        "A container for commands on consumer groups.";
    "xidmprecord" 5, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.6.2", on_slab!(info::xidmprecord),
        "Records that an entry is a message of a producer, which is recognized when it is sent again.";
    "xinfo" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "5.0.0", on_slab!(info::xinfo).estimated(work::group),
        "A container for commands that describe streams.";
    "xlen" 2, READONLY | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(range::xlen).estimated(work::stream_len),
        "Returns the number of entries of a stream.";
    "xpending" -3, READONLY, Keys::Range(1, 1, 1), "5.0.0", on_slab!(pending::xpending).estimated(work::pending),
        "Returns entries that were delivered to consumers of a group and not acknowledged.";
    "xrange" -4, READONLY, Keys::Range(1, 1, 1), "5.0.0", on_slab!(range::xrange).estimated(work::entries),
        "Returns the entries in a range of IDs.";
    "xread" -4, READONLY | BLOCKING | MOVABLE_KEYS, Keys::Streams(1), "5.0.0", on_slab!(read::xread).estimated(read::work),
        "Returns entries of several streams behind given IDs. May block until there are some.";
    "xreadgroup" -7, WRITE | BLOCKING | MOVABLE_KEYS, Keys::Streams(4), "5.0.0", on_slab!(read::xreadgroup).estimated(read::work),
        "Delivers entries of several streams to a consumer of a group. May block until there are some.";
    "xrevrange" -4, READONLY, Keys::Range(1, 1, 1), "5.0.0", on_slab!(range::xrevrange).estimated(work::entries),
        "Returns the entries in a range of IDs in descending order.";
    "xsetid" -3, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "5.0.0", on_slab!(group::xsetid),
        "Sets the last ID of a stream.";
    "xtrim" -4, WRITE, Keys::Range(1, 1, 1), "5.0.0", on_slab!(add::xtrim).estimated(work::trimmed),
        "Deletes the first entries of a stream.";
    "xretention" -2, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly", on_slab!(lifetime::xretention),
        "Returns, sets or removes the maximum age of the entries of a stream.";
    "xexpire" -6, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Seconds, Base::Now, "xexpire")),
        "Sets the expiration time of entries in seconds.";
    "xpexpire" -6, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Milliseconds, Base::Now, "xpexpire")),
        "Sets the expiration time of entries in milliseconds.";
    "xexpireat" -6, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Seconds, Base::Epoch, "xexpireat")),
        "Sets the expiration time of entries to a Unix timestamp in seconds.";
    "xpexpireat" -6, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Milliseconds, Base::Epoch, "xpexpireat")),
        "Sets the expiration time of entries to a Unix timestamp in milliseconds.";
    "xttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Seconds, Base::Now)),
        "Returns the remaining time to live of entries in seconds.";
    "xpttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Milliseconds, Base::Now)),
        "Returns the remaining time to live of entries in milliseconds.";
    "xexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Seconds, Base::Epoch)),
        "Returns the expiration time of entries as a Unix timestamp in seconds.";
    "xpexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Milliseconds, Base::Epoch)),
        "Returns the expiration time of entries as a Unix timestamp in milliseconds.";
    "xpersist" -5, WRITE | FAST, Keys::Range(1, 1, 1), "mayfly", on_slab!(lifetime::persist).by_arguments(),
        "Removes the expiration time of entries.";
};
