//! Which metric a field of INFO is exported as.
//!
//! Names are those of redis_exporter with the prefix `mayfly_` where they follow Prometheus's
//! conventions: base units, and `_total` for counters.

use super::page::Type;

/// How the text of a field becomes a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// The number itself.
    Number,
    /// The number times this factor, for the base unit.
    Times(f64),
    /// 1 for `ok` and `up`, 0 for any other text.
    IsGood,
}

/// A field of INFO and its metric.
#[derive(Debug)]
pub struct Field {
    /// Name in INFO.
    pub info: &'static str,
    /// Name of the metric's family without the prefix and without `_total`.
    pub name: &'static str,
    /// Type of the metric.
    pub kind: Type,
    /// How the field is read.
    pub reading: Reading,
    /// Description of the metric.
    pub help: &'static str,
    /// Name of redis_exporter's metric without its prefix; empty if it has none.
    pub exporter: &'static str,
}

const fn field(
    info: &'static str,
    name: &'static str,
    kind: Type,
    reading: Reading,
    help: &'static str,
    exporter: &'static str,
) -> Field {
    Field {
        info,
        name,
        kind,
        reading,
        help,
        exporter,
    }
}

use Reading::{IsGood, Number, Times};
use Type::{Counter, Gauge};

/// All fields that are exported, in the order of the page.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field("server_time_usec", "server_time_seconds", Gauge, Times(1e-6), "Time of the server's clock since 1970.", ""),
    field("process_id", "process_id", Gauge, Number, "Number of the process.", "process_id"),
    field("uptime_in_seconds", "uptime_seconds", Gauge, Number, "Time since the start.", "uptime_in_seconds"),
    field("data_threads", "data_threads", Gauge, Number, "Number of data threads.", ""),
    field("shards", "shards", Gauge, Number, "Number of shards of the keyspace.", ""),
    field("connected_clients", "connected_clients", Gauge, Number, "Number of connected clients.", "connected_clients"),
    field("maxclients", "max_clients", Gauge, Number, "Maximum number of connected clients.", "max_clients"),
    field("client_recent_max_input_buffer", "client_recent_max_input_buffer_bytes", Gauge, Number, "Largest number of bytes of incomplete commands of a client.", "client_recent_max_input_buffer_bytes"),
    field("client_recent_max_output_buffer", "client_recent_max_output_buffer_bytes", Gauge, Number, "Largest number of bytes of unsent replies of a client.", "client_recent_max_output_buffer_bytes"),
    field("blocked_clients", "blocked_clients", Gauge, Number, "Number of clients that a command or a pause blocks.", "blocked_clients"),
    field("tracking_clients", "tracking_clients", Gauge, Number, "Number of clients that cache keys (CLIENT TRACKING).", "tracking_clients"),
    field("long_command_waiting_clients", "long_command_waiting_clients", Gauge, Number, "Number of clients that wait for a long command.", ""),
    field("pubsub_clients", "pubsub_clients", Gauge, Number, "Number of clients with subscriptions.", "pubsub_clients"),
    field("watching_clients", "watching_clients", Gauge, Number, "Number of clients that watch keys.", "watching_clients"),
    field("clients_in_timeout_table", "clients_in_timeout_table", Gauge, Number, "Number of blocked clients with a timeout.", "clients_in_timeout_table"),
    field("total_watched_keys", "watched_keys", Gauge, Number, "Number of keys that clients watch.", "total_watched_keys"),
    field("total_blocking_keys", "blocking_keys", Gauge, Number, "Number of keys on which clients are blocked.", "total_blocking_keys"),
    field("no_evict_clients", "no_evict_clients", Gauge, Number, "Number of clients that are never disconnected for lack of memory.", ""),
    field("used_memory", "memory_used_bytes", Gauge, Number, "Memory of entries, indexes and clients.", "memory_used_bytes"),
    field("used_memory_rss", "memory_used_rss_bytes", Gauge, Number, "Resident memory of the process.", "memory_used_rss_bytes"),
    field("used_memory_peak", "memory_used_peak_bytes", Gauge, Number, "Highest memory in use that was observed.", "memory_used_peak_bytes"),
    field("used_memory_overhead", "memory_used_overhead_bytes", Gauge, Number, "Memory in use beside entries.", "memory_used_overhead_bytes"),
    field("used_memory_dataset", "memory_used_dataset_bytes", Gauge, Number, "Memory of entries: keys and values.", "memory_used_dataset_bytes"),
    field("used_memory_table", "memory_used_table_bytes", Gauge, Number, "Memory of the hash tables.", ""),
    field("used_memory_policy", "memory_used_policy_bytes", Gauge, Number, "Memory of the eviction policy.", ""),
    field("used_memory_expiry", "memory_used_expiry_bytes", Gauge, Number, "Memory of the expiry index.", ""),
    field("used_memory_buffers", "memory_used_clients_bytes", Gauge, Number, "Memory of clients: buffers, subscriptions, watched keys.", "mem_clients_normal"),
    field("used_memory_arena_free", "memory_arena_free_bytes", Gauge, Number, "Free memory inside the arenas, which is reused first.", ""),
    field("total_system_memory", "system_memory_bytes", Gauge, Number, "Memory of the machine.", "total_system_memory_bytes"),
    field("memory_limit", "memory_limit_bytes", Gauge, Number, "Memory that the container or machine grants.", ""),
    field("used_memory_lua", "memory_used_lua_bytes", Gauge, Number, "Memory of the interpreters of scripts.", "memory_used_lua_bytes"),
    field("used_memory_scripts", "memory_used_scripts_bytes", Gauge, Number, "Memory of cached scripts.", "memory_used_scripts_bytes"),
    field("number_of_cached_scripts", "number_of_cached_scripts", Gauge, Number, "Number of cached scripts.", "number_of_cached_scripts"),
    field("number_of_functions", "number_of_functions", Gauge, Number, "Number of functions in libraries.", "number_of_functions"),
    field("number_of_libraries", "number_of_libraries", Gauge, Number, "Number of function libraries.", "number_of_libraries"),
    field("maxmemory", "memory_max_bytes", Gauge, Number, "Limit of the memory in use; 0 means none.", "memory_max_bytes"),
    field("mem_fragmentation_ratio", "mem_fragmentation_ratio", Gauge, Number, "Resident memory divided by the memory in use.", "mem_fragmentation_ratio"),
    field("lazyfree_pending_objects", "lazyfree_pending_objects", Gauge, Number, "Number of large values and flushed keys that wait to be freed.", "lazyfree_pending_objects"),
    field("lazyfreed_objects", "lazyfreed_objects", Counter, Number, "Number of large values and flushed keys that were freed in the background.", "lazyfreed_objects"),
    field("loading", "loading_dump_file", Gauge, Number, "Whether a snapshot file is being loaded.", "loading_dump_file"),
    field("current_cow_peak", "snapshot_queued_peak_bytes", Gauge, Number, "Highest number of bytes queued for the present snapshot.", "current_cow_peak"),
    field("current_cow_size", "snapshot_queued_bytes", Gauge, Number, "Number of bytes queued for the present snapshot.", "current_cow_size"),
    field("rdb_changes_since_last_save", "rdb_changes_since_last_save", Gauge, Number, "Number of changes since the last snapshot.", "rdb_changes_since_last_save"),
    field("rdb_bgsave_in_progress", "rdb_bgsave_in_progress", Gauge, Number, "Whether a snapshot is in progress.", "rdb_bgsave_in_progress"),
    field("rdb_last_save_time", "rdb_last_save_timestamp_seconds", Gauge, Number, "Time of the last snapshot, at first of the start.", "rdb_last_save_timestamp_seconds"),
    field("rdb_last_bgsave_status", "rdb_last_bgsave_status", Gauge, IsGood, "Whether the last snapshot was written.", "rdb_last_bgsave_status"),
    field("rdb_last_bgsave_time_sec", "rdb_last_bgsave_duration_seconds", Gauge, Number, "Duration of the last snapshot; -1 without one.", "rdb_last_bgsave_duration_sec"),
    field("rdb_current_bgsave_time_sec", "rdb_current_bgsave_duration_seconds", Gauge, Number, "Duration of the present snapshot until now; -1 without one.", "rdb_current_bgsave_duration_sec"),
    field("rdb_saves", "rdb_saves", Counter, Number, "Number of complete snapshots.", "rdb_saves_total"),
    field("rdb_last_cow_size", "rdb_last_cow_size_bytes", Gauge, Number, "Highest number of bytes queued for the last snapshot.", "rdb_last_cow_size_bytes"),
    field("rdb_last_load_keys_expired", "rdb_last_load_expired_keys", Gauge, Number, "Number of keys that had expired before the last load.", "rdb_last_load_expired_keys"),
    field("rdb_last_load_keys_loaded", "rdb_last_load_loaded_keys", Gauge, Number, "Number of keys that the last load has stored.", "rdb_last_load_loaded_keys"),
    field("loading_start_time", "loading_start_timestamp_seconds", Gauge, Number, "Start of the present load.", ""),
    field("loading_total_bytes", "loading_total_bytes", Gauge, Number, "Size of the file that is being loaded.", ""),
    field("loading_loaded_bytes", "loading_loaded_bytes", Gauge, Number, "Number of bytes that the present load has read.", ""),
    field("loading_rdb_used_mem", "loading_memory_bytes", Gauge, Number, "Memory in use when the file was written that is being loaded.", ""),
    field("loading_eta_seconds", "loading_eta_seconds", Gauge, Number, "Estimated time until the present load ends.", ""),
    field("total_connections_received", "connections_received", Counter, Number, "Number of accepted connections.", "connections_received_total"),
    field("total_commands_processed", "commands_processed", Counter, Number, "Number of executed commands and memcached requests.", "commands_processed_total"),
    field("long_commands", "long_commands", Counter, Number, "Number of commands that ran beside other clients' commands.", ""),
    field("long_commands_running", "long_commands_running", Gauge, Number, "Whether a long command is running.", ""),
    field("instantaneous_ops_per_sec", "instantaneous_ops_per_second", Gauge, Number, "Commands per second in the last 1.6 seconds.", "instantaneous_ops_per_sec"),
    field("total_net_input_bytes", "net_input_bytes", Counter, Number, "Number of bytes received from clients.", "net_input_bytes_total"),
    field("total_net_output_bytes", "net_output_bytes", Counter, Number, "Number of bytes sent to clients.", "net_output_bytes_total"),
    field("rejected_connections", "rejected_connections", Counter, Number, "Number of connections refused because of maxclients or protected mode.", "rejected_connections_total"),
    field("expired_keys", "expired_keys", Counter, Number, "Number of expired keys that were removed.", "expired_keys_total"),
    field("expired_subkeys", "expired_subkeys", Counter, Number, "Number of expired fields, members and entries that were removed.", "expired_subkeys_total"),
    field("expire_cycle_cpu_milliseconds", "expire_cycle_cpu_seconds", Counter, Times(1e-3), "Time spent on removing expired keys in the background.", "expire_cycle_cpu_time_ms_total"),
    field("evicted_keys", "evicted_keys", Counter, Number, "Number of keys evicted because memory was full.", "evicted_keys_total"),
    field("evicted_clients", "evicted_clients", Counter, Number, "Number of clients disconnected because of maxmemory-clients.", "evicted_clients_total"),
    field("evicted_scripts", "evicted_scripts", Counter, Number, "Number of scripts that left the cache of scripts.", "evicted_scripts_total"),
    field("expired_keys_active", "expired_keys_active", Counter, Number, "Number of expired keys that were removed in the background, without an access.", "expired_keys_active_total"),
    field("eventloop_duration_cmd_sum", "eventloop_commands_seconds", Counter, Times(1e-6), "Time spent in commands.", "eventloop_duration_cmd_sum"),
    field("instantaneous_eventloop_cycles_per_sec", "eventloop_cycles_per_second", Gauge, Number, "Iterations of the event loops per second in the last 1.6 seconds.", "instantaneous_eventloop_cycles_per_sec"),
    field("used_memory_peak_time", "memory_used_peak_timestamp_seconds", Gauge, Number, "Time at which the highest memory in use was observed.", ""),
    field("used_memory_functions", "memory_used_functions_bytes", Gauge, Number, "Memory of the code of function libraries.", "memory_used_functions_bytes"),
    field("used_cpu_sys_main_thread", "cpu_sys_first_thread_seconds", Counter, Number, "CPU time of the first data thread in system mode.", "cpu_sys_main_thread_seconds_total"),
    field("used_cpu_user_main_thread", "cpu_user_first_thread_seconds", Counter, Number, "CPU time of the first data thread in user mode.", "cpu_user_main_thread_seconds_total"),
    field("acl_access_denied_tls_cert", "acl_access_denied_tls_cert", Counter, Number, "Number of client certificates that name no enabled user.", ""),
    field("keyspace_hits", "keyspace_hits", Counter, Number, "Number of reads that found a key.", "keyspace_hits_total"),
    field("keyspace_misses", "keyspace_misses", Counter, Number, "Number of reads that found no key.", "keyspace_misses_total"),
    field("keyspace_expiration_misses", "keyspace_expiration_misses", Counter, Number, "Number of misses whose key was present and had expired.", ""),
    field("pubsub_channels", "pubsub_channels", Gauge, Number, "Number of channels with subscribers.", "pubsub_channels"),
    field("pubsub_patterns", "pubsub_patterns", Gauge, Number, "Number of patterns with subscribers.", "pubsub_patterns"),
    field("pubsubshard_channels", "pubsubshard_channels", Gauge, Number, "Number of shard channels with subscribers.", "pubsubshard_channels"),
    field("tracking_total_keys", "tracking_keys", Gauge, Number, "Number of keys that clients cache.", "tracking_total_keys"),
    field("tracking_total_items", "tracking_items", Gauge, Number, "Number of pairs of a key and a client that caches it.", "tracking_total_items"),
    field("tracking_total_prefixes", "tracking_prefixes", Gauge, Number, "Number of prefixes that clients track.", "tracking_total_prefixes"),
    field("unknown_commands", "unknown_commands", Counter, Number, "Number of requests for commands that do not exist.", ""),
    field("total_error_replies", "error_replies", Counter, Number, "Number of error replies.", "total_error_replies"),
    field("total_reads_processed", "reads_processed", Counter, Number, "Number of reads from sockets.", "total_reads_processed"),
    field("total_writes_processed", "writes_processed", Counter, Number, "Number of writes to sockets.", "total_writes_processed"),
    field("eventloop_cycles", "eventloop_cycles", Counter, Number, "Number of iterations of the event loops.", "eventloop_cycles"),
    field("client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections", Counter, Number, "Number of clients disconnected because of client-query-buffer-limit.", "client_query_buffer_limit_disconnections_total"),
    field("client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections", Counter, Number, "Number of clients disconnected because of client-output-buffer-limit.", "client_output_buffer_limit_disconnections_total"),
    field("client_allocation_failure_disconnections", "client_allocation_failure_disconnections", Counter, Number, "Number of clients disconnected because their buffers could not be allocated.", ""),
    field("acl_access_denied_auth", "acl_access_denied_auth", Counter, Number, "Number of failed authentications.", "acl_access_denied_auth_total"),
    field("acl_access_denied_cmd", "acl_access_denied_cmd", Counter, Number, "Number of commands refused for the rights of the user.", "acl_access_denied_cmd_total"),
    field("acl_access_denied_key", "acl_access_denied_key", Counter, Number, "Number of accesses to keys refused for the rights of the user.", "acl_access_denied_key_total"),
    field("acl_access_denied_channel", "acl_access_denied_channel", Counter, Number, "Number of accesses to channels refused for the rights of the user.", "acl_access_denied_channel_total"),
    field("connected_slaves", "connected_slaves", Gauge, Number, "Number of connected replicas.", "connected_slaves"),
    field("used_cpu_sys", "cpu_sys_seconds", Counter, Number, "CPU time in system mode.", "cpu_sys_seconds_total"),
    field("used_cpu_user", "cpu_user_seconds", Counter, Number, "CPU time in user mode.", "cpu_user_seconds_total"),
    field("expiry_granularity_ms", "expiry_granularity_seconds", Gauge, Times(1e-3), "Time by which the expiry index may return a key too late.", ""),
    field("keys_with_ttl", "keys_with_ttl", Gauge, Number, "Number of keys with a deadline of their own.", ""),
    field("expired_backlog_keys", "expired_backlog_keys", Gauge, Number, "Upper bound of the number of expired keys that are not removed yet.", ""),
    field("expired_backlog_bytes", "expired_backlog_bytes", Gauge, Number, "Estimated memory of these keys.", ""),
    field("expiry_lag_us_max", "expiry_lag_max_seconds", Gauge, Times(1e-6), "Longest time from a deadline to the removal of the key.", ""),
    field("expired_per_second", "expired_keys_per_second", Gauge, Number, "Expired keys per second in the last 1.6 seconds.", ""),
    field("expiry_slice_us_max", "expiry_slice_max_seconds", Gauge, Times(1e-6), "Longest single run of the removal of expired keys.", ""),
    field("segment_bytes", "segment_size_bytes", Gauge, Number, "Size of a segment.", ""),
    field("segments_held", "segments_held", Gauge, Number, "Number of segments that hold objects.", ""),
    field("segments_free", "segments_free", Gauge, Number, "Number of free segments.", ""),
    field("segments_table", "segments_table", Gauge, Number, "Number of segments that hold the hash table.", ""),
    field("objects", "segment_objects", Gauge, Number, "Number of objects in segments.", ""),
    field("object_bytes", "segment_object_bytes", Gauge, Number, "Bytes of objects that can be found.", ""),
    field("object_bytes_appended", "segment_appended_bytes", Gauge, Number, "Bytes of segments taken by objects, including removed ones.", ""),
    field("table_chains", "segment_table_chains", Gauge, Number, "Number of chains of the hash table.", ""),
    field("table_lines", "segment_table_lines", Gauge, Number, "Number of cache lines of the hash table in use.", ""),
    field("directory_bytes", "segment_directory_bytes", Gauge, Number, "Bytes of directories, headers and writers.", ""),
    field("taken_bytes", "segment_taken_bytes", Gauge, Number, "Bytes taken from the system.", ""),
    field("objects_expired", "segment_objects_expired", Counter, Number, "Number of objects removed because their deadline had passed.", ""),
    field("objects_evicted", "segment_objects_evicted", Counter, Number, "Number of evicted objects.", ""),
    field("objects_flushed", "segment_objects_flushed", Counter, Number, "Number of objects removed by a flush.", ""),
    field("objects_kept", "segment_objects_kept", Counter, Number, "Number of objects kept by merges.", ""),
    field("objects_crowded_out", "segment_objects_crowded_out", Counter, Number, "Number of objects dropped because their chain of the hash table was full.", ""),
    field("merges", "segment_merges", Counter, Number, "Number of merges of segments.", ""),
    field("segments_evicted", "segments_evicted", Counter, Number, "Number of evicted segments.", ""),
    field("segments_expired", "segments_expired", Counter, Number, "Number of segments removed because their deadline had passed.", ""),
    field("expiry_scans", "segment_expiry_scans", Counter, Number, "Number of searches for expired segments.", ""),
    field("expiry_heads_read", "segment_expiry_heads_read", Counter, Number, "Number of segments that these searches have examined.", ""),
    field("learning_model_age_seconds", "learning_model_age_seconds", Gauge, Number, "Age of the learned model; -1 without one.", ""),
    field("learning_trainings", "learning_trainings", Counter, Number, "Number of trainings.", ""),
    field("learning_failures", "learning_failures", Counter, Number, "Number of failed trainings.", ""),
    field("learning_trainings_postponed", "learning_trainings_postponed", Counter, Number, "Number of trainings that were postponed for lack of time.", ""),
    field("learning_training_samples", "learning_training_samples", Gauge, Number, "Number of samples of the last training.", ""),
    field("learning_rankings", "learning_rankings", Counter, Number, "Number of rankings of segments.", ""),
    field("learning_rankings_postponed", "learning_rankings_postponed", Counter, Number, "Number of rankings that were postponed for lack of time.", ""),
    field("learning_segments_evicted", "learning_segments_evicted", Counter, Number, "Number of segments evicted by a learned ranking.", ""),
    field("learning_bytes", "learning_memory_bytes", Gauge, Number, "Memory of learning.", ""),
    field("learning_cpu_milliseconds", "learning_cpu_seconds", Counter, Times(1e-3), "CPU time of learning.", ""),
];

/// Metrics with labels that redis_exporter has under the same name.
pub const SAME_IN_EXPORTER: &[&str] = &[
    "instance_info",
    "start_time_seconds",
    "db_keys",
    "db_keys_expiring",
    "db_avg_ttl_seconds",
    "commands_total",
    "commands_duration_seconds_total",
    "commands_rejected_calls_total",
    "commands_failed_calls_total",
    "errors_total",
];

/// Fields that are not exported, by reason.
#[rustfmt::skip]
pub const NOT_EXPORTED: &[(&str, &[&str])] = &[
    ("is a text, and a label of mayfly_instance_info", &[
        "redis_version", "mayfly_version", "redis_mode", "os", "role",
        "maxmemory_policy", "engine", "expiry_index",
    ]),
    ("is a text", &[
        "redis_git_sha1", "redis_build_id", "monotonic_clock", "multiplexing_api", "atomicvar_api",
        "process_supervised", "run_id", "executable", "config_file", "mem_allocator",
        "master_failover_state", "master_replid", "master_replid2", "segment_eviction", "learning_state",
        "gcc_version",
    ]),
    ("repeats another field or is in another unit", &[
        "expiry_index_bytes", "uptime_in_days", "lru_clock", "used_memory_human", "used_memory_rss_human",
        "used_memory_peak_human", "used_memory_peak_perc", "used_memory_dataset_perc", "total_system_memory_human", "memory_limit_human",
        "maxmemory_human", "mem_fragmentation_bytes", "mem_clients_normal", "allocator_allocated", "allocator_active",
        "allocator_resident", "used_memory_vm_eval", "used_memory_scripts_eval", "instantaneous_input_kbps", "instantaneous_output_kbps",
        "learning_bytes_per_object", "learning_cpu_percent", "loading_loaded_perc", "used_memory_lua_human", "used_memory_scripts_human",
        "used_memory_vm_total", "used_memory_vm_total_human",
    ]),
    ("is a histogram, see mayfly_expiry_lag_seconds and mayfly_key_ttl_seconds", &[
        "expiry_lag_samples", "expiry_lag_us_p50", "expiry_lag_us_p99", "expiry_lag_us_p999", "ttl_distribution",
        "learning_predicted_by_fifths", "learning_realised_by_fifths",
    ]),
    ("describes a recording of HOTKEYS", &[
        "hotkeys-tracking-active", "hotkeys-cmd-cpu-time",
    ]),
    ("is constant", &[
        "used_memory_vm_functions", "mem_cluster_links", "mem_total_replication_buffers", "mem_overhead_db_hashtable_rehashing", "current_fork_perc",
        "redis_git_dirty", "arch_bits", "hz", "configured_hz", "io_threads_active",
        "cluster_connections", "total_blocking_keys_on_nokey", "used_memory_startup", "allocator_frag_ratio", "allocator_frag_bytes",
        "allocator_rss_ratio", "allocator_rss_bytes", "rss_overhead_ratio", "rss_overhead_bytes", "mem_not_counted_for_evict",
        "mem_replication_backlog", "mem_clients_slaves", "mem_aof_buffer", "active_defrag_running", "async_loading",
        "aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_last_rewrite_time_sec", "aof_current_rewrite_time_sec",
        "aof_last_bgrewrite_status", "aof_last_write_status", "aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size",
        "total_net_repl_input_bytes", "total_net_repl_output_bytes", "instantaneous_input_repl_kbps", "instantaneous_output_repl_kbps", "sync_full",
        "sync_partial_ok", "sync_partial_err", "expired_stale_perc", "expired_time_cap_reached_count", "total_eviction_exceeded_time",
        "current_eviction_exceeded_time", "latest_fork_usec", "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys",
        "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time",
        "current_active_defrag_time", "unexpected_error_replies", "dump_payload_sanitizations", "io_threaded_reads_processed", "io_threaded_writes_processed",
        "reply_buffer_shrinks", "reply_buffer_expands", "master_repl_offset", "second_repl_offset", "repl_backlog_active",
        "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen", "used_cpu_sys_children", "used_cpu_user_children",
        "cluster_enabled", "expiry_width_ms_below_4s", "expiry_width_ms_below_64s", "expiry_width_ms_below_2048s", "expiry_width_ms_below_32768s",
        "expiry_width_ms_below_524288s", "expiry_width_ms_above", "tcp_port",
    ]),
];
