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
use session::spec::Keys;
use session::spec::flag::{CONTAINER, DENYOOM, FAST, READONLY, WRITE};
use store::Hash;

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "hash":
    "hdel" -3, WRITE | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(write::hdel).by_arguments(),
        "Removes fields from a hash. Deletes the key when no field remains.";
    "hexists" 3, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hexists),
        "Returns whether a field exists in a hash.";
    "hexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Now, "hexpire")).by_arguments(),
        "Sets the expiration of fields as a number of seconds from now.";
    "hexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Seconds, Base::Epoch, "hexpireat")).by_arguments(),
        "Sets the expiration of fields as a Unix time in seconds.";
    "hexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of fields, as Unix times in seconds.";
    "hget" 3, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hget).by_arguments(),
        "Returns the value of a field.";
    "hgetall" 2, READONLY, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hgetall).estimated(work::whole),
        "Returns all fields and their values.";
    "hgetdel" -5, WRITE | FAST, Keys::Range(1, 1, 1), "8.0.0", on_slab!(lifetime::hgetdel).by_arguments(),
        "Returns the values of the given fields and removes the fields.";
    "hgetex" -5, WRITE | FAST, Keys::Range(1, 1, 1), "8.0.0", on_slab!(lifetime::hgetex).by_arguments(),
        "Returns the values of the given fields and sets or removes their expiration.";
    "himport" -2, WRITE | DENYOOM | CONTAINER, Keys::Range(2, 2, 1), "8.10.0", on_slab!(import::himport),
        "A container for commands that store hashes with the same fields.";
    "hincrby" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(number::hincrby),
        "Adds an integer to the value of a field. Keeps the field's expiration.";
    "hincrbyfloat" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.6.0", on_slab!(number::hincrbyfloat),
        "Adds a floating-point number to the value of a field. Keeps the field's expiration.";
    "hkeys" 2, READONLY, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hkeys).estimated(work::whole),
        "Returns all fields of a hash.";
    "hlen" 2, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hlen),
        "Returns the number of fields of a hash.";
    "hmget" -3, READONLY | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hmget).by_arguments(),
        "Returns the values of the given fields.";
    "hmset" -4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(write::hmset).by_arguments(),
        "Sets the values of fields, as HSET does, and replies OK.";
    "hpersist" -5, WRITE | FAST, Keys::Range(1, 1, 1), "7.4.0", on_slab!(family::persist::<Hash>).by_arguments(),
        "Removes the expiration of fields.";
    "hpexpire" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Now, "hpexpire")).by_arguments(),
        "Sets the expiration of fields as a number of milliseconds from now.";
    "hpexpireat" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::expire::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch, "hpexpireat")).by_arguments(),
        "Sets the expiration of fields as a Unix time in milliseconds.";
    "hpexpiretime" -5, READONLY | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Epoch)).by_arguments(),
        "Returns the expiration times of fields, as Unix times in milliseconds.";
    "hpttl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Milliseconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of fields in milliseconds.";
    "hrandfield" -2, READONLY, Keys::Range(1, 1, 1), "6.2.0", on_slab!(scan::hrandfield).estimated(work::sampled),
        "Returns random fields of a hash.";
    "hrangebyttl" -4, READONLY, Keys::Range(1, 1, 1), "mayfly", on_slab!(range::hrangebyttl).estimated(work::whole),
        "Returns fields whose remaining time to live in milliseconds is within a range, the shortest first.";
    "hscan" -3, READONLY, Keys::Range(1, 1, 1), "2.8.0", on_slab!(scan::hscan).estimated(work::scanned),
        "Iterates over the fields and values of a hash.";
    "hset" -4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(write::hset).by_arguments(),
        "Sets the values of fields and removes their expiration. Returns the number of new fields.";
    "hsetex" -6, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "8.0.0", on_slab!(lifetime::hsetex).by_arguments(),
        "Sets the values and the expiration of fields, optionally only if a condition holds.";
    "hsetnx" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "2.0.0", on_slab!(write::hsetnx).by_arguments(),
        "Sets the value of a field only if the field does not exist.";
    "hstrlen" 3, READONLY | FAST, Keys::Range(1, 1, 1), "3.2.0", on_slab!(read::hstrlen),
        "Returns the length of a field's value.";
    "httl" -5, READONLY | FAST, Keys::Range(1, 1, 1), "7.4.0",
        on_slab!(|ctx, args| family::ttl::<Hash>(ctx, args, Unit::Seconds, Base::Now)).by_arguments(),
        "Returns the remaining times to live of fields in seconds.";
    "hvals" 2, READONLY, Keys::Range(1, 1, 1), "2.0.0", on_slab!(read::hvals).estimated(work::whole),
        "Returns all values of a hash.";
};
