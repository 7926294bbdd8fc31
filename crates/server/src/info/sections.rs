//! Rows of INFO's sections. Fields that clients and exporters read keep Redis's names. A field
//! about a feature that does not exist here has the value that Redis shows when the feature is off.

use super::report::Report;
use super::row::Export::{Label, No};
use super::row::Exporter::{As, Lacks, Same};
use super::row::Reason::{Constant, Distribution, Momentary, Repeats, Text};
use super::row::Value::{self, Decimal, Lines, State};
use super::row::{Row, counter, gauge, row};
use crate::aof::work::buffered_bytes;
use crate::replication::primary;
use crate::supervisor;
use durability::replication::{Phase, PrimaryState, ReplicaState};
use session::acl::log::Reason;
use session::stats::WorkerStats;
use settings::words::NOT_SUPERVISED;
use settings::{Id, bytes_for_people, process, value, version};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[rustfmt::skip]
pub(super) const SERVER: &[Row] = &[
    row("redis_version", |_| version::REDIS_VERSION.into(), Label("redis_version")),
    row("mayfly_version", |_| version::VERSION.into(), Label("version")),
    row("redis_git_sha1", |_| "00000000".into(), No(Text)),
    row("redis_git_dirty", |_| 0.into(), No(Constant)),
    row("redis_build_id", |_| 0.into(), No(Constant)),
    row("redis_mode", |info| if info.server.config.is_cluster() { "cluster" } else { "standalone" }.into(), Label("redis_mode")),
    row("os", |_| process::system_name().into(), Label("os")),
    row("arch_bits", |_| usize::BITS.into(), No(Constant)),
    row("monotonic_clock", |_| "POSIX clock_gettime".into(), No(Text)),
    row("multiplexing_api", |_| "epoll".into(), No(Text)),
    row("atomicvar_api", |_| "c11-builtin".into(), No(Text)),
    row("process_id", |_| std::process::id().into(), gauge("process_id", "Number of the process.", Same)),
    row("process_supervised", |info| if is_supervised(info) { "systemd" } else { "no" }.into(), No(Text)),
    row("run_id", |info| info.server.lifecycle.run_id.as_str().into(), No(Text)),
    row("tcp_port", |info| info.server.network.port.load(Relaxed).into(), Label("tcp_port")),
    row("server_time_usec", |info| info.now_us.into(), gauge("server_time_seconds", "Time of the server's clock since 1970.", Lacks).times(1e-6)),
    row("uptime_in_seconds", |info| info.server.lifecycle.started.elapsed().as_secs().into(), gauge("uptime_seconds", "Time since the start.", As("uptime_in_seconds"))),
    row("uptime_in_days", |info| (info.server.lifecycle.started.elapsed().as_secs() / 86_400).into(), No(Repeats)),
    row("hz", |_| 10.into(), No(Constant)),
    row("configured_hz", |_| 10.into(), No(Constant)),
    row("lru_clock", |info| ((info.now_us / 1_000_000) & 0xff_ffff).into(), No(Repeats)),
    row("executable", |_| std::env::current_exe().unwrap_or_default().display().to_string().into(), No(Text)),
    row("config_file", |info| info.server.config.file().into(), No(Text)),
    row("listener", listeners, No(Text)),
    row("io_threads_active", |info| (info.server.workers.count > 1).into(), No(Repeats)),
    row("data_threads", |info| info.server.workers.count.into(), gauge("data_threads", "Number of data threads.", Lacks)),
    row("shards", |info| info.server.data.keyspace.shard_count().into(), gauge("shards", "Number of shards of the keyspace.", Lacks)),
];

fn is_supervised(info: &Report<'_>) -> bool {
    info.server.config.number(Id::Supervised) != NOT_SUPERVISED && supervisor::socket().is_some()
}

fn listeners(info: &Report<'_>) -> Value {
    let lines = info.server.network.listening.get().into_iter().flatten();
    Lines(numbered(lines.cloned()))
}

/// Gives each text its index as the suffix of its field's name.
fn numbered(texts: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let lines = texts.enumerate();
    lines
        .map(|(index, text)| (index.to_string(), text))
        .collect()
}

#[rustfmt::skip]
pub(super) const CLIENTS: &[Row] = &[
    row("connected_clients", |info| info.server.clients.registry.len().into(), gauge("connected_clients", "Number of connected clients.", Same)),
    row("cluster_connections", |_| 0.into(), No(Constant)),
    row("maxclients", |info| info.server.config.number(Id::MaxClients).into(), gauge("max_clients", "Maximum number of connected clients.", Same)),
    row("client_recent_max_input_buffer", |info| info.clients().input_bytes_max.into(), gauge("client_recent_max_input_buffer_bytes", "Largest number of bytes of incomplete commands of a client.", Same)),
    row("client_recent_max_output_buffer", |info| info.clients().output_bytes_max.into(), gauge("client_recent_max_output_buffer_bytes", "Largest number of bytes of unsent replies of a client.", Same)),
    row("blocked_clients", |info| (info.server.clients.blocking.len() + info.server.clients.held.load(Relaxed) as usize).into(), gauge("blocked_clients", "Number of clients that a command or a pause blocks.", Same)),
    row("tracking_clients", |info| info.server.clients.tracking.counts().0.into(), gauge("tracking_clients", "Number of clients that cache keys (CLIENT TRACKING).", Same)),
    row("long_command_waiting_clients", |info| info.server.workers.long.waiting().into(), gauge("long_command_waiting_clients", "Number of clients that wait for a long command.", Lacks)),
    row("pubsub_clients", |info| info.clients().subscribers.into(), gauge("pubsub_clients", "Number of clients with subscriptions.", Same)),
    row("watching_clients", |info| info.clients().watching.into(), gauge("watching_clients", "Number of clients that watch keys.", Same)),
    row("clients_in_timeout_table", |info| info.server.clients.blocking.with_deadline().into(), gauge("clients_in_timeout_table", "Number of blocked clients with a timeout.", Same)),
    row("total_watched_keys", |info| info.clients().watched_keys.into(), gauge("watched_keys", "Number of keys that clients watch.", As("total_watched_keys"))),
    row("total_blocking_keys", |info| info.waited_keys().into(), gauge("blocking_keys", "Number of keys on which clients are blocked.", As("total_blocking_keys"))),
    row("total_blocking_keys_on_nokey", |info| info.server.clients.blocking.failing_keys().into(), No(Momentary)),
    row("no_evict_clients", |info| info.clients().protected.into(), gauge("no_evict_clients", "Number of clients that are never disconnected for lack of memory.", Lacks)),
];

#[rustfmt::skip]
pub(super) const MEMORY: &[Row] = &[
    row("used_memory", |info| info.memory().used_bytes.into(), gauge("memory_used_bytes", "Memory of entries, indexes and clients.", Same)),
    row("used_memory_human", |info| bytes_for_people(info.memory().used_bytes).into(), No(Repeats)),
    row("used_memory_rss", |info| info.memory().resident_bytes.into(), gauge("memory_used_rss_bytes", "Resident memory of the process.", Same)),
    row("used_memory_rss_human", |info| bytes_for_people(info.memory().resident_bytes).into(), No(Repeats)),
    row("used_memory_peak", |info| info.memory().peak_bytes.into(), gauge("memory_used_peak_bytes", "Highest memory in use that was observed.", Same)),
    row("used_memory_peak_human", |info| bytes_for_people(info.memory().peak_bytes).into(), No(Repeats)),
    row("used_memory_peak_time", |info| info.server.observability.stats.peak_seconds.load(Relaxed).into(), gauge("memory_used_peak_timestamp_seconds", "Time at which the highest memory in use was observed.", Lacks)),
    row("used_memory_peak_perc", |info| percent(info.memory().used_bytes, info.memory().peak_bytes), No(Repeats)),
    row("used_memory_overhead", |info| info.memory().used_bytes.saturating_sub(info.memory().facts.entry_bytes).into(), gauge("memory_used_overhead_bytes", "Memory in use beside entries.", Same)),
    row("used_memory_startup", |_| 0.into(), No(Constant)),
    row("used_memory_dataset", |info| info.memory().facts.entry_bytes.into(), gauge("memory_used_dataset_bytes", "Memory of entries: keys and values.", Same)),
    row("used_memory_dataset_perc", |info| percent(info.memory().facts.entry_bytes, info.memory().used_bytes), No(Repeats)),
    row("used_memory_table", |info| info.memory().facts.table_bytes.into(), gauge("memory_used_table_bytes", "Memory of the hash tables.", Lacks)),
    row("used_memory_policy", |info| info.memory().facts.policy_bytes.into(), gauge("memory_used_policy_bytes", "Memory of the eviction policy.", Lacks)),
    row("used_memory_expiry", |info| info.memory().facts.expiry_bytes.into(), gauge("memory_used_expiry_bytes", "Memory of the expiry index.", Lacks)),
    row("used_memory_tags", |info| info.memory().facts.tag_bytes.into(), gauge("memory_used_tags_bytes", "Memory of the names of tags and of the lists of their keys.", Lacks)),
    row("used_memory_classes", |info| info.memory().facts.class_bytes.into(), gauge("memory_used_classes_bytes", "Memory of the statistics of classes.", Lacks)),
    row("used_memory_buffers", |info| info.memory().client_bytes.into(), gauge("memory_used_clients_bytes", "Memory of clients: buffers, subscriptions, watched keys.", As("mem_clients_normal"))),
    row("used_memory_arena_free", |info| info.memory().facts.arena_free_bytes.into(), gauge("memory_arena_free_bytes", "Free memory inside the arenas, which is reused first.", Lacks)),
    row("allocator_allocated", |info| info.memory().used_bytes.into(), No(Repeats)),
    row("allocator_active", |info| info.memory().resident_bytes.into(), No(Repeats)),
    row("allocator_resident", |info| info.memory().resident_bytes.into(), No(Repeats)),
    row("total_system_memory", |_| process::machine_bytes().into(), gauge("system_memory_bytes", "Memory of the machine.", As("total_system_memory_bytes"))),
    row("total_system_memory_human", |_| bytes_for_people(process::machine_bytes()).into(), No(Repeats)),
    row("memory_limit", |info| info.server.config.memory_limit().into(), gauge("memory_limit_bytes", "Memory that the container or machine grants.", Lacks)),
    row("memory_limit_human", |info| bytes_for_people(info.server.config.memory_limit()).into(), No(Repeats)),
    row("used_memory_lua", |info| info.server.scripting.vm_bytes().into(), gauge("memory_used_lua_bytes", "Memory of the interpreters of scripts.", Same)),
    row("used_memory_lua_human", |info| bytes_for_people(info.server.scripting.vm_bytes()).into(), No(Repeats)),
    row("used_memory_vm_eval", |info| info.server.scripting.vm_bytes().into(), No(Repeats)),
    row("used_memory_vm_functions", |_| 0.into(), No(Constant)),
    row("used_memory_vm_total", |info| info.server.scripting.vm_bytes().into(), No(Repeats)),
    row("used_memory_vm_total_human", |info| bytes_for_people(info.server.scripting.vm_bytes()).into(), No(Repeats)),
    row("used_memory_scripts_eval", |info| info.server.scripting.cache.facts().bytes.into(), No(Repeats)),
    row("used_memory_functions", |info| library_bytes(info).into(), gauge("memory_used_functions_bytes", "Memory of the code of function libraries.", Same)),
    row("used_memory_scripts", |info| script_bytes(info).into(), gauge("memory_used_scripts_bytes", "Memory of cached scripts.", Same)),
    row("used_memory_scripts_human", |info| bytes_for_people(script_bytes(info)).into(), No(Repeats)),
    row("number_of_cached_scripts", |info| info.server.scripting.cache.facts().count.into(), gauge("number_of_cached_scripts", "Number of cached scripts.", Same)),
    row("number_of_functions", |info| info.server.scripting.libraries.all().values().map(|library| library.functions.len()).sum::<usize>().into(), gauge("number_of_functions", "Number of functions in libraries.", Same)),
    row("number_of_libraries", |info| info.server.scripting.libraries.all().len().into(), gauge("number_of_libraries", "Number of function libraries.", Same)),
    row("maxmemory", |info| info.server.config.maxmemory_bytes().into(), gauge("memory_max_bytes", "Limit of the memory in use; 0 means none.", Same)),
    row("maxmemory_human", |info| bytes_for_people(info.server.config.maxmemory_bytes()).into(), No(Repeats)),
    row("maxmemory_policy", |info| info.server.data.engine().eviction_name(&info.server.config).into(), Label("maxmemory_policy")),
    row("mem_fragmentation_ratio", |info| Decimal(info.memory().resident_bytes as f64 / info.memory().used_bytes.max(1) as f64, 2), gauge("mem_fragmentation_ratio", "Resident memory divided by the memory in use.", Same)),
    row("mem_fragmentation_bytes", |info| (info.memory().resident_bytes as i64 - info.memory().used_bytes as i64).into(), No(Repeats)),
    // The next six need the allocator's own counters, which are not read.
    row("allocator_frag_ratio", |_| "1.00".into(), No(Constant)),
    row("allocator_frag_bytes", |_| 0.into(), No(Constant)),
    row("allocator_rss_ratio", |_| "1.00".into(), No(Constant)),
    row("allocator_rss_bytes", |_| 0.into(), No(Constant)),
    row("rss_overhead_ratio", |_| "1.00".into(), No(Constant)),
    row("rss_overhead_bytes", |_| 0.into(), No(Constant)),
    row("mem_not_counted_for_evict", |_| 0.into(), No(Constant)),
    row("mem_replication_backlog", |info| info.server.feed.kept().1.into(), gauge("replication_backlog_memory_bytes", "Memory of the feed that is kept for replicas and files.", As("mem_replication_backlog"))),
    row("mem_clients_slaves", |_| 0.into(), No(Constant)),
    row("mem_clients_normal", |info| info.memory().client_bytes.into(), No(Repeats)),
    row("mem_aof_buffer", |info| buffered_bytes(&info.server.feed).into(), No(Repeats)),
    row("mem_cluster_links", |_| 0.into(), No(Constant)),
    row("mem_total_replication_buffers", |info| info.server.feed.kept().1.into(), No(Repeats)),
    row("mem_overhead_db_hashtable_rehashing", |_| 0.into(), No(Constant)),
    row("mem_allocator", |_| process::allocator().into(), No(Text)),
    row("active_defrag_running", |_| 0.into(), No(Constant)),
    row("lazyfree_pending_objects", |info| info.memory().facts.pending_objects.into(), gauge("lazyfree_pending_objects", "Number of large values and flushed keys that wait to be freed.", Same)),
    row("lazyfree_pending_bytes", |info| info.memory().facts.pending_bytes.into(), gauge("lazyfree_pending_bytes", "Bytes of values and flushed databases that wait to be freed. They are part of used_memory.", Same)),
    row("lazyfreed_objects", |info| info.counters().dropped_objects.into(), counter("lazyfreed_objects", "Number of large values and flushed keys that were freed in the background.", As("lazyfreed_objects"))),
];

fn percent(part: u64, whole: u64) -> Value {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64).into()
}

fn library_bytes(info: &Report<'_>) -> usize {
    let libraries = info.server.scripting.libraries.all();
    libraries.values().map(|library| library.code.len()).sum()
}

fn script_bytes(info: &Report<'_>) -> u64 {
    (info.server.scripting.cache.facts().bytes + library_bytes(info)) as u64
}

#[rustfmt::skip]
pub(super) const PERSISTENCE: &[Row] = &[
    row("loading", |info| info.server.persistence.loading.is_on().into(), gauge("loading_dump_file", "Whether a snapshot file is being loaded.", Same)),
    row("async_loading", |_| 0.into(), No(Constant)),
    row("current_cow_peak", |info| info.saving().queued_peak_bytes.into(), gauge("snapshot_queued_peak_bytes", "Highest number of bytes queued for the present snapshot.", As("current_cow_peak"))),
    row("current_cow_size", |info| info.saving().queued_bytes.into(), gauge("snapshot_queued_bytes", "Number of bytes queued for the present snapshot.", As("current_cow_size"))),
    row("rdb_changes_since_last_save", |info| info.saving().changes.into(), gauge("rdb_changes_since_last_save", "Number of changes since the last snapshot.", Same)),
    row("rdb_bgsave_in_progress", |info| info.saving().is_in_progress.into(), gauge("rdb_bgsave_in_progress", "Whether a snapshot is in progress.", Same)),
    row("rdb_last_save_time", |info| info.saving().last_save.into(), gauge("rdb_last_save_timestamp_seconds", "Time of the last snapshot, at first of the start.", Same)),
    row("rdb_last_bgsave_status", |info| status(info.saving().has_failed), gauge("rdb_last_bgsave_status", "Whether the last snapshot was written.", Same)),
    row("rdb_last_bgsave_time_sec", |info| seconds(info.saving().last_took), gauge("rdb_last_bgsave_duration_seconds", "Duration of the last snapshot; -1 without one.", As("rdb_last_bgsave_duration_sec"))),
    row("rdb_current_bgsave_time_sec", |info| seconds(info.saving().current), gauge("rdb_current_bgsave_duration_seconds", "Duration of the present snapshot until now; -1 without one.", As("rdb_current_bgsave_duration_sec"))),
    row("current_fork_perc", |_| "0.00".into(), No(Constant)),
    row("rdb_saves", |info| info.saving().saves.into(), counter("rdb_saves", "Number of complete snapshots.", Same)),
    row("rdb_last_cow_size", |info| info.saving().last_peak_bytes.into(), gauge("rdb_last_cow_size_bytes", "Highest number of bytes queued for the last snapshot.", Same)),
    row("rdb_last_load_keys_expired", |info| info.server.persistence.loading.expired.load(Relaxed).into(), gauge("rdb_last_load_expired_keys", "Number of keys that had expired before the last load.", Same)),
    row("rdb_last_load_keys_loaded", |info| info.server.persistence.loading.keys.load(Relaxed).into(), gauge("rdb_last_load_loaded_keys", "Number of keys that the last load has stored.", Same)),
    row("rdb_last_load_keys_empty", |info| info.server.persistence.loading.empty.load(Relaxed).into(), gauge("rdb_last_load_empty_keys", "Number of keys that the last load has skipped, because their collections have no elements.", Lacks)),
    row("aof_enabled", |info| info.aof().is_on.into(), gauge("aof_enabled", "Whether the append-only file is on.", Same)),
    row("aof_rewrite_in_progress", |info| info.aof().is_rewriting.into(), gauge("aof_rewrite_in_progress", "Whether the append-only file is being rewritten.", Same)),
    row("aof_rewrite_scheduled", |info| info.aof().is_scheduled.into(), gauge("aof_rewrite_scheduled", "Whether a rewrite of the append-only file follows the present snapshot.", Same)),
    row("aof_last_rewrite_time_sec", |info| seconds(info.aof().last_took), gauge("aof_last_rewrite_duration_seconds", "Duration of the last rewrite; -1 without one.", As("aof_last_rewrite_duration_sec"))),
    row("aof_current_rewrite_time_sec", |info| seconds(info.aof().current), gauge("aof_current_rewrite_duration_seconds", "Duration of the present rewrite until now; -1 without one.", As("aof_current_rewrite_duration_sec"))),
    row("aof_last_bgrewrite_status", |info| status(info.aof().has_rewrite_failed), gauge("aof_last_bgrewrite_status", "Whether the last rewrite was written.", Same)),
    row("aof_rewrites", |info| info.aof().rewrites.into(), counter("aof_rewrites", "Number of rewrites of the append-only file.", As("aof_rewrites"))),
    row("aof_last_write_status", |info| status(info.aof().has_write_failed), gauge("aof_last_write_status", "Whether the last write to the append-only file succeeded.", Same)),
    row("feed_split_steps", |info| info.server.feed.parts().into(), counter("feed_split_steps", "Number of parts in which transactions and scripts of more than 32 MiB of effects were written to the file and to replicas.", Lacks)),
    row("aof_last_cow_size", |_| 0.into(), No(Constant)),
    row("module_fork_in_progress", |_| 0.into(), No(Constant)),
    row("module_fork_last_cow_size", |_| 0.into(), No(Constant)),
    // The next six are present while the file is on.
    row("aof_current_size", |info| info.aof().is_on.then_some(info.aof().current_bytes).into(), gauge("aof_current_size_bytes", "Size of the append-only file.", Same)),
    row("aof_base_size", |info| info.aof().is_on.then_some(info.aof().base_bytes).into(), gauge("aof_base_size_bytes", "Size of the append-only file after its last rewrite.", Same)),
    row("aof_pending_rewrite", |info| info.aof().is_on.then_some(0).into(), No(Constant)),
    row("aof_buffer_length", |info| info.aof().is_on.then(|| buffered_bytes(&info.server.feed)).into(), gauge("aof_buffer_bytes", "Number of bytes that wait to be written to the append-only file.", As("aof_buffer_length"))),
    row("aof_pending_bio_fsync", |info| info.aof().is_on.then_some(0).into(), No(Constant)),
    row("aof_delayed_fsync", |info| info.aof().is_on.then_some(info.aof().delayed_syncs).into(), counter("aof_delayed_fsyncs", "Number of synchronizations of the append-only file that were late.", As("aof_delayed_fsync"))),
    // The next six are present during a load.
    row("loading_start_time", |info| info.load().map(|load| load.started).into(), gauge("loading_start_timestamp_seconds", "Start of the present load.", Lacks)),
    row("loading_total_bytes", |info| info.load().map(|load| load.total_bytes).into(), gauge("loading_total_bytes", "Size of the file that is being loaded.", Lacks)),
    row("loading_rdb_used_mem", |info| info.load().map(|_| info.server.persistence.loading.used_bytes.load(Relaxed)).into(), gauge("loading_memory_bytes", "Memory in use when the file was written that is being loaded.", Lacks)),
    row("loading_loaded_bytes", |info| info.load().map(|load| load.loaded_bytes).into(), gauge("loading_loaded_bytes", "Number of bytes that the present load has read.", Lacks)),
    row("loading_loaded_perc", |info| info.load().map_or(Value::Absent, |load| Decimal(load.percent(), 2)), No(Repeats)),
    row("loading_eta_seconds", |info| info.load().map(|load| load.seconds_left(info.now_us)).into(), gauge("loading_eta_seconds", "Estimated time until the present load ends.", Lacks)),
];

/// Whole seconds, or −1.
fn seconds(span: Option<Duration>) -> Value {
    span.map_or(-1, |span| span.as_secs() as i64).into()
}

fn status(has_failed: bool) -> Value {
    State(if has_failed { "err" } else { "ok" }, !has_failed)
}

#[rustfmt::skip]
pub(super) const STATS: &[Row] = &[
    row("total_connections_received", |info| info.server.observability.stats.connections_received.load(Relaxed).into(), counter("connections_received", "Number of accepted connections.", Same)),
    row("total_commands_processed", |info| info.server.observability.stats.commands_processed().into(), counter("commands_processed", "Number of executed commands and memcached requests.", Same)),
    row("long_commands", |info| info.server.workers.long.count.load(Relaxed).into(), counter("long_commands", "Number of commands that ran beside other clients' commands.", Lacks)),
    row("long_commands_running", |info| info.server.workers.long.is_running().into(), gauge("long_commands_running", "Whether a long command is running.", Lacks)),
    row("instantaneous_ops_per_sec", |info| info.rates().commands.into(), gauge("instantaneous_ops_per_second", "Commands per second in the last 1.6 seconds.", As("instantaneous_ops_per_sec"))),
    row("total_net_input_bytes", |info| (info.sum(|worker| &worker.input_bytes) + info.server.replication.input_bytes.load(Relaxed)).into(), counter("net_input_bytes", "Number of bytes received from clients.", Same)),
    row("total_net_output_bytes", |info| info.sum(|worker| &worker.output_bytes).into(), counter("net_output_bytes", "Number of bytes sent to clients.", Same)),
    row("total_net_repl_input_bytes", |info| info.server.replication.input_bytes.load(Relaxed).into(), counter("net_repl_input_bytes", "Number of bytes received from primaries.", Same)),
    row("total_net_repl_output_bytes", |info| info.server.replication.output_bytes.load(Relaxed).into(), counter("net_repl_output_bytes", "Number of bytes sent to replicas.", Same)),
    row("instantaneous_input_kbps", |info| kilobytes(info.rates().input_bytes), No(Repeats)),
    row("instantaneous_output_kbps", |info| kilobytes(info.rates().output_bytes), No(Repeats)),
    row("instantaneous_input_repl_kbps", |_| "0.00".into(), No(Constant)),
    row("instantaneous_output_repl_kbps", |_| "0.00".into(), No(Constant)),
    row("rejected_connections", |info| info.server.observability.stats.connections_rejected.load(Relaxed).into(), counter("rejected_connections", "Number of connections refused because of maxclients or protected mode.", Same)),
    row("sync_full", |info| info.server.replication.full_syncs.load(Relaxed).into(), counter("replica_resyncs_full", "Number of full synchronizations of replicas.", As("replica_resyncs_full"))),
    row("sync_partial_ok", |info| info.server.replication.partial_syncs.load(Relaxed).into(), counter("replica_partial_resyncs_accepted", "Number of partial synchronizations of replicas.", As("replica_partial_resync_accepted"))),
    row("sync_partial_err", |info| info.server.replication.refused_syncs.load(Relaxed).into(), counter("replica_partial_resyncs_denied", "Number of partial synchronizations that were not possible.", As("replica_partial_resync_denied"))),
    row("expired_keys", |info| info.counters().expired_keys.into(), counter("expired_keys", "Number of expired keys that were removed.", Same)),
    row("expired_subkeys", |info| info.counters().expired_elements.into(), counter("expired_subkeys", "Number of expired fields, members and entries that were removed.", Same)),
    row("expired_keys_active", |info| info.sum(|worker| &worker.expired_keys).into(), counter("expired_keys_active", "Number of expired keys that were removed in the background, without an access.", Same)),
    row("expired_stale_perc", |_| "0.00".into(), No(Constant)),
    row("expired_time_cap_reached_count", |_| 0.into(), No(Constant)),
    row("expire_cycle_cpu_milliseconds", |info| (info.sum(|worker| &worker.expiry_micros) / 1000).into(), counter("expire_cycle_cpu_seconds", "Time spent on removing expired keys in the background.", As("expire_cycle_cpu_time_ms_total")).times(1e-3)),
    row("evicted_keys", |info| info.counters().evicted_keys.into(), counter("evicted_keys", "Number of keys evicted because memory was full.", Same)),
    row("invalidated_keys", |info| info.counters().invalidated_keys.into(), counter("invalidated_keys", "Number of keys that were removed because one of their tags was invalidated.", Lacks)),
    row("invalidated_keys_pending", |info| info.tags().invalidated_pairs.into(), gauge("invalidated_keys_pending", "Number of keys with invalidated tags that are hidden and not removed yet, counted once for each tag.", Lacks)),
    row("soft_keys", |info| info.tags().soft_keys.into(), gauge("soft_keys", "Number of keys that become stale before they expire, or that stand for a value that does not exist.", Lacks)),
    row("leases", |info| info.tags().leases.into(), gauge("leases", "Number of leases of keys, among them some that have ended.", Lacks)),
    row("total_leases", |info| info.counters().leases.into(), counter("leases_granted", "Number of leases that clients got.", Lacks)),
    row("displaced_leases", |info| info.counters().displaced_leases.into(), counter("leases_displaced", "Number of leases that ended early because a shard had too many.", Lacks)),
    row("refused_tokens", |info| info.counters().refused_tokens.into(), counter("tokens_refused", "Number of values that were not stored because their token was not valid.", Lacks)),
    row("tags", |info| info.tags().names.into(), gauge("tags", "Number of tags of keys, counted once in each shard in which they have keys.", Lacks)),
    row("tagged_keys", |info| info.tags().pairs.into(), gauge("tagged_keys", "Number of keys with tags, counted once for each tag.", Lacks)),
    row("evicted_clients", |info| info.server.observability.stats.evicted_clients.load(Relaxed).into(), counter("evicted_clients", "Number of clients disconnected because of maxmemory-clients.", Same)),
    row("evicted_scripts", |info| info.server.scripting.cache.facts().evicted.into(), counter("evicted_scripts", "Number of scripts that left the cache of scripts.", Same)),
    row("total_eviction_exceeded_time", |_| 0.into(), No(Constant)),
    row("current_eviction_exceeded_time", |_| 0.into(), No(Constant)),
    row("keyspace_hits", |info| info.counters().hits.into(), counter("keyspace_hits", "Number of reads that found a key.", Same)),
    row("keyspace_misses", |info| info.counters().misses.into(), counter("keyspace_misses", "Number of reads that found no key.", Same)),
    row("keyspace_expiration_misses", |info| info.counters().expiration_misses.into(), counter("keyspace_expiration_misses", "Number of misses whose key was present and had expired.", Lacks)),
    row("pubsub_channels", |info| info.server.clients.pubsub.counts().0.into(), gauge("pubsub_channels", "Number of channels with subscribers.", Same)),
    row("pubsub_patterns", |info| info.server.clients.pubsub.counts().1.into(), gauge("pubsub_patterns", "Number of patterns with subscribers.", Same)),
    row("pubsubshard_channels", |info| info.server.clients.pubsub.counts().2.into(), gauge("pubsubshard_channels", "Number of shard channels with subscribers.", Same)),
    row("latest_fork_usec", |_| 0.into(), No(Constant)),
    row("total_forks", |_| 0.into(), No(Constant)),
    row("migrate_cached_sockets", |_| 0.into(), No(Constant)),
    row("slave_expires_tracked_keys", |_| 0.into(), No(Constant)),
    row("active_defrag_hits", |_| 0.into(), No(Constant)),
    row("active_defrag_misses", |_| 0.into(), No(Constant)),
    row("active_defrag_key_hits", |_| 0.into(), No(Constant)),
    row("active_defrag_key_misses", |_| 0.into(), No(Constant)),
    row("total_active_defrag_time", |_| 0.into(), No(Constant)),
    row("current_active_defrag_time", |_| 0.into(), No(Constant)),
    row("tracking_total_keys", |info| info.tracked_counts().0.into(), gauge("tracking_keys", "Number of keys that clients cache.", As("tracking_total_keys"))),
    row("tracking_total_items", |info| info.tracked_counts().1.into(), gauge("tracking_items", "Number of pairs of a key and a client that caches it.", As("tracking_total_items"))),
    row("tracking_total_prefixes", |info| info.server.clients.tracking.counts().1.into(), gauge("tracking_prefixes", "Number of prefixes that clients track.", As("tracking_total_prefixes"))),
    row("unexpected_error_replies", |info| info.server.replication.refused_commands.load(Relaxed).into(), No(Momentary)),
    row("unknown_commands", |info| info.server.observability.stats.unexpected_commands.load(Relaxed).into(), counter("unknown_commands", "Number of requests for commands that do not exist.", Lacks)),
    row("total_error_replies", |info| info.server.observability.stats.error_replies.load(Relaxed).into(), counter("error_replies", "Number of error replies.", As("total_error_replies"))),
    row("dump_payload_sanitizations", |_| 0.into(), No(Constant)),
    row("total_reads_processed", |info| info.sum(|worker| &worker.reads).into(), counter("reads_processed", "Number of reads from sockets.", As("total_reads_processed"))),
    row("total_writes_processed", |info| info.sum(|worker| &worker.writes).into(), counter("writes_processed", "Number of writes to sockets.", As("total_writes_processed"))),
    row("io_threaded_reads_processed", |_| 0.into(), No(Constant)),
    row("io_threaded_writes_processed", |_| 0.into(), No(Constant)),
    row("eventloop_cycles", |info| info.sum(|worker| &worker.turns).into(), counter("eventloop_cycles", "Number of iterations of the event loops.", As("eventloop_cycles"))),
    row("eventloop_duration_cmd_sum", |info| micros_in_commands(info).into(), counter("eventloop_commands_seconds", "Time spent in commands.", As("eventloop_duration_cmd_sum")).times(1e-6)),
    row("instantaneous_eventloop_cycles_per_sec", |info| info.rates().turns.into(), gauge("eventloop_cycles_per_second", "Iterations of the event loops per second in the last 1.6 seconds.", As("instantaneous_eventloop_cycles_per_sec"))),
    row("client_query_buffer_limit_disconnections", |info| info.server.observability.stats.query_limit_disconnections.load(Relaxed).into(), counter("client_query_buffer_limit_disconnections", "Number of clients disconnected because of client-query-buffer-limit.", Same)),
    row("client_output_buffer_limit_disconnections", |info| info.server.observability.stats.output_limit_disconnections.load(Relaxed).into(), counter("client_output_buffer_limit_disconnections", "Number of clients disconnected because of client-output-buffer-limit.", Same)),
    row("client_allocation_failure_disconnections", |info| info.server.observability.stats.allocation_failure_disconnections.load(Relaxed).into(), counter("client_allocation_failure_disconnections", "Number of clients disconnected because their buffers could not be allocated.", Lacks)),
    row("reply_buffer_shrinks", |_| 0.into(), No(Constant)),
    row("reply_buffer_expands", |_| 0.into(), No(Constant)),
    row("acl_access_denied_auth", |info| info.server.auth.acl.log.count(Reason::Authentication).into(), counter("acl_access_denied_auth", "Number of failed authentications.", Same)),
    row("acl_access_denied_cmd", |info| info.server.auth.acl.log.count(Reason::Command).into(), counter("acl_access_denied_cmd", "Number of commands refused for the rights of the user.", Same)),
    row("acl_access_denied_key", |info| info.server.auth.acl.log.count(Reason::Key).into(), counter("acl_access_denied_key", "Number of accesses to keys refused for the rights of the user.", Same)),
    row("acl_access_denied_channel", |info| info.server.auth.acl.log.count(Reason::Channel).into(), counter("acl_access_denied_channel", "Number of accesses to channels refused for the rights of the user.", Same)),
    row("acl_access_denied_tls_cert", |info| info.server.auth.acl.log.count(Reason::Certificate).into(), counter("acl_access_denied_tls_cert", "Number of client certificates that name no enabled user.", Lacks)),
];

fn kilobytes(bytes: u64) -> Value {
    Decimal(bytes as f64 / 1024.0, 2)
}

fn micros_in_commands(info: &Report<'_>) -> u64 {
    let nanos = |worker: &WorkerStats| -> u64 {
        let commands = worker.commands.iter();
        commands.map(|command| command.nanos.load(Relaxed)).sum()
    };
    info.server
        .observability
        .stats
        .workers
        .iter()
        .map(nanos)
        .sum::<u64>()
        / 1000
}

#[rustfmt::skip]
pub(super) const REPLICATION: &[Row] = &[
    row("role", |info| if info.primary().is_some() { "slave" } else { "master" }.into(), Label("role")),
    // The next rows up to `replica_announced` are those of a replica.
    row("master_host", |info| of_primary(info, |primary| primary.host.as_str().into()), No(Text)),
    row("master_port", |info| of_primary(info, |primary| primary.port.into()), No(Momentary)),
    row("master_link_status", |info| of_primary(info, |primary| State(if primary.is_connected { "up" } else { "down" }, primary.is_connected)), gauge("master_link_up", "Whether the replica is connected to its primary.", Same)),
    row("master_last_io_seconds_ago", |info| of_primary(info, |primary| seconds(primary.is_connected.then(|| primary.last_byte.elapsed()))), gauge("master_last_io_age_seconds", "Time since the last byte from the primary.", As("master_last_io_seconds_ago"))),
    row("master_sync_in_progress", |info| of_primary(info, |primary| primary.is_syncing.into()), gauge("master_sync_in_progress", "Whether a snapshot of the primary is received or loaded.", Same)),
    row("slave_read_repl_offset", |info| info.primary().map(|_| info.server.feed.end()).into(), No(Repeats)),
    row("slave_repl_offset", |info| info.primary().map(|_| info.server.feed.end()).into(), gauge("slave_repl_offset", "Position of the replica in the primary's feed.", Same)),
    row("master_link_down_since_seconds", |info| of_primary(info, |primary| (!primary.is_connected).then(|| primary.down_since.elapsed().as_secs()).into()), gauge("master_link_down_seconds", "Time since the connection to the primary was lost.", Lacks)),
    row("master_link_refused_command", |info| of_primary(info, |primary| primary.refusal.clone().into()), No(Text)),
    row("slave_priority", |info| info.primary().map(|_| info.server.config.number(Id::ReplicaPriority)).into(), gauge("slave_priority", "Rank of the replica for Sentinel.", Same)),
    row("slave_read_only", |info| info.primary().map(|_| info.server.config.is_on(Id::ReplicaReadOnly)).into(), gauge("slave_read_only", "Whether the replica refuses writes of its clients.", Same)),
    row("replica_announced", |info| info.primary().map(|_| 1).into(), No(Constant)),
    row("connected_slaves", |info| info.replicas().len().into(), gauge("connected_slaves", "Number of connected replicas.", Same)),
    row("slave", |info| Lines(numbered(info.replicas().iter().map(describe))), No(Text)),
    row("master_failover_state", failover, No(Text)),
    row("master_replid", |info| info.ids().0.as_str().into(), No(Text)),
    row("master_replid2", |info| info.ids().1.as_ref().map_or("0".repeat(40), |(id, _)| id.clone()).into(), No(Text)),
    row("master_repl_offset", |info| info.server.feed.end().into(), gauge("master_repl_offset", "Position in the feed.", Same)),
    row("second_repl_offset", |info| info.ids().1.as_ref().map_or(-1, |(_, end)| *end as i64 + 1).into(), No(Momentary)),
    row("repl_backlog_active", |info| (info.server.replication.has_replicas() || info.server.replication.is_replica()).into(), gauge("repl_backlog_is_active", "Whether the feed is kept for replicas.", Same)),
    row("repl_backlog_size", |info| primary::backlog_bytes(&info.server.config).into(), gauge("replication_backlog_bytes", "Number of bytes of the feed that are kept for replicas.", Same)),
    row("repl_backlog_first_byte_offset", |info| (info.server.feed.kept().0 + 1).into(), gauge("repl_backlog_first_byte_offset", "Position of the first kept byte.", Same)),
    row("repl_backlog_histlen", |info| info.server.feed.end().saturating_sub(info.server.feed.kept().0).into(), gauge("repl_backlog_history_bytes", "Number of bytes that are kept.", Same)),
];

fn of_primary(info: &Report<'_>, value: fn(&PrimaryState) -> Value) -> Value {
    info.primary().map_or(Value::Absent, value)
}

fn describe(replica: &ReplicaState) -> String {
    let state = match replica.phase {
        Phase::Waits | Phase::Writes(_) => "wait_bgsave",
        Phase::Receives(..) => "send_bulk",
        Phase::Follows => "online",
    };
    format!(
        "ip={},port={},state={state},offset={},lag={}",
        replica.address,
        replica.port,
        replica.acked,
        replica.acked_at.elapsed().as_secs()
    )
}

fn failover(info: &Report<'_>) -> Value {
    match info.server.replication.failover() {
        None => "no-failover".into(),
        Some(failover) if failover.is_proceeding => "failover-in-progress".into(),
        Some(_) => "waiting-for-sync".into(),
    }
}

#[rustfmt::skip]
pub(super) const CPU: &[Row] = &[
    row("used_cpu_sys", |_| Decimal(process::cpu_seconds().1, 6), counter("cpu_sys_seconds", "CPU time in system mode.", Same)),
    row("used_cpu_user", |_| Decimal(process::cpu_seconds().0, 6), counter("cpu_user_seconds", "CPU time in user mode.", Same)),
    row("used_cpu_sys_children", |_| "0.000000".into(), No(Constant)),
    row("used_cpu_user_children", |_| "0.000000".into(), No(Constant)),
    row("used_cpu_sys_main_thread", |info| Decimal(first_thread(info).1, 6), counter("cpu_sys_first_thread_seconds", "CPU time of the first data thread in system mode.", As("cpu_sys_main_thread_seconds_total"))),
    row("used_cpu_user_main_thread", |info| Decimal(first_thread(info).0, 6), counter("cpu_user_first_thread_seconds", "CPU time of the first data thread in user mode.", As("cpu_user_main_thread_seconds_total"))),
];

/// CPU time of the first data thread in user and system mode in seconds.
fn first_thread(info: &Report<'_>) -> (f64, f64) {
    let thread = info.server.observability.stats.workers[0]
        .thread_id
        .load(Relaxed);
    process::thread_cpu_seconds(thread as i32)
}

/// Present if there is a session of HOTKEYS.
#[rustfmt::skip]
pub(super) const HOTKEYS: &[Row] = &[
    row("hotkeys-tracking-active", |info| info.hotkeys().map(|session| session.is_active).into(), No(Momentary)),
    row("hotkeys-cmd-cpu-time", |info| info.hotkeys().map(|session| session.micros).into(), No(Momentary)),
];

#[rustfmt::skip]
pub(super) const THREADS: &[Row] = &[
    row("io_thread_", |info| Lines(numbered(info.server.observability.stats.workers.iter().map(thread))), No(Distribution)),
];

fn thread(worker: &WorkerStats) -> String {
    let clients = worker.connections.load(Relaxed);
    let (reads, writes) = (worker.reads.load(Relaxed), worker.writes.load(Relaxed));
    format!("clients={clients},reads={reads},writes={writes}")
}

#[rustfmt::skip]
pub(super) const COMMAND_STATS: &[Row] = &[
    row("cmdstat_", command_stats, No(Distribution)),
];

fn command_stats(info: &Report<'_>) -> Value {
    let mut lines = Vec::new();
    for (index, name) in info.table.names() {
        let calls = info.sum(|worker| &worker.commands[index].calls);
        let rejected = info.sum(|worker| &worker.commands[index].rejected);
        let failed = info.sum(|worker| &worker.commands[index].failed);
        if calls + rejected + failed == 0 {
            continue;
        }
        let nanos = info.sum(|worker| &worker.commands[index].nanos);
        let mean = nanos as f64 / 1000.0 / calls.max(1) as f64;
        let micros = nanos / 1000;
        let text = format!(
            "calls={calls},usec={micros},usec_per_call={mean:.2},rejected_calls={rejected},failed_calls={failed}"
        );
        lines.push((name.to_owned(), text));
    }
    Lines(lines)
}

#[rustfmt::skip]
pub(super) const ERROR_STATS: &[Row] = &[
    row("errorstat_", error_stats, No(Distribution)),
];

fn error_stats(info: &Report<'_>) -> Value {
    let errors = info.server.observability.stats.errors().into_iter();
    Lines(
        errors
            .map(|(code, count)| (code, format!("count={count}")))
            .collect(),
    )
}

#[rustfmt::skip]
pub(super) const LATENCY_STATS: &[Row] = &[
    row("latency_percentiles_usec_", latency_stats, No(Distribution)),
];

fn latency_stats(info: &Report<'_>) -> Value {
    let text = info.server.config.text(Id::LatencyPercentiles);
    let percentiles = value::percentiles(&text).unwrap_or_default();
    let mut lines = Vec::new();
    for (index, name) in info.table.names() {
        let summary = info.server.observability.stats.latency(index);
        if summary.total == 0 {
            continue;
        }
        let shown: Vec<String> = percentiles
            .iter()
            .map(|share| format!("p{share}={:.3}", summary.percentile(share / 100.0) as f64))
            .collect();
        lines.push((name.to_owned(), shown.join(",")));
    }
    Lines(lines)
}
