//! The table of subcommands. COMMAND reports them, and statistics count each one by its own name.
//!
//! A container command runs its subcommands itself. This table states their names and arities,
//! which dispatch checks before the command runs or is queued.

use session::spec::flag::{
    ADMIN, DENYOOM, FAST, LOADING, NOSCRIPT, PUBSUB, READONLY, STALE, WRITE,
};
use session::spec::{Keys, Subcommand};

/// Flags of subcommands that only return information.
const ALWAYS: u32 = LOADING | STALE;
/// Flags of subcommands about the connection.
const OWN: u32 = NOSCRIPT | ALWAYS;
/// Flags of subcommands for administrators.
const MANAGE: u32 = ADMIN | OWN;
/// Flags of subcommands about the log of slow commands.
const WATCH: u32 = ADMIN | ALWAYS;
/// Flags of subcommands about channels.
const ASK: u32 = PUBSUB | ALWAYS;

/// Defines a table of [`Subcommand`]s: for each its full name, arity, flags, keys and the version
/// that introduced it, then its summary.
macro_rules! subcommands {
    ($($name:literal $arity:literal, $flags:expr, $keys:expr, $since:literal, $summary:literal;)*) => {
        &[$(Subcommand {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            since: $since,
            summary: $summary,
        },)*]
    };
}

/// All subcommands, sorted by name.
pub const SUBCOMMANDS: &[Subcommand] = subcommands! {
    "acl|cat" -2, OWN, Keys::None, "6.0.0",
        "Lists the categories of commands, or the commands of one category.";
    "acl|deluser" -3, MANAGE, Keys::None, "6.0.0",
        "Deletes users and disconnects their clients.";
    "acl|dryrun" -4, MANAGE, Keys::None, "7.0.0",
        "Reports whether a user may run a command, without running it.";
    "acl|genpass" -2, OWN, Keys::None, "6.0.0",
        "Returns a random password.";
    "acl|getuser" 3, MANAGE, Keys::None, "6.0.0",
        "Returns the rights of a user.";
    "acl|help" 2, ALWAYS, Keys::None, "6.0.0",
        "Returns help about the subcommands.";
    "acl|list" 2, MANAGE, Keys::None, "6.0.0",
        "Lists the users with their rights.";
    "acl|load" 2, MANAGE, Keys::None, "6.0.0",
        "Replaces all users by those of the ACL file.";
    "acl|log" -2, MANAGE, Keys::None, "6.0.0",
        "Lists the recently denied commands and failed authentications.";
    "acl|save" 2, MANAGE, Keys::None, "6.0.0",
        "Writes the users to the ACL file.";
    "acl|setuser" -3, MANAGE, Keys::None, "6.0.0",
        "Creates or changes a user.";
    "acl|users" 2, MANAGE, Keys::None, "6.0.0",
        "Lists the names of the users.";
    "acl|whoami" 2, OWN, Keys::None, "6.0.0",
        "Returns the name of the connection's user.";
    "client|caching" 3, OWN, Keys::None, "6.0.0",
        "Controls the tracking of the next command's keys.";
    "client|getname" 2, OWN, Keys::None, "2.6.9",
        "Returns the name of the connection.";
    "client|getredir" 2, OWN, Keys::None, "6.0.0",
        "Returns the client that tracking notifications are sent to.";
    "client|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "client|id" 2, OWN, Keys::None, "5.0.0",
        "Returns the number of the connection.";
    "client|info" 2, OWN, Keys::None, "6.2.0",
        "Returns information about the connection.";
    "client|kill" -3, MANAGE, Keys::None, "2.4.0",
        "Closes connections.";
    "client|list" -2, MANAGE, Keys::None, "2.4.0",
        "Lists the open connections.";
    "client|no-evict" 3, MANAGE, Keys::None, "7.0.0",
        "Sets whether the connection is exempt from eviction.";
    "client|no-touch" 3, OWN, Keys::None, "7.2.0",
        "Sets whether the connection's commands change the recency of keys.";
    "client|pause" -3, MANAGE, Keys::None, "3.0.0",
        "Suspends the commands of clients.";
    "client|reply" 3, OWN, Keys::None, "3.2.0",
        "Sets whether the server replies to the connection.";
    "client|setinfo" 4, OWN, Keys::None, "7.2.0",
        "Sets the name or the version of the client library.";
    "client|setname" 3, OWN, Keys::None, "2.6.9",
        "Sets the name of the connection.";
    "client|tracking" -3, OWN, Keys::None, "6.0.0",
        "Sets whether the server tracks the keys that the connection reads.";
    "client|trackinginfo" 2, OWN, Keys::None, "6.2.0",
        "Returns the state of tracking for the connection.";
    "client|unblock" -3, MANAGE, Keys::None, "5.0.0",
        "Unblocks a client that is blocked in another connection.";
    "client|unpause" 2, MANAGE, Keys::None, "6.2.0",
        "Ends the suspension of commands.";
    "cluster|addslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|addslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|bumpepoch" 2, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|count-failure-reports" 3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|countkeysinslot" 3, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|delslots" -3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|delslotsrange" -4, ADMIN | STALE, Keys::None, "7.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|failover" -2, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|flushslots" 2, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|forget" 3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|getkeysinslot" 4, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|info" 2, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|keyslot" 3, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|links" 2, STALE, Keys::None, "7.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|meet" -4, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|migration" -4, ADMIN | STALE, Keys::None, "8.4.0",
        "Refused, because there is no cluster mode.";
    "cluster|myid" 2, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|myshardid" 2, STALE, Keys::None, "7.2.0",
        "Refused, because there is no cluster mode.";
    "cluster|nodes" 2, STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|replicas" 3, ADMIN | STALE, Keys::None, "5.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|replicate" 3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|reset" -2, ADMIN | NOSCRIPT | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|saveconfig" 2, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|set-config-epoch" 3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|setslot" -4, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|shards" 2, ALWAYS, Keys::None, "7.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|slaves" 3, ADMIN | STALE, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|slot-stats" -4, ALWAYS, Keys::None, "8.2.0",
        "Refused, because there is no cluster mode.";
    "cluster|slots" 2, ALWAYS, Keys::None, "3.0.0",
        "Refused, because there is no cluster mode.";
    "cluster|syncslots" -3, ADMIN | STALE, Keys::None, "8.4.0",
        "Refused, because there is no cluster mode.";
    "command|count" 2, ALWAYS, Keys::None, "2.8.13",
        "Returns the number of commands.";
    "command|docs" -2, ALWAYS, Keys::None, "7.0.0",
        "Returns documentation of commands.";
    "command|getkeys" -3, ALWAYS, Keys::None, "2.8.13",
        "Returns the keys of a command with its arguments.";
    "command|getkeysandflags" -3, ALWAYS, Keys::None, "7.0.0",
        "Returns the keys of a command with its arguments, and how it accesses them.";
    "command|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "command|info" -2, ALWAYS, Keys::None, "2.8.13",
        "Returns the specifications of commands.";
    "command|list" -2, ALWAYS, Keys::None, "7.0.0",
        "Lists the names of commands and subcommands.";
    "config|get" -3, MANAGE, Keys::None, "2.0.0",
        "Returns the values of settings.";
    "config|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "config|resetstat" 2, MANAGE, Keys::None, "2.0.0",
        "Resets the statistics.";
    "config|rewrite" 2, MANAGE, Keys::None, "2.8.0",
        "Refused, because the configuration file is not rewritten.";
    "config|set" -4, MANAGE, Keys::None, "2.0.0",
        "Changes settings.";
    "function|delete" 3, WRITE | NOSCRIPT, Keys::None, "7.0.0",
        "Deletes a library.";
    "function|dump" 2, NOSCRIPT, Keys::None, "7.0.0",
        "Returns all libraries in serialized form.";
    "function|flush" -2, WRITE | NOSCRIPT, Keys::None, "7.0.0",
        "Deletes all libraries.";
    "function|help" 2, ALWAYS, Keys::None, "7.0.0",
        "Returns help about the subcommands.";
    "function|kill" 2, NOSCRIPT, Keys::None, "7.0.0",
        "Ends the running function.";
    "function|list" -2, NOSCRIPT, Keys::None, "7.0.0",
        "Lists the libraries.";
    "function|load" -3, WRITE | DENYOOM | NOSCRIPT, Keys::None, "7.0.0",
        "Creates a library.";
    "function|restore" -3, WRITE | DENYOOM | NOSCRIPT, Keys::None, "7.0.0",
        "Restores libraries from their serialized form.";
    "function|stats" 2, NOSCRIPT, Keys::None, "7.0.0",
        "Returns information about the running function.";
    "himport|discard" 3, FAST, Keys::None, "8.10.0",
        "Removes a fieldset from the connection.";
    "himport|discardall" 2, FAST, Keys::None, "8.10.0",
        "Removes all fieldsets from the connection.";
    "himport|help" 2, ALWAYS, Keys::None, "8.10.0",
        "Returns help about the subcommands.";
    "himport|prepare" -4, DENYOOM | FAST, Keys::None, "8.10.0",
        "Names the fields of the hashes that the connection is going to store.";
    "himport|set" -5, WRITE | DENYOOM | FAST, Keys::Range(2, 2, 1), "8.10.0",
        "Stores a hash from the values of the fields of a fieldset.";
    "hotkeys|get" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
        "Returns the keys that cost the most.";
    "hotkeys|help" 2, ALWAYS, Keys::None, "8.6.1",
        "Returns help about the subcommands.";
    "hotkeys|reset" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
        "Deletes what was recorded.";
    "hotkeys|start" -2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
        "Starts the recording of keys and what their commands cost.";
    "hotkeys|stop" 2, ADMIN | NOSCRIPT, Keys::None, "8.6.0",
        "Stops the recording.";
    "latency|doctor" 2, MANAGE, Keys::None, "2.8.13",
        "Returns a report about slow events.";
    "latency|graph" 3, MANAGE, Keys::None, "2.8.13",
        "Returns a graph of the slow events of one kind.";
    "latency|help" 2, ALWAYS, Keys::None, "2.8.13",
        "Returns help about the subcommands.";
    "latency|histogram" -2, MANAGE, Keys::None, "7.0.0",
        "Returns the distribution of the durations of commands.";
    "latency|history" 3, MANAGE, Keys::None, "2.8.13",
        "Returns the recent slow events of one kind.";
    "latency|latest" 2, MANAGE, Keys::None, "2.8.13",
        "Returns the latest slow event of each kind.";
    "latency|reset" -2, MANAGE, Keys::None, "2.8.13",
        "Deletes recorded slow events.";
    "memory|doctor" 2, 0, Keys::None, "4.0.0",
        "Returns a report about memory problems.";
    "memory|help" 2, ALWAYS, Keys::None, "4.0.0",
        "Returns help about the subcommands.";
    "memory|malloc-stats" 2, 0, Keys::None, "4.0.0",
        "Returns the statistics of the allocator.";
    "memory|purge" 2, 0, Keys::None, "4.0.0",
        "Has no effect, because freed memory returns to the system automatically.";
    "memory|stats" 2, 0, Keys::None, "4.0.0",
        "Returns the memory use by purpose.";
    "memory|usage" -3, READONLY, Keys::Range(2, 2, 1), "4.0.0",
        "Returns the memory that a key uses, in bytes.";
    "module|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "module|list" 2, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
        "Lists the loaded modules, of which there are none.";
    "module|load" -3, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
        "Refused, because modules are not supported.";
    "module|loadex" -3, ADMIN | NOSCRIPT, Keys::None, "7.0.0",
        "Refused, because modules are not supported.";
    "module|unload" 3, ADMIN | NOSCRIPT, Keys::None, "4.0.0",
        "Refused, because modules are not supported.";
    "object|encoding" 3, READONLY, Keys::Range(2, 2, 1), "2.2.3",
        "Returns the encoding that the value has in Redis.";
    "object|freq" 3, READONLY, Keys::Range(2, 2, 1), "4.0.0",
        "Returns the access frequency of a key.";
    "object|help" 2, ALWAYS, Keys::None, "6.2.0",
        "Returns help about the subcommands.";
    "object|idletime" 3, READONLY, Keys::Range(2, 2, 1), "2.2.3",
        "Returns the time since the last access of a key in seconds.";
    "object|refcount" 3, READONLY, Keys::Range(2, 2, 1), "2.2.3",
        "Returns the number of references to a value.";
    "pubsub|channels" -2, ASK, Keys::None, "2.8.0",
        "Lists the active channels.";
    "pubsub|help" 2, ALWAYS, Keys::None, "6.2.0",
        "Returns help about the subcommands.";
    "pubsub|numpat" 2, ASK, Keys::None, "2.8.0",
        "Returns the number of subscribed patterns.";
    "pubsub|numsub" -2, ASK, Keys::None, "2.8.0",
        "Returns the number of subscribers of channels.";
    "pubsub|shardchannels" -2, ASK, Keys::None, "7.0.0",
        "Lists the active shard channels.";
    "pubsub|shardnumsub" -2, ASK, Keys::None, "7.0.0",
        "Returns the number of subscribers of shard channels.";
    "script|debug" 3, NOSCRIPT, Keys::None, "3.2.0",
        "Refused, because there is no debugger for scripts.";
    "script|exists" -3, NOSCRIPT, Keys::None, "2.6.0",
        "Returns whether scripts are in the cache.";
    "script|flush" -2, NOSCRIPT, Keys::None, "2.6.0",
        "Removes all scripts from the cache.";
    "script|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "script|kill" 2, NOSCRIPT, Keys::None, "2.6.0",
        "Ends the running script.";
    "script|load" 3, NOSCRIPT | STALE, Keys::None, "2.6.0",
        "Adds a script to the cache.";
    "script|show" 3, NOSCRIPT | STALE, Keys::None, "Valkey",
        "Returns the text of a script in the cache.";
    "slowlog|get" -2, WATCH, Keys::None, "2.2.12",
        "Returns the latest slow commands.";
    "slowlog|help" 2, ALWAYS, Keys::None, "6.2.0",
        "Returns help about the subcommands.";
    "slowlog|len" 2, WATCH, Keys::None, "2.2.12",
        "Returns the number of recorded slow commands.";
    "slowlog|reset" 2, WATCH, Keys::None, "2.2.12",
        "Deletes the recorded slow commands.";
    "xgroup|create" -5, WRITE | DENYOOM, Keys::Range(2, 2, 1), "5.0.0",
        "Creates a consumer group.";
    "xgroup|createconsumer" 5, WRITE | DENYOOM, Keys::Range(2, 2, 1), "6.2.0",
        "Creates a consumer in a group.";
    "xgroup|delconsumer" 5, WRITE, Keys::Range(2, 2, 1), "5.0.0",
        "Deletes a consumer from a group.";
    "xgroup|destroy" 4, WRITE, Keys::Range(2, 2, 1), "5.0.0",
        "Deletes a consumer group.";
    "xgroup|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "xgroup|setid" -5, WRITE, Keys::Range(2, 2, 1), "5.0.0",
        "Sets the ID of the last entry that a group has delivered.";
    "xinfo|consumers" 4, READONLY, Keys::Range(2, 2, 1), "5.0.0",
        "Lists the consumers of a group.";
    "xinfo|groups" 3, READONLY, Keys::Range(2, 2, 1), "5.0.0",
        "Lists the consumer groups of a stream.";
    "xinfo|help" 2, ALWAYS, Keys::None, "5.0.0",
        "Returns help about the subcommands.";
    "xinfo|stream" -3, READONLY, Keys::Range(2, 2, 1), "5.0.0",
        "Returns information about a stream.";
};
