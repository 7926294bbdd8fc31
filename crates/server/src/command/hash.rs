//! Commands on hashes. The submodules implement the commands of this table.

mod import;
mod lifetime;
mod number;
mod range;
mod read;
mod scan;
mod write;

use super::element_ttl::family;
use super::table::{commands, on_slab};
use super::work;
use crate::context::Spec;
use engine::lifetime::{Base, Unit};
use session::spec::flag::{CONTAINER, DENYOOM, FAST, LOADING, READONLY, STALE, WRITE};
use session::spec::{Access, Form, Keys};
use store::Hash;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "hash" [hash]:
    "hdel" -3, WRITE | FAST => Form::Same, Keys::ONE => Access::DELETE, "2.0.0",
        on_slab!(write::hdel).by_arguments(),
        "key field...", "Removes fields from a hash. Deletes the key when no field remains.";
    "hexists" 3, READONLY | FAST, Keys::ONE => Access::INSPECT, "2.0.0", on_slab!(read::hexists),
        "key field", "Returns whether a field exists in a hash.";
    "hexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Now, "hexpire")).by_arguments(),
        "key seconds [NX | XX | GT | LT] (FIELDS numfields field...)",
        "Sets the expiration of fields as a number of seconds from now.";
    "hexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Epoch, "hexpireat")).by_arguments(),
        "key unix-time-seconds [NX | XX | GT | LT] (FIELDS numfields field...)",
        "Sets the expiration of fields as a Unix time in seconds.";
    "hexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "key (FIELDS numfields field...)", "Returns the expiration times of fields, as Unix times in seconds.";
    "hget" 3, READONLY | FAST, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::hget).by_arguments(),
        "key field", "Returns the value of a field.";
    "hgetall" 2, READONLY, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::hgetall).estimated(work::whole),
        "key", "Returns all fields and their values.";
    "hgetdel" -5, WRITE | FAST => Form::FieldsDeleted, Keys::ONE => Access::TAKE, "8.0.0",
        on_slab!(lifetime::hgetdel).by_arguments(),
        "key (FIELDS numfields field...)", "Returns the values of the given fields and removes the fields.";
    "hgetex" -5, WRITE | FAST => Form::ElementDeadlines, Keys::ONE => Access::UPDATE, "8.0.0",
        on_slab!(lifetime::hgetex).by_arguments(),
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] \
         (FIELDS numfields field...)",
        "Returns the values of the given fields and sets or removes their expiration.";
    "himport" -2, WRITE | DENYOOM | CONTAINER, Keys::Range(2, 2, 1), "8.10.0", on_slab!(import::himport),
        "subcommand [argument]...", "A container for commands that store hashes with the same fields."
    {
        "discard" 3, FAST, Keys::None, "8.10.0",
            "fieldset", "Removes a fieldset from the connection.";
        "discardall" 2, FAST, Keys::None, "8.10.0",
            "", "Removes all fieldsets from the connection.";
        "help" 2, LOADING | STALE, Keys::None, "8.10.0",
            "", "Returns help about the subcommands.";
        "prepare" -4, DENYOOM | FAST, Keys::None, "8.10.0",
            "fieldset field...", "Names the fields of the hashes that the connection is going to store.";
        "set" -5, WRITE | DENYOOM | FAST => Form::StateOf(2), Keys::Range(2, 2, 1) => Access::CHANGE, "8.10.0",
            "key fieldset value...", "Stores a hash from the values of the fields of a fieldset.";
    };
    "hincrby" 4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::UPDATE, "2.0.0",
        on_slab!(number::hincrby),
        "key field increment", "Adds an integer to the value of a field. Keeps the field's expiration.";
    "hincrbyfloat" 4, WRITE | DENYOOM | FAST => Form::Fields, Keys::ONE => Access::UPDATE, "2.6.0",
        on_slab!(number::hincrbyfloat),
        "key field increment:double",
        "Adds a floating-point number to the value of a field. Keeps the field's expiration.";
    "hkeys" 2, READONLY, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::hkeys).estimated(work::whole),
        "key", "Returns all fields of a hash.";
    "hlen" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "2.0.0", on_slab!(read::hlen),
        "key", "Returns the number of fields of a hash.";
    "hmget" -3, READONLY | FAST, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::hmget).by_arguments(),
        "key field...", "Returns the values of the given fields.";
    "hmset" -4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "2.0.0",
        on_slab!(write::hmset).by_arguments(),
        "key (field value)...", "Sets the values of fields, as HSET does, and replies OK.";
    "hpersist" -5, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "7.4.0",
        on_slab!(family::persist::<Hash>).by_arguments(),
        "key (FIELDS numfields field...)", "Removes the expiration of fields.";
    "hpexpire" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Now, "hpexpire")).by_arguments(),
        "key milliseconds [NX | XX | GT | LT] (FIELDS numfields field...)",
        "Sets the expiration of fields as a number of milliseconds from now.";
    "hpexpireat" -6, WRITE | DENYOOM | FAST => Form::ElementDeadlines, Keys::ONE => Access::CHANGE, "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch, "hpexpireat")).by_arguments(),
        "key unix-time-milliseconds [NX | XX | GT | LT] (FIELDS numfields field...)",
        "Sets the expiration of fields as a Unix time in milliseconds.";
    "hpexpiretime" -5, READONLY | FAST, Keys::ONE => Access::READ, "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "key (FIELDS numfields field...)",
        "Returns the expiration times of fields, as Unix times in milliseconds.";
    "hpttl" -5, READONLY | FAST, Keys::ONE => Access::READ, "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "key (FIELDS numfields field...)", "Returns the remaining times to live of fields in milliseconds.";
    "hrandfield" -2, READONLY, Keys::ONE => Access::READ, "6.2.0",
        on_slab!(scan::hrandfield).estimated(work::sampled),
        "key [count [WITHVALUES]]", "Returns random fields of a hash.";
    "hrangebyttl" -4, READONLY, Keys::ONE => Access::READ, "mayfly",
        on_slab!(range::hrangebyttl).estimated(work::whole),
        "key min-ms:integer max-ms:integer [LIMIT offset count] [WITHTTL]",
        "Returns fields whose remaining time to live in milliseconds is within a range, the shortest first.";
    "hscan" -3, READONLY, Keys::ONE => Access::READ, "2.8.0", on_slab!(scan::hscan).estimated(work::scanned),
        "key cursor [MATCH pattern] [COUNT count] [NOVALUES]", "Iterates over the fields and values of a hash.";
    "hset" -4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::CHANGE, "2.0.0",
        on_slab!(write::hset).by_arguments(),
        "key (field value)...",
        "Sets the values of fields and removes their expiration. Returns the number of new fields.";
    "hsetex" -6, WRITE | DENYOOM | FAST => Form::Fields, Keys::ONE => Access::CHANGE, "8.0.0",
        on_slab!(lifetime::hsetex).by_arguments(),
        "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | \
         KEEPTTL] (FIELDS numfields (field value)...)",
        "Sets the values and the expiration of fields, optionally only if a condition holds.";
    "hsetnx" 4, WRITE | DENYOOM | FAST => Form::Same, Keys::ONE => Access::INSERT, "2.0.0",
        on_slab!(write::hsetnx).by_arguments(),
        "key field value", "Sets the value of a field only if the field does not exist.";
    "hstrlen" 3, READONLY | FAST, Keys::ONE => Access::INSPECT, "3.2.0", on_slab!(read::hstrlen),
        "key field", "Returns the length of a field's value.";
    "httl" -5, READONLY | FAST, Keys::ONE => Access::READ, "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "key (FIELDS numfields field...)", "Returns the remaining times to live of fields in seconds.";
    "hvals" 2, READONLY, Keys::ONE => Access::READ, "2.0.0", on_slab!(read::hvals).estimated(work::whole),
        "key", "Returns all values of a hash.";
};
