//! Writers of INFO's sections. Fields that clients and exporters read keep Redis's names. A field
//! about a feature that does not exist here has the value that Redis shows when the feature is off.

use super::report::Report;
use super::segment;
use crate::acl::log::Reason;
use crate::aof::work::buffered_bytes;
use crate::clients::flag;
use crate::config::words::NOT_SUPERVISED;
use crate::config::{Id, bytes_for_people, value};
use crate::replication::{Phase, PrimaryState, primary};
use crate::stats::WorkerStats;
use crate::{process, supervisor};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::{Kind, Tick};

pub(super) fn server(report: &mut Report<'_>) {
    let server = report.server;
    report.field("redis_version", crate::version::REDIS_VERSION);
    report.field("mayfly_version", crate::version::VERSION);
    report.field("redis_git_sha1", "00000000");
    report.field("redis_git_dirty", 0);
    report.field("redis_build_id", 0);
    report.field("redis_mode", "standalone");
    report.field("os", process::system_name());
    report.field("arch_bits", usize::BITS);
    report.field("monotonic_clock", "POSIX clock_gettime");
    report.field("multiplexing_api", "epoll");
    report.field("atomicvar_api", "c11-builtin");
    report.field("process_id", std::process::id());
    let is_supervised =
        server.config.number(Id::Supervised) != NOT_SUPERVISED && supervisor::socket().is_some();
    let manager = if is_supervised { "systemd" } else { "no" };
    report.field("process_supervised", manager);
    report.field("run_id", &server.run_id);
    report.field("tcp_port", server.port.load(Relaxed));
    report.field("server_time_usec", report.now_us);
    let uptime = server.started.elapsed().as_secs();
    report.field("uptime_in_seconds", uptime);
    report.field("uptime_in_days", uptime / 86_400);
    report.field("hz", 10);
    report.field("configured_hz", 10);
    report.field("lru_clock", (report.now_us / 1_000_000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    report.field("executable", executable.display());
    report.field("config_file", server.config.file());
    for (number, line) in server.listening.get().into_iter().flatten().enumerate() {
        report.field(&format!("listener{number}"), line);
    }
    report.field("io_threads_active", u8::from(server.threads > 1));
    report.field("data_threads", server.threads);
    report.field("shards", server.keyspace.shard_count());
}

/// Fields about the session of HOTKEYS, if there is one.
pub(super) fn hotkeys(report: &mut Report<'_>) {
    let server = report.server;
    if let Some(session) = server.hotkeys.results(server.clock.now()) {
        report.field("hotkeys-tracking-active", u8::from(session.is_active));
        report.field("hotkeys-cmd-cpu-time", session.micros);
    }
}

pub(super) fn clients(report: &mut Report<'_>) {
    let server = report.server;
    let all = server.clients.list();
    let largest = |counter: fn(&crate::clients::ClientInfo) -> u64| {
        all.iter().map(|info| counter(info)).max().unwrap_or(0)
    };
    let subscribers = all.iter().filter(|info| info.is_subscriber()).count();
    let watching = all.iter().filter(|info| info.watched.load(Relaxed) > 0);
    let watched: u32 = all.iter().map(|info| info.watched.load(Relaxed)).sum();
    let (watching, protected) = (
        watching.count(),
        all.iter()
            .filter(|info| info.flags.load(Relaxed) & flag::NO_EVICT != 0)
            .count(),
    );
    report.field("connected_clients", server.clients.len());
    report.field("cluster_connections", 0);
    report.field("maxclients", server.config.number(Id::MaxClients));
    let output = largest(|info| info.output_bytes.load(Relaxed));
    let input = largest(|info| info.input_bytes.load(Relaxed));
    report.field("client_recent_max_input_buffer", input);
    report.field("client_recent_max_output_buffer", output);
    let held = server.held_clients.load(Relaxed) as usize;
    report.field("blocked_clients", server.blocking.len() + held);
    report.field("tracking_clients", server.tracking.counts().0);
    report.field("long_command_waiting_clients", server.long.waiting());
    report.field("pubsub_clients", subscribers);
    report.field("watching_clients", watching);
    report.field("clients_in_timeout_table", server.blocking.with_deadline());
    report.field("total_watched_keys", watched);
    report.field("total_blocking_keys", report.waited_keys());
    report.field(
        "total_blocking_keys_on_nokey",
        server.blocking.failing_keys(),
    );
    report.field("no_evict_clients", protected);
}

pub(super) fn memory(report: &mut Report<'_>) {
    let server = report.server;
    let facts = report.memory_facts();
    let used = report.used_bytes();
    let peak = server.stats.peak_bytes.load(Relaxed);
    let rss = process::resident_bytes();
    let system = process::machine_bytes();
    let max = server.config.maxmemory_bytes();
    let buffers = server.client_bytes();
    let sizes = [
        ("used_memory", used),
        ("used_memory_rss", rss),
        ("used_memory_peak", peak),
    ];
    for (name, bytes) in sizes {
        report.field(name, bytes);
        report.field(&format!("{name}_human"), bytes_for_people(bytes));
    }
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let peak_time = server.stats.peak_seconds.load(Relaxed);
    report.field("used_memory_peak_time", peak_time);
    let overhead = used.saturating_sub(facts.entry_bytes);
    report.field(
        "used_memory_peak_perc",
        format!("{:.2}%", share(used, peak)),
    );
    report.field("used_memory_overhead", overhead);
    report.field("used_memory_startup", 0);
    report.field("used_memory_dataset", facts.entry_bytes);
    let dataset = share(facts.entry_bytes, used);
    report.field("used_memory_dataset_perc", format!("{dataset:.2}%"));
    report.field("used_memory_table", facts.table_bytes);
    report.field("used_memory_policy", facts.policy_bytes);
    report.field("used_memory_expiry", facts.expiry_bytes);
    report.field("used_memory_buffers", buffers);
    report.field("used_memory_arena_free", facts.arena_free_bytes);
    report.field("allocator_allocated", used);
    report.field("allocator_active", rss);
    report.field("allocator_resident", rss);
    report.field("total_system_memory", system);
    report.field("total_system_memory_human", bytes_for_people(system));
    let limit = server.config.memory_limit();
    report.field("memory_limit", limit);
    report.field("memory_limit_human", bytes_for_people(limit));
    script_memory(report);
    report.field("maxmemory", max);
    report.field("maxmemory_human", bytes_for_people(max));
    report.field(
        "maxmemory_policy",
        server.engine().eviction_name(&server.config),
    );
    let ratio = rss as f64 / used.max(1) as f64;
    report.field("mem_fragmentation_ratio", format!("{ratio:.2}"));
    report.field("mem_fragmentation_bytes", rss as i64 - used as i64);
    allocator_ratios(report);
    report.field("mem_not_counted_for_evict", 0);
    report.field("mem_replication_backlog", server.feed.kept().1);
    report.field("mem_clients_slaves", 0);
    report.field("mem_clients_normal", buffers);
    report.field("mem_aof_buffer", buffered_bytes(server));
    report.field("mem_cluster_links", 0);
    report.field("mem_total_replication_buffers", server.feed.kept().1);
    report.field("mem_overhead_db_hashtable_rehashing", 0);
    report.field("mem_allocator", process::allocator());
    report.field("active_defrag_running", 0);
    report.field("lazyfree_pending_objects", facts.pending_objects);
    report.field("lazyfree_pending_bytes", facts.pending_bytes);
    let dropped = report.counters().dropped_objects;
    report.field("lazyfreed_objects", dropped);
}

/// Ratios that need the allocator's own counters, which are not read.
fn allocator_ratios(report: &mut Report<'_>) {
    report.field("allocator_frag_ratio", "1.00");
    report.field("allocator_frag_bytes", 0);
    report.field("allocator_rss_ratio", "1.00");
    report.field("allocator_rss_bytes", 0);
    report.field("rss_overhead_ratio", "1.00");
    report.field("rss_overhead_bytes", 0);
}

pub(super) fn persistence(report: &mut Report<'_>) {
    let saving = report.server.saving.facts(report.server.keyspace.changes());
    let seconds = |span: Option<Duration>| span.map_or(-1, |span| span.as_secs() as i64);
    let loading = &report.server.loading;
    report.field("loading", u8::from(loading.is_on()));
    report.field("async_loading", 0);
    report.field("current_cow_peak", saving.queued_peak_bytes);
    report.field("current_cow_size", saving.queued_bytes);
    report.field("rdb_changes_since_last_save", saving.changes);
    report.field("rdb_bgsave_in_progress", u8::from(saving.is_in_progress));
    report.field("rdb_last_save_time", saving.last_save);
    let status = if saving.has_failed { "err" } else { "ok" };
    report.field("rdb_last_bgsave_status", status);
    report.field("rdb_last_bgsave_time_sec", seconds(saving.last_took));
    report.field("rdb_current_bgsave_time_sec", seconds(saving.current));
    report.field("current_fork_perc", "0.00");
    report.field("rdb_saves", saving.saves);
    report.field("rdb_last_cow_size", saving.last_peak_bytes);
    report.field("rdb_last_load_keys_expired", loading.expired.load(Relaxed));
    report.field("rdb_last_load_keys_loaded", loading.keys.load(Relaxed));
    report.field("rdb_last_load_keys_empty", loading.empty.load(Relaxed));
    let aof = report.server.aof.facts();
    let status = |has_failed: bool| if has_failed { "err" } else { "ok" };
    report.field("aof_enabled", u8::from(aof.is_on));
    report.field("aof_rewrite_in_progress", u8::from(aof.is_rewriting));
    report.field("aof_rewrite_scheduled", u8::from(aof.is_scheduled));
    report.field("aof_last_rewrite_time_sec", seconds(aof.last_took));
    report.field("aof_current_rewrite_time_sec", seconds(aof.current));
    report.field("aof_last_bgrewrite_status", status(aof.has_rewrite_failed));
    report.field("aof_rewrites", aof.rewrites);
    report.field("aof_last_write_status", status(aof.has_write_failed));
    report.field("feed_split_steps", report.server.feed.parts());
    report.field("aof_last_cow_size", 0);
    report.field("module_fork_in_progress", 0);
    report.field("module_fork_last_cow_size", 0);
    if aof.is_on {
        report.field("aof_current_size", aof.current_bytes);
        report.field("aof_base_size", aof.base_bytes);
        report.field("aof_pending_rewrite", 0);
        report.field("aof_buffer_length", buffered_bytes(report.server));
        report.field("aof_pending_bio_fsync", 0);
        report.field("aof_delayed_fsync", aof.delayed_syncs);
    }
    if loading.is_on() {
        load(report);
    }
}

/// Fields of a load in progress.
fn load(report: &mut Report<'_>) {
    let loading = &report.server.loading;
    let (started, total) = (&loading.started, loading.total_bytes.load(Relaxed));
    let (started, loaded) = (started.load(Relaxed), loading.loaded_bytes.load(Relaxed));
    let elapsed = (report.server.clock.now_us() / 1_000_000).saturating_sub(started);
    let part = loaded as f64 / total.max(1) as f64;
    let left = match loaded {
        0 => 1,
        _ => elapsed * total.saturating_sub(loaded) / loaded,
    };
    report.field("loading_start_time", started);
    report.field("loading_total_bytes", total);
    report.field("loading_rdb_used_mem", loading.used_bytes.load(Relaxed));
    report.field("loading_loaded_bytes", loaded);
    report.field("loading_loaded_perc", format!("{:.2}", part * 100.0));
    report.field("loading_eta_seconds", left);
}

pub(super) fn stats(report: &mut Report<'_>) {
    traffic(report);
    keys(report);
    events(report);
}

/// First part of `stats`: connections and traffic.
fn traffic(report: &mut Report<'_>) {
    let stats = &report.server.stats;
    let rates = stats.rates();
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    let input = stats.sum(|worker| &worker.input_bytes);
    let output = stats.sum(|worker| &worker.output_bytes);
    let received = stats.connections_received.load(Relaxed);
    report.field("total_connections_received", received);
    report.field("total_commands_processed", stats.commands_processed());
    let long = &report.server.long;
    report.field("long_commands", long.count.load(Relaxed));
    report.field("long_commands_running", u8::from(long.is_running()));
    report.field("instantaneous_ops_per_sec", rates.commands);
    let of_primary = report.server.replication.input_bytes.load(Relaxed);
    report.field("total_net_input_bytes", input + of_primary);
    report.field("total_net_output_bytes", output);
    let replication = &report.server.replication;
    let received = replication.input_bytes.load(Relaxed);
    report.field("total_net_repl_input_bytes", received);
    let sent = replication.output_bytes.load(Relaxed);
    report.field("total_net_repl_output_bytes", sent);
    report.field("instantaneous_input_kbps", kbps(rates.input_bytes));
    report.field("instantaneous_output_kbps", kbps(rates.output_bytes));
    report.field("instantaneous_input_repl_kbps", "0.00");
    report.field("instantaneous_output_repl_kbps", "0.00");
    let rejected = stats.connections_rejected.load(Relaxed);
    report.field("rejected_connections", rejected);
    let replication = &report.server.replication;
    let (full, partial) = (&replication.full_syncs, &replication.partial_syncs);
    let refused = replication.refused_syncs.load(Relaxed);
    report.field("sync_full", full.load(Relaxed));
    report.field("sync_partial_ok", partial.load(Relaxed));
    report.field("sync_partial_err", refused);
}

/// Memory of scripts.
fn script_memory(report: &mut Report<'_>) {
    let (scripting, scripts) = (
        &report.server.scripting,
        report.server.scripting.cache.facts(),
    );
    let libraries = scripting.libraries.all();
    let functions: usize = libraries
        .values()
        .map(|library| library.functions.len())
        .sum();
    let library_bytes: usize = libraries.values().map(|library| library.code.len()).sum();
    let (vm, code) = (scripting.vm_bytes(), (scripts.bytes + library_bytes) as u64);
    report.field("used_memory_lua", vm);
    report.field("used_memory_lua_human", bytes_for_people(vm));
    report.field("used_memory_vm_eval", vm);
    report.field("used_memory_vm_functions", 0);
    report.field("used_memory_vm_total", vm);
    report.field("used_memory_vm_total_human", bytes_for_people(vm));
    report.field("used_memory_scripts_eval", scripts.bytes);
    report.field("used_memory_functions", library_bytes);
    report.field("used_memory_scripts", code);
    report.field("used_memory_scripts_human", bytes_for_people(code));
    report.field("number_of_cached_scripts", scripts.count);
    report.field("number_of_functions", functions);
    report.field("number_of_libraries", libraries.len());
}

/// Second part of `stats`: keys and subscriptions.
fn keys(report: &mut Report<'_>) {
    let stats = &report.server.stats;
    let counters = report.counters();
    report.field("expired_keys", counters.expired_keys);
    report.field("expired_subkeys", counters.expired_elements);
    let active = stats.sum(|worker| &worker.expired_keys);
    report.field("expired_keys_active", active);
    report.field("expired_stale_perc", "0.00");
    report.field("expired_time_cap_reached_count", 0);
    let expiry_ms = stats.sum(|worker| &worker.expiry_micros) / 1000;
    report.field("expire_cycle_cpu_milliseconds", expiry_ms);
    report.field("evicted_keys", counters.evicted_keys);
    report.field("evicted_clients", stats.evicted_clients.load(Relaxed));
    let scripts = report.server.scripting.cache.facts();
    report.field("evicted_scripts", scripts.evicted);
    report.field("total_eviction_exceeded_time", 0);
    report.field("current_eviction_exceeded_time", 0);
    report.field("keyspace_hits", counters.hits);
    report.field("keyspace_misses", counters.misses);
    report.field("keyspace_expiration_misses", counters.expiration_misses);
    let (channels, patterns, shard_channels) = report.server.pubsub.counts();
    report.field("pubsub_channels", channels);
    report.field("pubsub_patterns", patterns);
    report.field("pubsubshard_channels", shard_channels);
    report.field("latest_fork_usec", 0);
    report.field("total_forks", 0);
    report.field("migrate_cached_sockets", 0);
    report.field("slave_expires_tracked_keys", 0);
    report.field("active_defrag_hits", 0);
    report.field("active_defrag_misses", 0);
    report.field("active_defrag_key_hits", 0);
    report.field("active_defrag_key_misses", 0);
    report.field("total_active_defrag_time", 0);
    report.field("current_active_defrag_time", 0);
    let (keys, items) = report.tracked_counts();
    report.field("tracking_total_keys", keys);
    report.field("tracking_total_items", items);
    let (_, prefixes) = report.server.tracking.counts();
    report.field("tracking_total_prefixes", prefixes);
}

/// Third part of `stats`: errors, event loop iterations, disconnected clients.
fn events(report: &mut Report<'_>) {
    let stats = &report.server.stats;
    let unexpected = stats.unexpected_commands.load(Relaxed);
    let refused = report.server.replication.refused_commands.load(Relaxed);
    report.field("unexpected_error_replies", refused);
    report.field("unknown_commands", unexpected);
    let errors = stats.error_replies.load(Relaxed);
    report.field("total_error_replies", errors);
    report.field("dump_payload_sanitizations", 0);
    report.field("total_reads_processed", stats.sum(|worker| &worker.reads));
    report.field("total_writes_processed", stats.sum(|worker| &worker.writes));
    report.field("io_threaded_reads_processed", 0);
    report.field("io_threaded_writes_processed", 0);
    report.field("eventloop_cycles", stats.sum(|worker| &worker.turns));
    let nanos = |worker: &WorkerStats| -> u64 {
        let commands = worker.commands.iter();
        commands.map(|command| command.nanos.load(Relaxed)).sum()
    };
    let micros: u64 = stats.workers.iter().map(nanos).sum::<u64>() / 1000;
    report.field("eventloop_duration_cmd_sum", micros);
    let turns = stats.rates().turns;
    report.field("instantaneous_eventloop_cycles_per_sec", turns);
    let input_cuts = stats.query_limit_disconnections.load(Relaxed);
    report.field("client_query_buffer_limit_disconnections", input_cuts);
    let output_cuts = stats.output_limit_disconnections.load(Relaxed);
    report.field("client_output_buffer_limit_disconnections", output_cuts);
    let failures = stats.allocation_failure_disconnections.load(Relaxed);
    report.field("client_allocation_failure_disconnections", failures);
    report.field("reply_buffer_shrinks", 0);
    report.field("reply_buffer_expands", 0);
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Authentication),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
        ("acl_access_denied_tls_cert", Reason::Certificate),
    ] {
        report.field(name, report.server.acl.log.count(reason));
    }
}

pub(super) fn replication(report: &mut Report<'_>) {
    let server = report.server;
    let replication = &server.replication;
    let position = server.feed.end();
    match replication.primary() {
        None => report.field("role", "master"),
        Some(primary) => replica_role(report, &primary),
    }
    let replicas = replication.replicas();
    report.field("connected_slaves", replicas.len());
    for (index, replica) in replicas.iter().enumerate() {
        let state = match replica.phase {
            Phase::Waits => "wait_bgsave",
            Phase::Writes(_) => "wait_bgsave",
            Phase::Receives(..) => "send_bulk",
            Phase::Follows => "online",
        };
        let line = format!(
            "ip={},port={},state={state},offset={},lag={}",
            replica.address,
            replica.port,
            replica.acked,
            replica.acked_at.elapsed().as_secs()
        );
        report.field(&format!("slave{index}"), line);
    }
    let failover = match replication.failover() {
        None => "no-failover",
        Some(failover) if failover.is_proceeding => "failover-in-progress",
        Some(_) => "waiting-for-sync",
    };
    report.field("master_failover_state", failover);
    let (id, earlier) = replication.ids();
    report.field("master_replid", id);
    let (id, end) = match earlier {
        Some((id, end)) => (id, end as i64 + 1),
        None => ("0".repeat(40), -1),
    };
    report.field("master_replid2", id);
    report.field("master_repl_offset", position);
    report.field("second_repl_offset", end);
    let (first, _) = server.feed.kept();
    let is_kept = replication.has_replicas() || replication.is_replica();
    report.field("repl_backlog_active", u8::from(is_kept));
    let size = primary::backlog_bytes(&server.config);
    report.field("repl_backlog_size", size);
    report.field("repl_backlog_first_byte_offset", first + 1);
    report.field("repl_backlog_histlen", position.saturating_sub(first));
}

/// Fields of a replica about its primary.
fn replica_role(report: &mut Report<'_>, primary: &PrimaryState) {
    let server = report.server;
    let position = server.feed.end();
    report.field("role", "slave");
    report.field("master_host", primary.host.clone());
    report.field("master_port", primary.port);
    let status = if primary.is_connected { "up" } else { "down" };
    report.field("master_link_status", status);
    let last = match primary.is_connected {
        true => primary.last_byte.elapsed().as_secs() as i64,
        false => -1,
    };
    report.field("master_last_io_seconds_ago", last);
    report.field("master_sync_in_progress", u8::from(primary.is_syncing));
    report.field("slave_read_repl_offset", position);
    report.field("slave_repl_offset", position);
    if !primary.is_connected {
        let down = primary.down_since.elapsed().as_secs();
        report.field("master_link_down_since_seconds", down);
    }
    if let Some(why) = &primary.refusal {
        report.field("master_link_refused_command", why);
    }
    report.field("slave_priority", server.config.number(Id::ReplicaPriority));
    let is_read_only = server.config.is_on(Id::ReplicaReadOnly);
    report.field("slave_read_only", u8::from(is_read_only));
    report.field("replica_announced", 1);
}

pub(super) fn cpu(report: &mut Report<'_>) {
    let (user, system) = process::cpu_seconds();
    report.field("used_cpu_sys", format!("{system:.6}"));
    report.field("used_cpu_user", format!("{user:.6}"));
    report.field("used_cpu_sys_children", "0.000000");
    report.field("used_cpu_user_children", "0.000000");
    let first = report.server.stats.workers[0].thread_id.load(Relaxed);
    let (user, system) = process::thread_cpu_seconds(first as i32);
    report.field("used_cpu_sys_main_thread", format!("{system:.6}"));
    report.field("used_cpu_user_main_thread", format!("{user:.6}"));
}

/// A line for each data thread.
pub(super) fn threads(report: &mut Report<'_>) {
    for (index, worker) in report.server.stats.workers.iter().enumerate() {
        let clients = worker.connections.load(Relaxed);
        let (reads, writes) = (worker.reads.load(Relaxed), worker.writes.load(Relaxed));
        let text = format!("clients={clients},reads={reads},writes={writes}");
        report.field(&format!("io_thread_{index}"), text);
    }
}

pub(super) fn command_stats(report: &mut Report<'_>) {
    let stats = &report.server.stats;
    for (index, name) in report.table.names() {
        let calls = stats.sum(|worker| &worker.commands[index].calls);
        let rejected = stats.sum(|worker| &worker.commands[index].rejected);
        let failed = stats.sum(|worker| &worker.commands[index].failed);
        if calls + rejected + failed == 0 {
            continue;
        }
        let nanos = stats.sum(|worker| &worker.commands[index].nanos);
        let mean = nanos as f64 / 1000.0 / calls.max(1) as f64;
        let micros = nanos / 1000;
        report.field(
            &format!("cmdstat_{name}"),
            format_args!(
                "calls={calls},usec={micros},usec_per_call={mean:.2},rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn error_stats(report: &mut Report<'_>) {
    for (code, count) in report.server.stats.errors() {
        report.field(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub(super) fn latency_stats(report: &mut Report<'_>) {
    let text = report.server.config.text(Id::LatencyPercentiles);
    let percentiles = value::percentiles(&text).unwrap_or_default();
    for (index, name) in report.table.names() {
        let summary = report.server.stats.latency(index);
        if summary.total == 0 {
            continue;
        }
        let shown: Vec<String> = percentiles
            .iter()
            .map(|share| format!("p{share}={:.3}", summary.percentile(share / 100.0) as f64))
            .collect();
        let name = format!("latency_percentiles_usec_{name}");
        report.field(&name, shown.join(","));
    }
}

pub(super) fn cluster(report: &mut Report<'_>) {
    report.field("cluster_enabled", 0);
}

pub(super) fn keyspace(report: &mut Report<'_>) {
    for db in 0..report.server.engine().databases() {
        let facts = report.db_facts(db as u8);
        if facts.keys == 0 {
            continue;
        }
        let (keys, expires, mean) = (facts.keys, facts.with_deadline, facts.mean_ttl_ms);
        let parts = facts.with_element_deadlines;
        report.field(
            &format!("db{db}"),
            format_args!("keys={keys},expires={expires},avg_ttl={mean},subexpiry={parts}"),
        );
    }
}

pub(super) fn key_sizes(report: &mut Report<'_>) {
    let now = Tick(report.now_us / 1000);
    let keyspace = &report.server.keyspace;
    for db in 0..keyspace.databases() {
        let db = db as u8;
        if keyspace.db_facts(db, now).keys == 0 {
            continue;
        }
        for (kind, counts) in keyspace.size_histograms(db, now) {
            let name = match kind {
                Kind::String => "strings_sizes",
                Kind::List => "lists_items",
                Kind::Set => "sets_items",
                Kind::SortedSet => "zsets_items",
                Kind::Hash => "hashes_items",
                Kind::Stream => continue,
            };
            let bins = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let bins: Vec<String> = bins
                .map(|(bin, count)| format!("{}={count}", size_label(bin)))
                .collect();
            if !bins.is_empty() {
                report.field(&format!("db{db}_distrib_{name}"), bins.join(","));
            }
        }
    }
}

/// Returns the least size of a bin of a histogram: 0, 1, 2, 4, … 512, 1K, 2K, …
fn size_label(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".into(),
        Some(power) => format!("{}{}", 1u32 << (power % 10), UNITS[power / 10]),
    }
}

pub(super) fn expiry(report: &mut Report<'_>) {
    let server = report.server;
    if let Some(segments) = &server.segments {
        return segment::expiry(report, segments);
    }
    let facts = report.expiry_facts();
    let counters = report.counters();
    let lag = server.stats.expiry_lag();
    report.field("expiry_index", server.config.text(Id::Expiry));
    match facts.granularity_ms {
        Some(ms) => report.field("expiry_granularity_ms", ms),
        None => report.field("expiry_granularity_ms", "unbounded"),
    }
    report.field("keys_with_ttl", facts.keys_with_ttl);
    report.field("expired_backlog_keys", facts.backlog_keys);
    report.field("expired_backlog_bytes", facts.backlog_bytes);
    report.field("expiry_index_bytes", facts.index_bytes);
    report.field("expiry_lag_samples", lag.total);
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        report.field(&format!("expiry_lag_us_{name}"), lag.percentile(share));
    }
    report.field("expiry_lag_us_max", lag.max);
    report.field("expired_per_second", server.stats.rates().expired_keys);
    report.field("expired_keys", counters.expired_keys);
    report.field("expired_subkeys", counters.expired_elements);
    report.field("keyspace_expiration_misses", counters.expiration_misses);
    let slices = server.stats.workers.iter();
    let longest = slices.map(|worker| worker.expiry_slice_us_max.load(Relaxed));
    report.field("expiry_slice_us_max", longest.max().unwrap_or(0));
    // Number of keys whose remaining TTL is below each power of two of seconds and not below the
    // previous one.
    let histogram = report.ttl_histogram();
    let shown: Vec<String> = histogram
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| format!("lt_{}s={count}", 1u64 << bucket))
        .collect();
    report.field("ttl_distribution", shown.join(","));
}
