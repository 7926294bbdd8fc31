//! Words that settings accept, in the order of the numbers that represent them.

/// Log levels, the most verbose first.
pub const LOG_LEVELS: &[&str] = &["debug", "verbose", "notice", "warning", "nothing"];

/// Words of `log-format`.
pub const LOG_FORMATS: &[&str] = &["text", "json", "legacy"];
/// Index of JSON in [`LOG_FORMATS`].
pub const JSON_LOG: usize = 1;

/// Names of the storage engines.
pub const ENGINES: &[&str] = &["slab", "segment"];
/// Index of the segment engine in [`ENGINES`].
pub const SEGMENT_ENGINE: i64 = 1;

/// Words of `segment-eviction`, in the order of `segment::Eviction::ALL`.
pub const EVICTIONS: &[&str] = &[
    "rent", "merge", "fifo", "random", "cte", "util", "s3fifo", "sieve", "gl-cache", "none",
];

/// Words of `cluster-enabled`.
pub const CLUSTER_MODES: &[&str] = &["no", "emulated", "yes"];
/// Index in [`CLUSTER_MODES`] of the word for no cluster.
pub const NO_CLUSTER: i64 = 0;
/// Index in [`CLUSTER_MODES`] of the word for a cluster of several servers.
pub const ROUTED_CLUSTER: i64 = 2;

/// Words of `cluster-preferred-endpoint-type`.
pub const ENDPOINTS: &[&str] = &["ip", "hostname", "unknown-endpoint"];
/// Index of the host name in [`ENDPOINTS`].
pub const ENDPOINT_HOSTNAME: i64 = 1;
/// Index in [`ENDPOINTS`] of the word that leaves the endpoint open.
pub const ENDPOINT_UNKNOWN: i64 = 2;

/// Words of `dump-hash-ttl-format`: the servers that can read hashes with element deadlines.
pub const HASH_FORMATS: &[&str] = &["redis", "valkey"];

/// Words of `sanitize-dump-payload`.
pub const SANITIZE: &[&str] = &["no", "yes", "clients"];

/// Words of `enable-debug-command`.
pub const DEBUG_ACCESS: &[&str] = &["no", "yes", "local"];
/// Index in [`DEBUG_ACCESS`] of the word that refuses DEBUG to all clients.
pub const DEBUG_REFUSED: i64 = 0;
/// Index in [`DEBUG_ACCESS`] of the word that allows DEBUG to local clients.
pub const DEBUG_LOCAL: i64 = 2;

/// Words of `acl-pubsub-default`.
pub const CHANNELS: &[&str] = &["allchannels", "resetchannels"];
/// Index in [`CHANNELS`] of the word that allows all channels.
pub const ALL_CHANNELS: i64 = 0;

/// Values of `tls-auth-clients`.
pub const CLIENT_AUTHENTICATION: &[&str] = &["no", "yes", "optional"];
/// Index of `no` in [`CLIENT_AUTHENTICATION`].
pub const NO_AUTHENTICATION: i64 = 0;
/// Index of `optional` in [`CLIENT_AUTHENTICATION`].
pub const OPTIONAL_AUTHENTICATION: i64 = 2;

/// Words of `tls-auth-clients-user`: the part of a certificate that contains the user name.
pub const CERTIFICATE_USERS: &[&str] = &["off", "CN", "SAN"];
/// Index in [`CERTIFICATE_USERS`] of the common name.
pub const USER_BY_COMMON_NAME: i64 = 1;
/// Index in [`CERTIFICATE_USERS`] of the alternative names.
pub const USER_BY_ALTERNATIVE_NAME: i64 = 2;

/// Words of `supervised`.
pub const SUPERVISORS: &[&str] = &["no", "systemd", "auto"];
/// Index in [`SUPERVISORS`] of the word that turns notifications off.
pub const NOT_SUPERVISED: i64 = 0;

/// Words of `appendfsync`.
pub const SYNCS: &[&str] = &["everysec", "always", "no"];
/// Index of `always` in [`SYNCS`].
pub const SYNC_ALWAYS: i64 = 1;
/// Index of `no` in [`SYNCS`].
pub const SYNC_NEVER: i64 = 2;
