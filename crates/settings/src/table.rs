//! The table of settings, which the config file, the command line, CONFIG GET and SET, the docs and
//! the tests all use.

use super::words::{
    CERTIFICATE_USERS, CHANNELS, CLIENT_AUTHENTICATION, CLUSTER_MODES, DEBUG_ACCESS, ENDPOINTS,
    ENGINES, EVICTIONS, HASH_FORMATS, LOG_FORMATS, LOG_LEVELS, SANITIZE, SUPERVISORS, SYNCS,
};

/// Type of a setting, which determines how its text is parsed, validated and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer between two bounds, inclusive.
    Int(i64, i64),
    /// A number of bytes between two bounds, inclusive, with an optional unit.
    Bytes(i64, i64),
    /// A number of bytes with an optional unit, or a percentage such as `5%`, stored as a negative
    /// number.
    BytesOrPercent,
    /// One of these words, stored as its index.
    Choice(&'static [&'static str]),
    /// File permissions as an octal number.
    Permissions,
    /// Any text.
    Text,
    /// Any text. It is never logged.
    Secret,
    /// An address and a port, a port on this machine only, or nothing.
    Address,
    /// A host name or an address without a port, or nothing.
    Host,
    /// A file name without a folder.
    FileName,
    /// Pairs of seconds and changes, or nothing.
    SavePoints,
    /// A name of `Keyspace::policy_names`.
    Policy,
    /// A name of `Keyspace::expiry_names`.
    Index,
    /// The letters of `notify-keyspace-events`.
    Events,
    /// One to three groups of `class hard soft seconds`.
    OutputLimits,
    /// Classes of keys, as `classes::parse` reads them.
    Classes,
    /// Numbers between 0 and 100, separated by blanks.
    Percentiles,
    /// A Redis setting of which this server supports only these values; the first is the default.
    Fixed(&'static [&'static str]),
}

/// How a value that CONFIG SET has changed takes effect.
///
/// Most code reads a setting at each use. A part that keeps a copy has a variant here, so that
/// `apply` in `crates/server/src/command/config.rs` does not compile without a branch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only a start reads it. CONFIG SET refuses a change.
    Restart,
    /// The code reads the value at each use.
    Read,
    /// Nothing depends on the setting.
    Nothing,
    /// The users keep the password of the default user.
    Password,
    /// The TLS configuration is built from the setting.
    Tls,
    /// The keyspace keeps this limit of its collections.
    Limit(&'static str),
    /// The engine keeps the memory limit.
    Memory,
    /// The memory limit of a replica depends on it.
    ReplicaMemory,
    /// The slab engine keeps the eviction policy.
    Policy,
    /// The keyspace keeps the classes of keys.
    Classes,
    /// The segment engine keeps the rule that chooses segments.
    Eviction,
    /// The keyspace queues the events that are enabled.
    Events,
    /// The threads of the append-only file start or end with it.
    AppendOnly,
    /// Sets whether replies wait until the append-only file is on the disk, and wakes its threads.
    AppendSync,
    /// Whether writes are refused for lack of replicas is decided again.
    MinReplicas,
    /// The log keeps its level.
    LogLevel,
    /// The slow log drops entries beyond its length.
    Slowlog,
}

/// One setting.
#[derive(Debug)]
pub struct Param {
    /// Index in `TABLE`.
    pub id: Id,
    /// Name in lower case.
    pub name: &'static str,
    /// Older name that Redis still accepts; empty if there is none.
    pub alias: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Value when nothing is configured.
    pub default: &'static str,
    /// How a changed value takes effect.
    pub effect: Effect,
    /// One-line description for the docs.
    pub help: &'static str,
}

impl Param {
    /// Whether CONFIG SET may change the value.
    pub fn is_mutable(&self) -> bool {
        self.effect != Effect::Restart
    }
}

macro_rules! settings {
    ($($id:ident $name:literal $(or $alias:literal)?, $kind:expr, $default:literal, $effect:ident $(($limit:literal))?, $help:literal;)*) => {
        /// Identifier of a setting.
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
                effect: Effect::$effect $(($limit))?,
                help: $help,
            },)*
        ];
    };
}

use Kind::{
    Address, Bool, Bytes, BytesOrPercent, Choice, Classes, Events, FileName, Fixed, Host, Index,
    Int, OutputLimits, Percentiles, Permissions, Policy, SavePoints, Secret, Text,
};

const MAX: i64 = i64::MAX;

settings! {
    Bind "bind", Text, "127.0.0.1 -::1", Restart, "Addresses to listen on. A leading - means that the address may be unavailable; * means all addresses.";
    Port "port", Int(0, 65535), "6379", Restart, "TCP port; 0 lets the system choose a free port, which the log reports. With tls-port or a local socket, 0 disables it.";
    Memcached "memcached", Int(0, 65535), "0", Restart, "TCP port for memcached's protocol, on the same addresses; 0 disables it.";
    TlsPort "tls-port", Int(0, 65535), "0", Restart, "TCP port for Redis's protocol over TLS, on the same addresses; 0 disables it. See [TLS](../guide/tls.md).";
    TlsMemcached "tls-memcached", Int(0, 65535), "0", Restart, "TCP port for memcached's protocol over TLS, on the same addresses; 0 disables it.";
    TlsCertFile "tls-cert-file", Text, "", Tls, "File with the server's certificate in PEM, and those of the authorities between it and a root.";
    TlsKeyFile "tls-key-file", Text, "", Tls, "File with the private key of the server's certificate in PEM.";
    TlsCaCertFile "tls-ca-cert-file", Text, "", Tls, "File with the certificates in PEM of the authorities that clients' certificates are checked against.";
    TlsAuthClients "tls-auth-clients", Choice(CLIENT_AUTHENTICATION), "yes", Tls, "Whether TLS clients must have a certificate: yes, no, or optional, which checks a certificate if the client has one.";
    TlsAuthClientsUser "tls-auth-clients-user", Choice(CERTIFICATE_USERS), "off", Read, "Part of a client's certificate that names the user that the client becomes without a password: CN is the common name, SAN the DNS names, off none. See [TLS](../guide/tls.md).";
    TlsReplication "tls-replication", Bool, "no", Read, "Whether the connection to a primary uses TLS. The primary's certificate is checked against tls-ca-cert-file and the host in replicaof.";
    TlsProtocols "tls-protocols", Text, "", Tls, "Versions of TLS, separated by blanks: TLSv1.2 and TLSv1.3; empty means both.";
    TlsCiphers "tls-ciphers", Text, "", Tls, "Ciphers for TLS 1.2 by their names in OpenSSL, separated by colons; empty means all that are supported.";
    TlsCiphersuites "tls-ciphersuites", Text, "", Tls, "Ciphers for TLS 1.3, separated by colons; empty means all that are supported.";
    TlsGroups "tls-groups", Text, "", Tls, "Groups of the key exchange by their names in TLS, separated by colons, the preferred one first; empty means all that are supported.";
    TlsPreferServerCiphers "tls-prefer-server-ciphers", Bool, "no", Tls, "Whether the first cipher of the settings that the client supports is used, instead of the client's first one.";
    Http "http", Address, "", Restart, "Address and port for metrics and health checks over HTTP, such as 127.0.0.1:9379; a port alone is one of this machine, and empty disables it. See [metrics](../guide/metrics.md).";
    MemcachedItemMax "memcached-item-max", Bytes(1024, 1 << 30), "1mb", Read, "Maximum size of one value in memcached's protocol, in bytes.";
    UnixSocket "unixsocket", Text, "", Restart, "Path of a local socket for Redis's protocol; empty means none.";
    UnixSocketPerm "unixsocketperm", Permissions, "0", Restart, "Permissions of the local sockets as an octal number such as 770; 0 leaves them to the umask.";
    MemcachedSocket "memcached-unixsocket", Text, "", Restart, "Path of a local socket for memcached's protocol; empty means none.";
    Threads "threads" or "io-threads", Int(0, 128), "0", Restart, "Number of data threads; 0 means one, or one per core on machines with more than two cores, at most 16.";
    TcpBacklog "tcp-backlog", Int(1, 65535), "511", Restart, "Maximum number of connections waiting to be accepted.";
    ProtectedMode "protected-mode", Bool, "yes", Read, "Whether to refuse clients from other machines while no password is set.";
    RequirePass "requirepass", Secret, "", Password, "Password of the default user; empty means none.";
    RequirePassFile "requirepass-file", Text, "", Restart, "File whose first line is the password of the default user, instead of requirepass.";
    AclFile "aclfile", Text, "", Restart, "File that defines the users; see [access control](../guide/access-control.md).";
    AclPubsubDefault "acl-pubsub-default", Choice(CHANNELS), "resetchannels", Read, "Channels that a new user may use: allchannels or resetchannels (none).";
    AclLogMaxLen "acllog-max-len", Int(0, 1_000_000), "128", Read, "Maximum number of entries of ACL LOG.";
    EnableDebugCommand "enable-debug-command", Choice(DEBUG_ACCESS), "no", Restart, "Clients that may run DEBUG: no, yes (all) or local (only those on the same machine).";
    MaxClients "maxclients", Int(1, 1_000_000), "10000", Read, "Maximum number of connected clients; a further connection gets an error and is closed.";
    Timeout "timeout", Int(0, 2_147_483_647), "0", Read, "Seconds after which an idle client is disconnected; 0 means never.";
    TcpKeepalive "tcp-keepalive", Int(0, 2_147_483_647), "300", Read, "Seconds between TCP keepalive probes on idle connections; 0 disables them.";
    OutputBufferLimit "client-output-buffer-limit", OutputLimits, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", Read, "For each client class: the number of pending output bytes at which the client is disconnected at once, and the number at which it is disconnected after the given seconds. 0 means no limit.";
    QueryBufferLimit "client-query-buffer-limit", Bytes(1 << 20, u32::MAX as i64), "1gb", Read, "Maximum number of buffered bytes of an incomplete command; a client beyond it is disconnected.";
    ProtoMaxBulkLen "proto-max-bulk-len", Bytes(1 << 20, 1 << 30), "512mb", Read, "Maximum size of one command argument, in bytes.";
    MaxMemory "maxmemory", BytesOrPercent, "0", Memory, "Maximum memory in bytes, or in percent of the memory of the container or machine; beyond it keys are evicted or writes refused, as maxmemory-policy says. A percentage follows a limit that changes. 0 means no limit.";
    MaxMemoryClients "maxmemory-clients", BytesOrPercent, "0", Read, "Maximum memory of all clients together, in bytes or in percent of maxmemory; beyond it the clients with the most memory are disconnected. 0 means no limit.";
    MaxMemoryPolicy "maxmemory-policy", Policy, "noeviction", Policy, "Policy that chooses the keys to evict when memory is full; recommended: allkeys-s3fifo-w.";
    Expiry "expiry", Index, "wheel", Restart, "Index that finds keys whose expiration time has passed.";
    ElementExpiry "element-expiry", Index, "ranked", Restart, "Index that finds expired elements of large hashes, sets and sorted sets. With ranked, commands that count or list elements by expiration time do not scan all elements.";
    Engine "engine", Choice(ENGINES), "slab", Restart, "Storage engine: slab serves all types; segment serves only strings, is made for many small ones, and rounds TTLs down.";
    SegmentSize "segment-size", Bytes(4096, 8 << 20), "1mb", Restart, "Size of a segment of the segment engine in bytes: a power of two, larger than the largest value.";
    SegmentFile "segment-file", Text, "", Restart, "File in which the segment engine keeps its segments, so that a restart continues with them; empty means none. A file in a file system in memory (tmpfs) needs no disk.";
    SegmentEviction "segment-eviction", Choice(EVICTIONS), "rent", Eviction, "How the segment engine chooses segments to evict when memory is full; see [the segment engine](../guide/segment.md).";
    SegmentMerge "segment-merge", Int(0, 16), "0", Restart, "Number of segments that the segment engine merges into one; 0 means 4, or 5 with segment-eviction gl-cache.";
    LearnCpu "learn-cpu", Int(0, 100), "5", Read, "Maximum CPU time for training with segment-eviction gl-cache, in percent of one core; 0 disables training, 100 means training does not wait for idle time.";
    LearnInterval "learn-interval", Int(0, 1_000_000), "0", Read, "Number of requests per stored key after which gl-cache trains again; 0 means 8, and once a day after three days of uptime. Read when segment-eviction is set.";
    NotifyKeyspaceEvents "notify-keyspace-events", Events, "", Events, "Classes of key events to publish: K E S T I V g $ l s h z x e t d i m n o c; A means all but i, m, n, o and c, and no channel. See [notifications](../guide/expiry.md#notifications).";
    StaleReads "stale-reads", Bool, "yes", Read, "Whether GET and MGET return a value that is stale (SET … STALE) until its deadline, as Redis does with any value; if not, they treat it as missing. FETCH returns it in any case.";
    HllSparseMaxBytes "hll-sparse-max-bytes", Bytes(0, MAX), "3000", Read, "Maximum size of a HyperLogLog in its sparse form, in bytes.";
    HashMaxEntries "hash-max-listpack-entries" or "hash-max-ziplist-entries", Int(0, MAX), "512", Limit("hash_entries"), "Maximum number of fields of a hash in its packed form.";
    HashMaxValue "hash-max-listpack-value" or "hash-max-ziplist-value", Int(0, MAX), "64", Limit("hash_value"), "Maximum size of a field or value of a hash in its packed form, in bytes.";
    SetMaxIntegers "set-max-intset-entries", Int(0, MAX), "512", Limit("set_intset_entries"), "Maximum number of members of a set of integers in its packed form.";
    SetMaxEntries "set-max-listpack-entries", Int(0, MAX), "128", Limit("set_entries"), "Maximum number of members of a set in its packed form.";
    SetMaxValue "set-max-listpack-value", Int(0, MAX), "64", Limit("set_value"), "Maximum size of a member of a set in its packed form, in bytes.";
    ZsetMaxEntries "zset-max-listpack-entries" or "zset-max-ziplist-entries", Int(0, MAX), "128", Limit("zset_entries"), "Maximum number of members of a sorted set in its packed form.";
    ZsetMaxValue "zset-max-listpack-value" or "zset-max-ziplist-value", Int(0, MAX), "64", Limit("zset_value"), "Maximum size of a member of a sorted set in its packed form, in bytes.";
    ListMaxSize "list-max-listpack-size" or "list-max-ziplist-size", Int(-5, MAX), "-2", Limit("list_size"), "Maximum number of elements in one node of a list; -1 to -5 limit the node's size instead, to 4, 8, 16, 32 or 64 KiB.";
    StreamMaxEntries "stream-node-max-entries", Int(0, MAX), "100", Limit("stream_entries"), "Maximum number of entries in one block of a stream; 0 means 10,000.";
    StreamMaxBytes "stream-node-max-bytes", Bytes(0, MAX), "4096", Limit("stream_bytes"), "Size of a block of a stream in bytes beyond which it takes no further entry; 0 means 1 MiB.";
    StreamIdempotenceSeconds "stream-idmp-duration", Int(1, 86400), "100", Limit("stream_idmp_seconds"), "Number of seconds for which a new stream recognizes messages of a producer that are sent again (XADD with IDMP); XCFGSET changes it for one stream.";
    StreamIdempotenceSize "stream-idmp-maxsize", Int(1, 10000), "100", Limit("stream_idmp_size"), "Maximum number of messages of each producer that a new stream recognizes; XCFGSET changes it for one stream.";
    DumpHashFormat "dump-hash-ttl-format", Choice(HASH_FORMATS), "redis", Read, "Format in which DUMP, snapshot files and the base of the append-only file contain hashes whose fields have expiration times: redis (7.4 and later) or valkey (9 and later). Neither reads the format of the other. A replica receives the format that it reads, and RESTORE and loads read both.";
    TrackingTableMaxKeys "tracking-table-max-keys", Int(0, MAX), "1000000", Read, "Maximum number of keys that are recorded as cached by clients (CLIENT TRACKING); beyond it other keys are invalidated. 0 means no limit.";
    SlowlogLogSlowerThan "slowlog-log-slower-than" or "commandlog-execution-slower-than", Int(-1, MAX), "10000", Read, "Minimum duration in microseconds of commands that SLOWLOG records; -1 disables it.";
    SlowlogMaxLen "slowlog-max-len" or "commandlog-slow-execution-max-len", Int(0, 1_000_000), "128", Slowlog, "Maximum number of entries in SLOWLOG.";
    LongCommandThreshold "long-command-threshold", Int(-1, MAX), "10000", Read, "Estimated work of a command, in elements or units of 512 bytes, beyond which it runs on a thread of its own while other clients are served; -1 runs all commands at once. See [long commands](../guide/long-commands.md).";
    AtomicWorkLimit "atomic-work-limit", Int(0, MAX), "10000000", Read, "Maximum estimated work of what is one step for other clients: a transaction, or a command with more than 1,024 keys. The unit is that of long-command-threshold, and each command and each key counts as one at least. What exceeds it is refused; 0 means no limit.";
    LatencyMonitorThreshold "latency-monitor-threshold", Int(0, MAX), "0", Read, "Minimum duration in milliseconds of events that LATENCY records; 0 disables it.";
    LatencyTracking "latency-tracking", Bool, "yes", Read, "Whether to keep a histogram of each command's duration.";
    LatencyPercentiles "latency-tracking-info-percentiles", Percentiles, "50 99 99.9", Read, "Percentiles that INFO latencystats shows.";
    BusyReplyThreshold "busy-reply-threshold" or "lua-time-limit", Int(0, MAX), "5000", Read, "Duration of a script in milliseconds after which SCRIPT KILL may end it, which needs several data threads.";
    ScriptTimeLimit "script-time-limit", Int(0, MAX), "5000", Read, "Duration of a script in milliseconds after which it is ended, even if it has written; 0 means no limit.";
    ScriptMemoryLimit "script-memory-limit", Bytes(1 << 20, 1 << 40), "64mb", Read, "Maximum memory that a running script may allocate for its values, in bytes.";
    Hz "hz", Int(0, 2_147_483_647), "10", Nothing, "Without effect: deadlines are kept by timers, not by a periodic task.";
    DynamicHz "dynamic-hz", Bool, "yes", Nothing, "Without effect, as hz.";
    ActiveExpireEffort "active-expire-effort", Int(1, 10), "1", Nothing, "Without effect: expired keys and elements are removed on time with any load.";
    LazyExpireNested "lazyexpire-nested-arbitrary-keys", Bool, "yes", Nothing, "Without effect: nothing expires within a script or a transaction.";
    LazyFreeEviction "lazyfree-lazy-eviction", Bool, "no", Nothing, "Without effect: large values are always freed in steps.";
    LazyFreeExpire "lazyfree-lazy-expire", Bool, "no", Nothing, "Without effect: large values are always freed in steps.";
    LazyFreeServerDel "lazyfree-lazy-server-del", Bool, "no", Nothing, "Without effect: large values are always freed in steps.";
    LazyFreeUserDel "lazyfree-lazy-user-del", Bool, "no", Nothing, "Without effect: large values are always freed in steps.";
    LazyFreeUserFlush "lazyfree-lazy-user-flush", Bool, "no", Nothing, "Without effect: databases are always freed in steps.";
    ActiveRehashing "activerehashing", Bool, "yes", Nothing, "Without effect: tables grow and shrink in small steps with each change.";
    ActiveDefrag "activedefrag", Bool, "no", Nothing, "Without effect: sparse pages are always compacted in the background.";
    ActiveDefragIgnore "active-defrag-ignore-bytes", Bytes(1, MAX), "100mb", Nothing, "Without effect, as activedefrag.";
    ActiveDefragLower "active-defrag-threshold-lower", Int(0, 1000), "10", Nothing, "Without effect, as activedefrag.";
    ActiveDefragUpper "active-defrag-threshold-upper", Int(0, 1000), "100", Nothing, "Without effect, as activedefrag.";
    ActiveDefragMin "active-defrag-cycle-min", Int(1, 99), "1", Nothing, "Without effect, as activedefrag.";
    ActiveDefragMax "active-defrag-cycle-max", Int(1, 99), "25", Nothing, "Without effect, as activedefrag.";
    ActiveDefragFields "active-defrag-max-scan-fields", Int(1, MAX), "1000", Nothing, "Without effect, as activedefrag.";
    JemallocThread "jemalloc-bg-thread", Bool, "yes", Nothing, "Without effect: the allocator has no thread of its own.";
    ListCompressDepth "list-compress-depth", Int(0, 2_147_483_647), "0", Nothing, "Without effect: elements of lists are stored as they are.";
    MaxMemorySamples "maxmemory-samples", Int(1, 64), "5", Nothing, "Without effect: the eviction policy says how many entries it samples; see [policies](policies.md).";
    EvictionTenacity "maxmemory-eviction-tenacity", Int(0, 100), "10", Nothing, "Without effect: a write waits until there is room for it.";
    LfuLogFactor "lfu-log-factor", Int(0, 2_147_483_647), "10", Nothing, "Without effect: see [policies](policies.md) for those that count accesses.";
    LfuDecayTime "lfu-decay-time", Int(0, 2_147_483_647), "1", Nothing, "Without effect, as lfu-log-factor.";
    KeyMemoryHistograms "key-memory-histograms", Bool, "no", Nothing, "Without effect: there are no histograms of memory by key.";
    SanitizeDump "sanitize-dump-payload", Choice(SANITIZE), "no", Nothing, "Without effect: RESTORE always checks the whole value.";
    HideUserData "hide-user-data-from-log", Bool, "no", Nothing, "Without effect: the log contains no keys and no values.";
    Lookahead "lookahead" or "prefetch-batch-max-size", Int(0, 2_147_483_647), "16", Nothing, "Without effect: keys of all commands that were received together are prefetched.";
    NewConnections "max-new-connections-per-cycle", Int(1, 1000), "10", Nothing, "Without effect: connections are accepted in batches between requests.";
    CrashLog "crash-log-enabled", Bool, "yes", Nothing, "Without effect: a crash is always logged.";
    CrashMemcheck "crash-memcheck-enabled", Bool, "yes", Nothing, "Without effect: memory is not tested after a crash.";
    Classes "class", Classes, "", Classes, "A class of keys: its name, prefix P or db N or both, and optionally ttl-default T, ttl-max T, ttl-jitter P%, sliding yes, and for a whole database maxmemory B, minmemory B and policy P. One line for each class; CONFIG GET class returns them separated by ;. See [classes](../guide/classes.md).";
    LogLevel "loglevel", Choice(LOG_LEVELS), "notice", LogLevel, "Least severe level that is logged: debug, verbose, notice, warning or nothing.";
    LogFormat "log-format", Choice(LOG_FORMATS), "text", Restart, "Format of the log: text, which Valkey calls legacy, or one JSON object per line.";
    LogFile "logfile", Text, "", Restart, "File that the log is appended to; empty means standard error.";
    Databases "databases", Int(1, 256), "16", Restart, "Number of databases. Unused ones take no memory. The segment engine has one.";
    Save "save", SavePoints, "", Read, "When a snapshot is written in the background: pairs of seconds and changes. With 300 100, after 300 seconds if there were 100 changes. Empty disables it, and a stop of the server without a snapshot is the default then. With a configuration file, and without this setting anywhere, the save points of Redis hold: 3600 1 300 100 60 10000.";
    LoadThreads "load-threads", Int(0, 64), "0", Read, "Number of threads that load a snapshot file; 0 means one per core, at most 8.";
    DbFilename "dbfilename", FileName, "dump.rdb", Restart, "Name of the snapshot file.";
    Dir "dir", Text, ".", Restart, "Folder of the snapshot file and the append-only file. Relative paths in other settings begin there.";
    RdbChecksum "rdbchecksum", Bool, "yes", Restart, "Whether snapshots are written with a checksum.";
    StopWritesOnError "stop-writes-on-bgsave-error", Bool, "yes", Read, "Whether writes are refused while save points are set and the last snapshot has failed.";
    AppendOnly "appendonly", Bool, "no", AppendOnly, "Whether every change is added to the append-only file. See [persistence](../guide/persistence.md#the-append-only-file).";
    AppendFsync "appendfsync", Choice(SYNCS), "everysec", AppendSync, "When the append-only file is written to the disk: always before a reply is sent, everysec, or no, which leaves it to the system.";
    AppendDirName "appenddirname", FileName, "appendonlydir", Restart, "Name of the folder of the append-only file, in dir.";
    AppendFileName "appendfilename", FileName, "appendonly.aof", Restart, "Beginning of the names of the append-only file's parts.";
    AofRewritePercentage "auto-aof-rewrite-percentage", Int(0, MAX), "100", Read, "Growth of the append-only file in percent of its size after the last rewrite at which it is rewritten; 0 disables it.";
    AofRewriteMinSize "auto-aof-rewrite-min-size", Bytes(0, MAX), "64mb", Read, "Minimum size of the append-only file in bytes at which it is rewritten by itself.";
    AofLoadTruncated "aof-load-truncated", Bool, "yes", Read, "Whether an append-only file that ends within a command is cut there and loaded at the start.";
    AofLoadCorruptTailMax "aof-load-corrupt-tail-max-size", Bytes(0, MAX), "0", Read, "Maximum number of bytes at the end of the append-only file, from damage other than a truncation on, that are removed so that the server starts; 0 means that the start is refused.";
    ReplicaOf "replicaof" or "slaveof", Text, "", Restart, "Host and port of the primary that this server follows; empty means that it is a primary. See [replication](../guide/replication.md).";
    MasterUser "masteruser" or "primaryuser", Text, "", Read, "User of the primary as which this server authenticates; empty means the default user.";
    MasterAuth "masterauth" or "primaryauth", Secret, "", Read, "Password with which this server authenticates at its primary; empty means none.";
    ReplicaReadOnly "replica-read-only" or "slave-read-only", Bool, "yes", Read, "Whether a replica refuses writes of its clients.";
    ReplicaServeStale "replica-serve-stale-data" or "slave-serve-stale-data", Bool, "yes", Read, "Whether a replica without a connection to its primary serves the data that it has; if not, it answers MASTERDOWN.";
    ReplicaIgnoreMaxMemory "replica-ignore-maxmemory" or "slave-ignore-maxmemory", Bool, "yes", ReplicaMemory, "Whether a replica evicts nothing and leaves eviction to its primary.";
    ReplicaPriority "replica-priority" or "slave-priority", Int(0, 2_147_483_647), "100", Read, "Rank of this replica for Sentinel: lower numbers are promoted first, 0 never.";
    ReplicaAnnounceIp "replica-announce-ip" or "slave-announce-ip", Text, "", Read, "Address of this replica that its primary reports; empty means that of the connection.";
    ReplicaAnnouncePort "replica-announce-port" or "slave-announce-port", Int(0, 65535), "0", Read, "Port of this replica that its primary reports; 0 means port.";
    ReplBacklogSize "repl-backlog-size", Bytes(1, MAX), "1mb", Read, "Number of bytes of the feed that are kept for replicas that connect again; at least 16 KiB are.";
    ReplBacklogTtl "repl-backlog-ttl", Int(0, MAX), "3600", Read, "Seconds without a replica after which the backlog is freed; 0 means never.";
    ReplTimeout "repl-timeout", Int(1, 2_147_483_647), "60", Read, "Seconds without a byte after which a primary or a replica is disconnected.";
    ReplPingPeriod "repl-ping-replica-period" or "repl-ping-slave-period", Int(1, 2_147_483_647), "10", Read, "Seconds between two pings of a primary to its replicas.";
    MinReplicasToWrite "min-replicas-to-write" or "min-slaves-to-write", Int(0, 2_147_483_647), "0", MinReplicas, "Number of replicas that must have acknowledged within min-replicas-max-lag, so that writes are accepted; 0 disables it.";
    MinReplicasMaxLag "min-replicas-max-lag" or "min-slaves-max-lag", Int(0, 2_147_483_647), "10", MinReplicas, "Maximum age in seconds of the acknowledgements that min-replicas-to-write counts.";
    ImportMode "import-mode", Fixed(&["no"]), "no", Restart, "Valkey's import of keys by a tool, during which nothing expires, is not supported.";
    ClusterEnabled "cluster-enabled", Choice(CLUSTER_MODES), "no", Restart, "Whether the server answers cluster clients: no; emulated, as a cluster of one node that has all slots; or yes, as one of several servers. See [cluster clients](../guide/cluster.md).";
    ClusterAnnounceIp "cluster-announce-ip", Host, "", Read, "Address of this node in replies to cluster clients; empty means the one that the client has connected to.";
    ClusterAnnouncePort "cluster-announce-port", Int(0, 65535), "0", Read, "Port without TLS in these replies; 0 means the one that the client has connected to, or port.";
    ClusterAnnounceTlsPort "cluster-announce-tls-port", Int(0, 65535), "0", Read, "Port with TLS in these replies; 0 means tls-port.";
    ClusterAnnounceBusPort "cluster-announce-bus-port", Int(0, 65535), "0", Read, "Port of the cluster bus in CLUSTER NODES. There is no bus, so nothing but the text depends on it.";
    ClusterAnnounceHostname "cluster-announce-hostname", Host, "", Read, "Host name of this node in these replies; empty means none.";
    ClusterReplicaMaxStaleness "cluster-replica-max-staleness", Int(0, 2_147_483_647), "15000", Read, "Milliseconds since a replica of a cluster has received anything from its primary, beyond which it sends reads of clients with READONLY to the primary. The primary sends something every repl-ping-replica-period at least.";
    ClusterEndpoint "cluster-preferred-endpoint-type", Choice(ENDPOINTS), "ip", Read, "Endpoint that cluster clients are given to connect to: ip, hostname, or unknown-endpoint, the host to which they are already connected.";
    ClusterName "cluster-name", Text, "default", Restart, "Name of the cluster in etcd, with cluster-enabled yes: letters, digits, '-', '_' and '.'. Its records are below /mayfly/cluster/NAME/.";
    ClusterZone "cluster-zone", Text, "", Restart, "Zone of this node, such as a data center. Replicas are placed in other zones than their primaries where possible.";
    ClusterMoveRate "cluster-move-max-rate", Bytes(0, 1 << 40), "0", Read, "Maximum number of bytes that each move of slots from this node sends per second; 0 means no limit.";
    ClusterConfigFile "cluster-config-file", FileName, "cluster.state", Restart, "File in dir with the name of this node and a copy of the cluster's records, from which it starts without etcd.";
    ClusterEtcdEndpoints "cluster-etcd-endpoints", Text, "", Restart, "URLs of etcd with cluster-enabled yes, separated by commas, such as http://127.0.0.1:2379.";
    ClusterEtcdCa "cluster-etcd-ca", Text, "", Restart, "File with the certificates of the authorities that sign etcd's certificates, in PEM; empty means those of the system.";
    ClusterEtcdCert "cluster-etcd-cert", Text, "", Restart, "File with the certificate of this node for etcd, in PEM; empty means none.";
    ClusterEtcdKey "cluster-etcd-key", Text, "", Restart, "File with the private key of this certificate, in PEM.";
    ClusterEtcdUser "cluster-etcd-user", Text, "", Restart, "User of etcd as which this node authenticates; empty means none.";
    ClusterEtcdPassword "cluster-etcd-password-file", Text, "", Restart, "File with the password of this user.";
    ShutdownTimeout "shutdown-timeout", Int(0, 2_147_483_647), "10", Read, "Maximum time in seconds for which a stop waits until clients have taken their replies and replicas what was written.";
    Daemonize "daemonize", Bool, "no", Restart, "Whether the server leaves the terminal and runs in the background once it accepts connections.";
    PidFile "pidfile", Text, "", Restart, "File that contains the number of the process while the server runs; empty means none, or /run/mayfly.pid with daemonize.";
    Supervised "supervised", Choice(SUPERVISORS), "auto", Restart, "Whether to notify the service manager of the end of the start and of the stop: systemd and auto notify if the environment names its socket (NOTIFY_SOCKET), no does not.";
}

/// Number of settings.
pub const COUNT: usize = TABLE.len();

/// Redis settings that have no effect here, as patterns with the reason. Any value is accepted,
/// because nothing that a client can observe depends on it.
pub const IGNORED: &[(&[&str], &str)] = &[
    (
        &["always-show-logo", "set-proc-title", "proc-title-template"],
        "the process keeps its name",
    ),
    (&["locale-collate"], "texts are compared by their bytes"),
    (
        &["enable-protected-configs", "enable-module-command"],
        "there are no such settings and no modules",
    ),
    (
        &["syslog-*"],
        "the log goes to standard error, which service managers pass on, or to logfile",
    ),
    (&["ignore-warnings"], "there are no such warnings"),
    (
        &["commandlog-*"],
        "commands are recorded by their duration, not by the size of requests and replies",
    ),
    (
        &["extended-redis-compatibility"],
        "names and versions of Redis are always reported",
    ),
    (
        &["availability-zone"],
        "INFO and HELLO report no availability zone",
    ),
    (&["hash-seed"], "hashes have a random seed"),
    (
        &["unixsocketgroup"],
        "local sockets belong to the group of the process",
    ),
    (
        &["log-timestamp-format"],
        "the log has one form of timestamps",
    ),
    (
        &["max-new-tls-connections-per-cycle"],
        "connections are accepted in batches between requests",
    ),
    (
        &["mptcp", "rdma-*", "socket-mark-id", "bind-source-addr"],
        "connections are plain ones of TCP and local sockets, whose addresses the system chooses",
    ),
    (&["io-threads-do-reads"], "data threads read and write"),
    (
        &["oom-score-adj*", "disable-thp", "*cpulist"],
        "the service manager sets them",
    ),
    (
        &["no-appendfsync-on-rewrite", "aof-*"],
        "the append-only file has one form, and a rewrite does not delay it",
    ),
    (
        &["shutdown-*"],
        "a signal stops the server as SHUTDOWN without options does",
    ),
    (&["rdb*"], "snapshots are written in one form"),
    (
        &[
            "repl-*",
            "replica-*",
            "slave-*",
            "propagation-error-behavior",
            "dual-channel-replication-enabled",
        ],
        "replication has one form",
    ),
    (
        &["cluster-*", "slot-migration-*"],
        "nodes of a cluster have no bus that such settings could change",
    ),
    (&["hash-max-zipmap-*"], "there is no such form"),
    (
        &["active-defrag-*"],
        "sparse pages are always compacted in the background",
    ),
];

/// Redis settings that cannot be ignored safely, with the reason why they are refused.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "tls-*",
        "only the port, the certificate, the clients, the protocols, the ciphers and the groups can be set",
    ),
    ("loadmodule", "modules are not supported"),
];
