//! The one table of settings: it serves the config file, the command line, CONFIG GET and SET, the
//! docs and the tests.

use crate::command::key::HASH_FORMATS;

/// How a setting's text is read, checked and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number within bounds.
    Int(i64, i64),
    /// Bytes within bounds, with an optional unit.
    Bytes(i64, i64),
    /// One of these words; stored as its place.
    Choice(&'static [&'static str]),
    /// Anything.
    Text,
    /// Anything, and never logged.
    Secret,
    /// A name of `Keyspace::policy_names`.
    Policy,
    /// A name of `Keyspace::expiry_names`.
    Index,
    /// The letters of `notify-keyspace-events`.
    Events,
    /// `class hard soft seconds`, up to three times.
    OutputLimits,
    /// Numbers between 0 and 100.
    Percentiles,
    /// A setting of Redis that can only have these values here; the first is the default.
    Fixed(&'static [&'static str]),
}

/// One setting.
#[derive(Debug)]
pub struct Param {
    /// Its place in `TABLE`.
    pub id: Id,
    /// In lower case.
    pub name: &'static str,
    /// An older name that Redis still takes; empty when there is none.
    pub alias: &'static str,
    /// How its text is read.
    pub kind: Kind,
    /// Before anything is configured.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub is_mutable: bool,
    /// One line for people.
    pub help: &'static str,
}

macro_rules! settings {
    ($($id:ident $name:literal $(or $alias:literal)?, $kind:expr, $default:literal, $mutable:literal, $help:literal;)*) => {
        /// Names a setting in code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Id {
            $(#[doc = $help] $id,)*
        }
        /// All settings, in the order of `Id`.
        pub const TABLE: &[Param] = &[
            $(Param {
                id: Id::$id,
                name: $name,
                alias: concat!($($alias)?),
                kind: $kind,
                default: $default,
                is_mutable: $mutable,
                help: $help,
            },)*
        ];
    };
}

use crate::segments::EVICTIONS;
use Kind::{
    Bool, Bytes, Choice, Events, Fixed, Index, Int, OutputLimits, Percentiles, Policy, Secret, Text,
};

/// The levels of the log, the chattiest first.
pub const LOG_LEVELS: &[&str] = &["debug", "verbose", "notice", "warning", "nothing"];

/// What may hold the keys.
const ENGINES: &[&str] = &["slab", "segment"];
/// The place of the segment engine among `ENGINES`.
pub const SEGMENT_ENGINE: i64 = 1;

const MAX: i64 = i64::MAX;

settings! {
    Bind "bind", Text, "127.0.0.1 -::1", false, "Addresses to listen on; a leading - allows one to be missing, * means all.";
    Port "port", Int(0, 65535), "6379", false, "TCP port; 0 lets the system choose one, which the log tells.";
    Memcached "memcached", Int(0, 65535), "0", false, "TCP port for memcached's protocol, at the same addresses; 0 means none.";
    MemcachedItemMax "memcached-item-max", Bytes(1024, 1 << 30), "1mb", true, "Bytes of one value in memcached's protocol.";
    Threads "threads" or "io-threads", Int(0, 128), "0", false, "Data threads; 0 means one, or one per core beyond two cores.";
    TcpBacklog "tcp-backlog", Int(1, 65535), "511", false, "Connections that may wait to be accepted.";
    ProtectedMode "protected-mode", Bool, "yes", true, "Without a password, refuse clients from other machines.";
    RequirePass "requirepass", Secret, "", true, "The default user's password; empty means none.";
    MaxClients "maxclients", Int(1, 1_000_000), "10000", true, "Connections at once; one more is told so and closed.";
    Timeout "timeout", Int(0, 2_147_483_647), "0", true, "Seconds after which an idle client is closed; 0 means never.";
    TcpKeepalive "tcp-keepalive", Int(0, 2_147_483_647), "300", true, "Seconds between probes of silent connections; 0 means none.";
    OutputBufferLimit "client-output-buffer-limit", OutputLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", true, "Per class of client: bytes at once, bytes for so many seconds, beyond which it is cut off.";
    QueryBufferLimit "client-query-buffer-limit", Bytes(1 << 20, MAX), "1gb", true, "Bytes of unfinished commands beyond which a client is cut off.";
    ProtoMaxBulkLen "proto-max-bulk-len", Bytes(1 << 20, 1 << 30), "512mb", true, "Bytes of one argument.";
    MaxMemory "maxmemory", Bytes(0, MAX), "0", true, "Bytes in use beyond which keys are evicted or writes refused; 0 means no bound.";
    MaxMemoryPolicy "maxmemory-policy", Policy, "noeviction", true, "What to evict when memory is full; allkeys-s3fifo is the recommended one.";
    Expiry "expiry", Index, "wheel", false, "The index that finds keys whose deadline has passed.";
    ElementExpiry "element-expiry", Index, "ranked", false, "The same for elements of large hashes, sets and sorted sets; only ranked counts and lists them by deadline without a look at each.";
    Engine "engine", Choice(ENGINES), "slab", false, "What holds the keys: slab for everything, segment for strings only, many and small, with lives rounded down.";
    SegmentSize "segment-size", Bytes(4096, 8 << 20), "1mb", false, "Bytes of a segment of the segment engine: a power of two, and more than its largest value.";
    SegmentEviction "segment-eviction", Choice(EVICTIONS), "rent", true, "Which segments go when the segment engine's memory is full; see [the segment engine](../lab/segment.md).";
    SegmentMerge "segment-merge", Int(0, 16), "0", false, "Segments that the segment engine merges into one; 0: four, or five where segment-eviction is gl-cache.";
    LearnCpu "learn-cpu", Int(0, 100), "5", true, "Percent of one core that learning may take where segment-eviction is gl-cache; 0: nothing is learned, 100: no load is heeded.";
    LearnInterval "learn-interval", Int(0, 1_000_000), "0", true, "Requests for each key held after which gl-cache trains, heeded when segment-eviction is set; 0: 8, and daily once the server has run for three days.";
    NotifyKeyspaceEvents "notify-keyspace-events", Events, "", true, "Which events of keys are published: K E g $ l s h z x e t d m n, A for all but m and n.";
    HllSparseMaxBytes "hll-sparse-max-bytes", Bytes(0, MAX), "3000", true, "Bytes up to which a HyperLogLog stays in its sparse form.";
    HashMaxEntries "hash-max-listpack-entries" or "hash-max-ziplist-entries", Int(0, MAX), "512", true, "Fields up to which a hash is packed.";
    HashMaxValue "hash-max-listpack-value" or "hash-max-ziplist-value", Int(0, MAX), "64", true, "Bytes of a field or value up to which a hash is packed.";
    SetMaxIntegers "set-max-intset-entries", Int(0, MAX), "512", true, "Members up to which a set of integers is packed.";
    SetMaxEntries "set-max-listpack-entries", Int(0, MAX), "128", true, "Members up to which a set is packed.";
    SetMaxValue "set-max-listpack-value", Int(0, MAX), "64", true, "Bytes of a member up to which a set is packed.";
    ZsetMaxEntries "zset-max-listpack-entries" or "zset-max-ziplist-entries", Int(0, MAX), "128", true, "Members up to which a sorted set is packed.";
    ZsetMaxValue "zset-max-listpack-value" or "zset-max-ziplist-value", Int(0, MAX), "64", true, "Bytes of a member up to which a sorted set is packed.";
    ListMaxSize "list-max-listpack-size" or "list-max-ziplist-size", Int(-5, MAX), "-2", true, "Elements of a piece of a list; -1 to -5: its bytes, 4 to 64 KiB.";
    DumpHashFormat "dump-hash-ttl-format", Choice(HASH_FORMATS), "redis", true, "For whom DUMP writes hashes whose fields have deadlines: redis (7.4 and later) or valkey (9 and later); RESTORE takes both.";
    SlowlogLogSlowerThan "slowlog-log-slower-than", Int(-1, MAX), "10000", true, "Microseconds from which a command is kept in SLOWLOG; -1 means none.";
    SlowlogMaxLen "slowlog-max-len", Int(0, 1_000_000), "128", true, "Entries that SLOWLOG keeps.";
    LatencyMonitorThreshold "latency-monitor-threshold", Int(0, MAX), "0", true, "Milliseconds from which LATENCY keeps an event; 0 means off.";
    LatencyTracking "latency-tracking", Bool, "yes", true, "Keep a histogram of each command's time.";
    LatencyPercentiles "latency-tracking-info-percentiles", Percentiles, "50 99 99.9", true, "The percentiles that INFO latencystats shows.";
    LogLevel "loglevel", Choice(LOG_LEVELS), "notice", true, "debug, verbose, notice, warning or nothing.";
    LogFile "logfile", Text, "", false, "Where the log goes; empty means standard error.";
    Databases "databases", Fixed(&["16"]), "16", false, "Numbered databases.";
    Save "save", Fixed(&["", "\"\""]), "", true, "Snapshots are not there yet: only the empty schedule is taken.";
    AppendOnly "appendonly", Fixed(&["no"]), "no", true, "There is no append-only file.";
    ReplicaReadOnly "replica-read-only" or "slave-read-only", Fixed(&["yes", "no"]), "yes", true, "There are no replicas.";
    ClusterEnabled "cluster-enabled", Fixed(&["no"]), "no", false, "There is no cluster mode.";
    Daemonize "daemonize", Fixed(&["no"]), "no", false, "The server stays in the foreground: let a service manager run it.";
}

/// How many settings there are.
pub const COUNT: usize = TABLE.len();

/// Settings of Redis about things that are not here, or done otherwise: taken from a file with a
/// warning, whatever their value, because nothing that a client can see depends on them.
pub const IGNORED: &[&str] = &[
    "pidfile",
    "supervised",
    "always-show-logo",
    "set-proc-title",
    "proc-title-template",
    "locale-collate",
    "enable-*-command",
    "syslog-*",
    "crash-*",
    "hz",
    "dynamic-hz",
    "active-expire-effort",
    "activerehashing",
    "activedefrag",
    "active-defrag-*",
    "lazyfree-*",
    "io-threads-do-reads",
    "oom-score-adj*",
    "disable-thp",
    "jemalloc-bg-thread",
    "maxmemory-samples",
    "maxmemory-eviction-tenacity",
    "lfu-*",
    "tracking-table-max-keys",
    "dir",
    "dbfilename",
    "rdb*",
    "stop-writes-on-bgsave-error",
    "sanitize-dump-payload",
    "appendfilename",
    "appenddirname",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "auto-aof-*",
    "aof-*",
    "repl-*",
    "replica-*",
    "slave-*",
    "min-replicas-*",
    "min-slaves-*",
    "cluster-*",
    "lua-time-limit",
    "busy-reply-threshold",
    "shutdown-*",
    "hash-max-*",
    "list-*",
    "set-max-*",
    "zset-max-*",
    "stream-node-max-*",
    "acllog-max-len",
    "acl-pubsub-default",
];

/// Settings of Redis that would be missed if they were passed over, and what to say.
pub const REFUSED: &[(&str, &str)] = &[
    ("replicaof", "there is no replication"),
    ("slaveof", "there is no replication"),
    ("masterauth", "there is no replication"),
    ("masteruser", "there is no replication"),
    ("tls-*", "there is no TLS; put a proxy in front"),
    ("unixsocket*", "there are no Unix sockets"),
    ("loadmodule", "there are no modules"),
    (
        "aclfile",
        "there are no ACL users but the default one; use requirepass",
    ),
    (
        "user",
        "there are no ACL users but the default one; use requirepass",
    ),
    ("rename-command", "commands cannot be renamed"),
    (
        "maxmemory-clients",
        "clients are bounded one by one: client-output-buffer-limit",
    ),
];
