//! Commands on keys of any type, on their deadlines, and on whole databases. The submodules
//! implement the commands of this table.

pub(crate) mod dump;
pub mod expire;
mod generic;
pub(super) mod object;
pub mod scan;
mod whole;

use super::element_ttl::member;
use super::table::{commands, on_slab};
use super::work;
use crate::context::{Run, Spec, on_both, settle};
use engine::lifetime::Unit;
use session::spec::Keys;
use session::spec::flag::{CONTAINER, DENYOOM, FAST, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "generic":
    "copy" -3, WRITE | DENYOOM, Keys::Range(1, 2, 1), "6.2.0", on_slab!(generic::copy).estimated(work::whole),
        "Copies a key and its expiration, optionally to another database.";
    "del" -2, WRITE, Keys::Range(1, -1, 1), "1.0.0", on_both!(generic::del).in_steps(),
        "Deletes keys.";
    "dump" 2, READONLY, Keys::Range(1, 1, 1), "2.6.0", on_slab!(dump::dump).estimated(work::whole),
        "Returns the value of a key in the serialized form that RESTORE reads, here or on another server.";
    "exists" -2, READONLY | FAST, Keys::Range(1, -1, 1), "1.0.0", on_both!(generic::exists).in_steps(),
        "Returns how many of the given keys exist.";
    "expire" -3, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(expire::expire),
        "Sets the expiration of a key as a number of seconds from now.";
    "expireat" -3, WRITE | FAST, Keys::Range(1, 1, 1), "1.2.0", on_both!(expire::expireat),
        "Sets the expiration of a key as a Unix time in seconds.";
    "expiremember" -4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "KeyDB", on_slab!(member::expiremember),
        "Sets the expiration of a member of a key as a number of seconds or milliseconds from now.";
    "expirememberat" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "KeyDB",
        on_slab!(member::expirememberat),
        "Sets the expiration of a member of a key as a Unix time in seconds.";
    "expiretime" 2, READONLY | FAST, Keys::Range(1, 1, 1), "7.0.0", on_both!(expire::expiretime),
        "Returns the expiration time of a key, as a Unix time in seconds.";
    "keys" 2, READONLY, Keys::Whole, "1.0.0", on_slab!(scan::keys).names(),
        "Returns all keys whose names match a pattern.";
    "move" 3, WRITE | FAST, Keys::Range(1, 1, 1), "1.0.0", on_slab!(generic::move_key),
        "Moves a key to another database.";
    "object" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "2.2.3", on_slab!(object::object),
        "Returns how a key's value is represented and when it was last accessed.";
    "persist" 2, WRITE | FAST, Keys::Range(1, 1, 1), "2.2.0", on_both!(expire::persist),
        "Removes the expiration of a key.";
    "pexpire" -3, WRITE | FAST, Keys::Range(1, 1, 1), "2.6.0", on_both!(expire::pexpire),
        "Sets the expiration of a key as a number of milliseconds from now.";
    "pexpireat" -3, WRITE | FAST, Keys::Range(1, 1, 1), "2.6.0", on_both!(expire::pexpireat),
        "Sets the expiration of a key as a Unix time in milliseconds.";
    "pexpirememberat" 4, WRITE | DENYOOM | FAST, Keys::Range(1, 1, 1), "KeyDB",
        on_slab!(member::pexpirememberat),
        "Sets the expiration of a member of a key as a Unix time in milliseconds.";
    "pexpiretime" 2, READONLY | FAST, Keys::Range(1, 1, 1), "7.0.0", on_both!(expire::pexpiretime),
        "Returns the expiration time of a key, as a Unix time in milliseconds.";
    "pttl" -2, READONLY | FAST, Keys::Range(1, 1, 1), "2.6.0",
        Run::both(|ctx, args| { settle(ctx, args, |ctx, args| { expire::ttl_of_member(ctx, args, Unit::Milliseconds) }) }, |ctx, args| settle(ctx, args, expire::pttl)),
        "Returns the remaining time to live of a key in milliseconds.";
    "randomkey" 1, READONLY, Keys::Whole, "1.0.0", on_slab!(scan::randomkey),
        "Returns the name of a random key.";
    "rename" 3, WRITE, Keys::Range(1, 2, 1), "1.0.0", on_slab!(generic::rename),
        "Renames a key and replaces the destination if it exists.";
    "renamenx" 3, WRITE | FAST, Keys::Range(1, 2, 1), "1.0.0", on_slab!(generic::renamenx),
        "Renames a key only if the new name does not exist.";
    "restore" -4, WRITE | DENYOOM, Keys::Range(1, 1, 1), "2.6.0", on_slab!(dump::restore).estimated(work::restore),
        "Creates a key from the serialized form that DUMP returned, here or on another server.";
    "scan" -2, READONLY, Keys::Whole, "2.8.0", on_slab!(scan::scan),
        "Iterates over the names of the keys in the database.";
    "touch" -2, READONLY | FAST, Keys::Range(1, -1, 1), "3.2.1", on_both!(generic::touch).in_steps(),
        "Returns how many of the given keys exist and counts as an access to each.";
    "ttl" -2, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0",
        Run::both(|ctx, args| { settle(ctx, args, |ctx, args| { expire::ttl_of_member(ctx, args, Unit::Seconds) }) }, |ctx, args| settle(ctx, args, expire::ttl)),
        "Returns the remaining time to live of a key in seconds.";
    "type" 2, READONLY | FAST, Keys::Range(1, 1, 1), "1.0.0", on_both!(generic::type_of),
        "Returns the type of a key's value.";
    "unlink" -2, WRITE | FAST, Keys::Range(1, -1, 1), "4.0.0", on_both!(generic::del).in_steps(),
        "Deletes keys; their memory is freed in steps.";
    in "server":
    "dbsize" 1, READONLY | FAST, Keys::Whole, "1.0.0", on_both!(scan::dbsize),
        "Returns the number of keys in the database.";
    "flushall" -1, WRITE, Keys::Whole, "1.0.0", on_both!(whole::flushall),
        "Deletes all keys of all databases.";
    "flushdb" -1, WRITE, Keys::Whole, "1.0.0", on_both!(whole::flushdb),
        "Deletes all keys of the database.";
    "memory" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "4.0.0", on_slab!(object::memory),
        "Returns the memory that a key uses, in bytes.";
    "swapdb" 3, WRITE | FAST, Keys::Whole, "4.0.0", on_slab!(whole::swapdb),
        "Exchanges the contents of two databases.";
};
