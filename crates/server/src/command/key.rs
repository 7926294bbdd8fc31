//! Commands on keys of any type, on their deadlines, and on whole databases. The submodules
//! implement the commands of this table.

mod bless;
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
pub use generic::copied_to;
use session::spec::flag::{CONTAINER, DENYOOM, FAST, LOADING, READONLY, STALE, UNBOUNDED, WRITE};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "generic" [keyspace]:
    "bless" -2, WRITE | CONTAINER, Keys::AfterOrWhole(&["clear", "get", "set"]), "8.12.0", on_slab!(bless::bless),
        "subcommand [argument]...", "A container for commands that protect keys from eviction."
    {
        "clear" 4, WRITE | FAST => Form::Same, Keys::Range(2, 2, 1) => Access::CHANGE, "8.12.0",
            "key NO-EVICT", "Makes a key a candidate for eviction again.";
        "get" 3, READONLY | FAST, Keys::Range(2, 2, 1) => Access::INSPECT, "8.12.0",
            "key", "Returns NO-EVICT if a key is protected from eviction.";
        "help" 2, LOADING | STALE, Keys::None, "8.12.0",
            "", "Returns help about the subcommands.";
        "scan" -4, READONLY, Keys::Whole, "8.12.0",
            "cursor:integer NO-EVICT [COUNT count]", "Iterates over the keys that are protected from eviction.";
        "set" 4, WRITE | DENYOOM | FAST => Form::Same, Keys::Range(2, 2, 1) => Access::CHANGE, "8.12.0",
            "key NO-EVICT", "Protects a key from eviction.";
    };
    "copy" -3, WRITE | DENYOOM => Form::Same,
        Keys::Range(1, 2, 1) => Access::READ.then(Access::OVERWRITE), "6.2.0",
        on_slab!(generic::copy).estimated(work::whole),
        "source destination [DB destination-db] [REPLACE]",
        "Copies a key and its expiration, optionally to another database.";
    "del" -2, WRITE => Form::Same, Keys::Range(1, -1, 1) => Access::REMOVE, "1.0.0",
        on_both!(generic::del).in_steps(),
        "key...", "Deletes keys.";
    "dump" 2, READONLY, Keys::ONE => Access::READ, "2.6.0", on_slab!(dump::dump).estimated(work::whole),
        "key",
        "Returns the value of a key in the serialized form that RESTORE reads, here or on another server.";
    "exists" -2, READONLY | FAST, Keys::Range(1, -1, 1) => Access::INSPECT, "1.0.0",
        on_both!(generic::exists).in_steps(),
        "key...", "Returns how many of the given keys exist.";
    "expire" -3, WRITE | FAST => Form::Deadline, Keys::ONE => Access::CHANGE, "1.0.0",
        on_both!(expire::expire),
        "key seconds [NX | XX | GT | LT]", "Sets the expiration of a key as a number of seconds from now.";
    "expireat" -3, WRITE | FAST => Form::Deadline, Keys::ONE => Access::CHANGE, "1.2.0",
        on_both!(expire::expireat),
        "key unix-time-seconds [NX | XX | GT | LT]", "Sets the expiration of a key as a Unix time in seconds.";
    "expiremember" -4, WRITE | DENYOOM | FAST => Form::MemberDeadline, Keys::ONE => Access::CHANGE, "KeyDB",
        on_slab!(member::expiremember),
        "key member ttl:integer [unit]",
        "Sets the expiration of a member of a key as a number of seconds or milliseconds from now.";
    "expirememberat" 4, WRITE | DENYOOM | FAST => Form::MemberDeadline, Keys::ONE => Access::CHANGE, "KeyDB",
        on_slab!(member::expirememberat),
        "key member unix-time-seconds", "Sets the expiration of a member of a key as a Unix time in seconds.";
    "expiretime" 2, READONLY | FAST, Keys::ONE => Access::READ, "7.0.0", on_both!(expire::expiretime),
        "key", "Returns the expiration time of a key, as a Unix time in seconds.";
    "keys" 2 [dangerous], READONLY, Keys::Whole, "1.0.0", on_slab!(scan::keys).names(),
        "pattern", "Returns all keys whose names match a pattern.";
    "move" 3, WRITE | FAST => Form::Same, Keys::ONE => Access::UPDATE, "1.0.0", on_slab!(generic::move_key),
        "key db", "Moves a key to another database.";
    "object" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "2.2.3", on_slab!(object::object),
        "subcommand [key]", "Returns how a key's value is represented and when it was last accessed."
    {
        "encoding" 3, READONLY, Keys::Range(2, 2, 1) => Access::INSPECT, "2.2.3",
            "key", "Returns the encoding that the value has in Redis.";
        "freq" 3, READONLY, Keys::Range(2, 2, 1) => Access::INSPECT, "4.0.0",
            "key", "Returns the access frequency of a key.";
        "help" 2, LOADING | STALE, Keys::None, "6.2.0",
            "", "Returns help about the subcommands.";
        "idletime" 3, READONLY, Keys::Range(2, 2, 1) => Access::INSPECT, "2.2.3",
            "key", "Returns the time since the last access of a key in seconds.";
        "refcount" 3, READONLY, Keys::Range(2, 2, 1) => Access::INSPECT, "2.2.3",
            "key", "Returns the number of references to a value.";
    };
    "persist" 2, WRITE | FAST => Form::Same, Keys::ONE => Access::CHANGE, "2.2.0", on_both!(expire::persist),
        "key", "Removes the expiration of a key.";
    "pexpire" -3, WRITE | FAST => Form::Deadline, Keys::ONE => Access::CHANGE, "2.6.0",
        on_both!(expire::pexpire),
        "key milliseconds [NX | XX | GT | LT]",
        "Sets the expiration of a key as a number of milliseconds from now.";
    "pexpireat" -3, WRITE | FAST => Form::Deadline, Keys::ONE => Access::CHANGE, "2.6.0",
        on_both!(expire::pexpireat),
        "key unix-time-milliseconds [NX | XX | GT | LT]",
        "Sets the expiration of a key as a Unix time in milliseconds.";
    "pexpirememberat" 4, WRITE | DENYOOM | FAST => Form::MemberDeadline, Keys::ONE => Access::CHANGE, "KeyDB",
        on_slab!(member::pexpirememberat),
        "key member unix-time-milliseconds",
        "Sets the expiration of a member of a key as a Unix time in milliseconds.";
    "pexpiretime" 2, READONLY | FAST, Keys::ONE => Access::READ, "7.0.0", on_both!(expire::pexpiretime),
        "key", "Returns the expiration time of a key, as a Unix time in milliseconds.";
    "pttl" -2, READONLY | FAST, Keys::ONE => Access::READ, "2.6.0",
        Run::both(|ctx, args| { settle(ctx, args, |ctx, args| { expire::ttl_of_member(ctx, args, Unit::Milliseconds) }) }, |ctx, args| settle(ctx, args, expire::pttl)),
        "key [member]", "Returns the remaining time to live of a key in milliseconds.";
    "randomkey" 1, READONLY, Keys::Whole, "1.0.0", on_slab!(scan::randomkey),
        "", "Returns the name of a random key.";
    "rename" 3, WRITE => Form::Same, Keys::Range(1, 2, 1) => Access::TAKE.then(Access::OVERWRITE), "1.0.0",
        on_slab!(generic::rename),
        "key newkey", "Renames a key and replaces the destination if it exists.";
    "renamenx" 3, WRITE | FAST => Form::Same, Keys::Range(1, 2, 1) => Access::TAKE.then(Access::CREATE), "1.0.0",
        on_slab!(generic::renamenx),
        "key newkey", "Renames a key only if the new name does not exist.";
    "restore" -4 [dangerous], WRITE | DENYOOM => Form::Restored, Keys::ONE => Access::OVERWRITE, "2.6.0",
        on_slab!(dump::restore).estimated(work::restore),
        "key ttl:integer serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        "Creates a key from the serialized form that DUMP returned, here or on another server.";
    "scan" -2, READONLY, Keys::Whole, "2.8.0", on_slab!(scan::scan),
        "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        "Iterates over the names of the keys in the database.";
    "touch" -2, READONLY | FAST, Keys::Range(1, -1, 1) => Access::INSPECT, "3.2.1",
        on_both!(generic::touch).in_steps(),
        "key...", "Returns how many of the given keys exist and counts as an access to each.";
    "ttl" -2, READONLY | FAST, Keys::ONE => Access::READ, "1.0.0",
        Run::both(|ctx, args| { settle(ctx, args, |ctx, args| { expire::ttl_of_member(ctx, args, Unit::Seconds) }) }, |ctx, args| settle(ctx, args, expire::ttl)),
        "key [member]", "Returns the remaining time to live of a key in seconds.";
    "type" 2, READONLY | FAST, Keys::ONE => Access::INSPECT, "1.0.0", on_both!(generic::type_of),
        "key", "Returns the type of a key's value.";
    "unlink" -2, WRITE | FAST => Form::Same, Keys::Range(1, -1, 1) => Access::REMOVE, "4.0.0",
        on_both!(generic::del).in_steps(),
        "key...", "Deletes keys; their memory is freed in steps.";
    in "server" []:
    "dbsize" 1 [keyspace], READONLY | FAST, Keys::Whole, "1.0.0", on_both!(scan::dbsize),
        "", "Returns the number of keys in the database.";
    "flushall" -1 [keyspace dangerous], WRITE => Form::Same, Keys::Whole, "1.0.0", on_both!(whole::flushall),
        "[ASYNC | SYNC]", "Deletes all keys of all databases.";
    "flushdb" -1 [keyspace dangerous], WRITE => Form::Same, Keys::Whole, "1.0.0", on_both!(whole::flushdb),
        "[ASYNC | SYNC]", "Deletes all keys of the database.";
    "memory" -2, READONLY | CONTAINER, Keys::Range(2, 2, 1), "4.0.0", on_slab!(object::memory),
        "subcommand [argument]...", "Returns the memory that a key uses, in bytes."
    {
        "doctor" 2, 0, Keys::None, "4.0.0",
            "", "Returns a report about memory problems.";
        "help" 2, LOADING | STALE, Keys::None, "4.0.0",
            "", "Returns help about the subcommands.";
        "malloc-stats" 2, 0, Keys::None, "4.0.0",
            "", "Returns the statistics of the allocator.";
        "purge" 2, 0, Keys::None, "4.0.0",
            "", "Has no effect, because freed memory returns to the system automatically.";
        "stats" 2, 0, Keys::None, "4.0.0",
            "", "Returns the memory use by purpose.";
        "usage" -3, READONLY, Keys::Range(2, 2, 1) => Access::INSPECT, "4.0.0",
            "key [SAMPLES count]", "Returns the memory that a key uses, in bytes.";
    };
    "swapdb" 3 [keyspace dangerous], WRITE | FAST | UNBOUNDED => Form::Same, Keys::Whole, "4.0.0",
        on_slab!(whole::swapdb),
        "index1 index2", "Exchanges the contents of two databases.";
};
