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
use session::spec::flag::{
    BLOCKING, CONTAINER, DENYOOM, FAST, LOADING, MOVABLE_KEYS, READONLY, STALE, WRITE,
};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "stream" [stream]:
    "xack" -4, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "5.0.0",
        on_slab!(pending::xack).by_arguments(),
        "key group id...", "Acknowledges entries that a consumer of a group has received.";
    "xackdel" -6, WRITE | FAST => Form::Same, Keys::ONE => Access::UPDATE_OR_DELETE, "8.2.0",
        on_slab!(remove::xackdel).by_arguments(),
        "key group [KEEPREF | DELREF | ACKED] (IDS numids:integer id...)",
        "Acknowledges entries of a group and deletes them.";
    "xadd" -5, WRITE | DENYOOM | FAST => Form::Added, Keys::ONE => Access::CHANGE, "5.0.0",
        on_slab!(add::xadd).estimated(work::added),
        "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [(IDMPAUTO producer) | (IDMP producer message)] \
         [(MAXLEN | MINID) [= | ~] threshold [LIMIT count]] [MAXAGE milliseconds] \
         [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds] (* | id) \
         (field value)...",
        "Adds an entry to a stream. Creates the stream if needed.";
    "xautoclaim" -6, WRITE | FAST => Form::Delivered, Keys::ONE => Access::DELETE, "6.2.0",
        on_slab!(claim::xautoclaim).estimated(work::claimed),
        "key group consumer min-idle-time start:string [COUNT count] [JUSTID]",
        "Transfers pending entries that have not been acknowledged for a time to a consumer.";
    "xcfgset" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "8.6.0", on_slab!(info::xcfgset),
        "key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]",
        "Sets for how long and how many messages of each producer are recognized when they are sent again.";
    "xclaim" -6, WRITE | FAST => Form::Delivered, Keys::ONE => Access::CHANGE, "5.0.0",
        on_slab!(claim::xclaim).by_arguments(),
        "key group consumer min-idle-time id... [IDLE milliseconds] [TIME unix-time-milliseconds] \
         [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]",
        "Transfers pending entries to a consumer.";
    "xdel" -3, WRITE | FAST => Form::Same, Keys::ONE => Access::DELETE, "5.0.0",
        on_slab!(remove::xdel).by_arguments(),
        "key id...", "Deletes entries.";
    "xdelex" -5, WRITE | FAST => Form::EntriesDeleted, Keys::ONE => Access::DELETE, "8.2.0",
        on_slab!(remove::xdelex).by_arguments(),
        "key [KEEPREF | DELREF | ACKED] (IDS numids:integer id...)",
        "Deletes entries, with a choice of what happens to pending ones.";
    "xgroup" -2, WRITE | DENYOOM | CONTAINER, Keys::Range(2, 2, 1), "5.0.0",
        on_slab!(group::xgroup).estimated(work::group),
        "subcommand [argument]...", "A container for commands on consumer groups."
    {
        "create" -5, WRITE | DENYOOM => Form::GroupNumbered, Keys::Range(2, 2, 1) => Access::INSERT, "5.0.0",
            "key group (id | $) [MKSTREAM] [ENTRIESREAD entries-read:integer]", "Creates a consumer group.";
        "createconsumer" 5, WRITE | DENYOOM => Form::Same, Keys::Range(2, 2, 1) => Access::INSERT, "6.2.0",
            "key group consumer", "Creates a consumer in a group.";
        "delconsumer" 5, WRITE => Form::Same, Keys::Range(2, 2, 1) => Access::DELETE, "5.0.0",
            "key group consumer", "Deletes a consumer from a group.";
        "destroy" 4, WRITE => Form::Same, Keys::Range(2, 2, 1) => Access::DELETE, "5.0.0",
            "key group", "Deletes a consumer group.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "setid" -5, WRITE => Form::GroupNumbered, Keys::Range(2, 2, 1) => Access::CHANGE, "5.0.0",
            "key group (id | $) [ENTRIESREAD entries-read:integer]",
            "Sets the ID of the last entry that a group has delivered.";
    };
    "xidmprecord" 5, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "8.6.2",
        on_slab!(info::xidmprecord),
        "key producer message id",
        "Records that an entry is a message of a producer, which is recognized when it is sent again.";
    "xinfo" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "5.0.0",
        on_slab!(info::xinfo).estimated(work::group),
        "subcommand [argument]...", "A container for commands that describe streams."
    {
        "consumers" 4, READONLY, Keys::Range(2, 2, 1) => Access::READ, "5.0.0",
            "key group", "Lists the consumers of a group.";
        "groups" 3, READONLY, Keys::Range(2, 2, 1) => Access::READ, "5.0.0",
            "key", "Lists the consumer groups of a stream.";
        "help" 2, LOADING | STALE, Keys::None, "5.0.0",
            "", "Returns help about the subcommands.";
        "stream" -3, READONLY, Keys::Range(2, 2, 1) => Access::READ, "5.0.0",
            "key [FULL [COUNT count]]", "Returns information about a stream.";
    };
    "xlen" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "5.0.0",
        on_slab!(range::xlen).estimated(work::stream_len),
        "key", "Returns the number of entries of a stream.";
    "xpending" -3, READONLY, Keys::ONE => Access::READ, "5.0.0",
        on_slab!(pending::xpending).estimated(work::pending),
        "key group [[IDLE milliseconds] start:string end:string count [consumer]]",
        "Returns entries that were delivered to consumers of a group and not acknowledged.";
    "xrange" -4, READONLY, Keys::ONE => Access::READ, "5.0.0",
        on_slab!(range::xrange).estimated(work::entries),
        "key start:string end:string [COUNT count]", "Returns the entries in a range of IDs.";
    "xread" -4, READONLY | BLOCKING | MOVABLE_KEYS, Keys::Streams(1) => Access::READ, "5.0.0",
        on_slab!(read::xread).estimated(read::work),
        "[COUNT count] [BLOCK milliseconds] (STREAMS key... id...)",
        "Returns entries of several streams behind given IDs. May block until there are some.";
    // It changes the group, not the entries. As in Redis, it needs only the right to read.
    "xreadgroup" -7, WRITE | BLOCKING | MOVABLE_KEYS => Form::Delivered,
        Keys::Streams(4) => Access::READ, "5.0.0", on_slab!(read::xreadgroup).estimated(read::work),
        "(GROUP group consumer) [COUNT count] [BLOCK milliseconds] [CLAIM milliseconds] [NOACK] \
         (STREAMS key... id...)",
        "Delivers entries of several streams to a consumer of a group. May block until there are some.";
    "xrevrange" -4, READONLY, Keys::ONE => Access::READ, "5.0.0",
        on_slab!(range::xrevrange).estimated(work::entries),
        "key end:string start:string [COUNT count]",
        "Returns the entries in a range of IDs in descending order.";
    "xsetid" -3, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "5.0.0",
        on_slab!(group::xsetid),
        "key last-id [ENTRIESADDED entries-added:integer] [MAXDELETEDID max-deleted-id]",
        "Sets the last ID of a stream.";
    "xtrim" -4, WRITE => Form::Trimmed, Keys::ONE => Access::DELETE, "5.0.0",
        on_slab!(add::xtrim).estimated(work::trimmed),
        "key (MAXLEN | MINID) [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
        "Deletes the first entries of a stream.";
    "xretention" -2, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(lifetime::xretention),
        "key [milliseconds | PERSIST]", "Returns, sets or removes the maximum age of the entries of a stream.";
    "xexpire" -6, WRITE | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Seconds, Base::Now, "xexpire")),
        "key seconds [NX | XX | GT | LT] (IDS numids:integer id...)",
        "Sets the expiration time of entries in seconds.";
    "xpexpire" -6, WRITE | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Milliseconds, Base::Now, "xpexpire")),
        "key milliseconds [NX | XX | GT | LT] (IDS numids:integer id...)",
        "Sets the expiration time of entries in milliseconds.";
    "xexpireat" -6, WRITE | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Seconds, Base::Epoch, "xexpireat")),
        "key unix-time-seconds [NX | XX | GT | LT] (IDS numids:integer id...)",
        "Sets the expiration time of entries to a Unix timestamp in seconds.";
    "xpexpireat" -6, WRITE | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(|ctx, args| lifetime::expire(ctx, args, Unit::Milliseconds, Base::Epoch, "xpexpireat")),
        "key unix-time-milliseconds [NX | XX | GT | LT] (IDS numids:integer id...)",
        "Sets the expiration time of entries to a Unix timestamp in milliseconds.";
    "xttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Seconds, Base::Now)),
        "key (IDS numids:integer id...)", "Returns the remaining time to live of entries in seconds.";
    "xpttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Milliseconds, Base::Now)),
        "key (IDS numids:integer id...)", "Returns the remaining time to live of entries in milliseconds.";
    "xexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Seconds, Base::Epoch)),
        "key (IDS numids:integer id...)",
        "Returns the expiration time of entries as a Unix timestamp in seconds.";
    "xpexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "mayfly",
        on_slab!(|ctx, args| lifetime::remaining(ctx, args, Unit::Milliseconds, Base::Epoch)),
        "key (IDS numids:integer id...)",
        "Returns the expiration time of entries as a Unix timestamp in milliseconds.";
    "xpersist" -5, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "mayfly",
        on_slab!(lifetime::persist).by_arguments(),
        "key (IDS numids:integer id...)", "Removes the expiration time of entries.";
};
