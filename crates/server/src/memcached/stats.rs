//! `stats`: the statistics that memcached's monitoring reads, from the server's counters.
//!
//! The names are those of memcached 1.6. A counter of something that does not exist here, such as
//! the moves of its LRU queues, is 0. The numbers of items evicted or expired without a read are
//! also 0, because they are not counted. Properties of its slab classes are left out.

use super::VERSION;
use super::admin::{self, Dump};
use super::turn::{DATABASE, Progress, Turn};
use crate::state::{Clients, Data, Server};
use session::clients::flag;
use session::clock::Clock;
use session::stats::{Counts, Stats};
use settings::{Id, process};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Output;
use wire::memcached::binary::{self, Header, Status};
use wire::memcached::text;

/// Counters in `stats` that are always 0, because what they count does not exist here or is not
/// counted. Items are removed when they are flushed, so no read finds a flushed one.
const ZEROS: &[&str] = &[
    "get_flushed",
    "conn_yields",
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_evictions_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "slabs_moved",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "slab_global_page_pool",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
];

/// Reply of rows in the text or the binary protocol.
struct Rows<'o> {
    out: &'o mut Output,
    header: Option<Header>,
}

impl Rows<'_> {
    fn row(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        match self.header {
            Some(header) => binary::stat(self.out, header, name.as_bytes(), value.as_bytes()),
            None => text::stat(self.out, name, &value),
        }
    }

    fn end(&mut self) {
        match self.header {
            Some(header) => binary::stat(self.out, header, b"", b""),
            None => text::line(self.out, "END"),
        }
    }

    /// Ends with a line; the binary protocol has no lines.
    fn end_with(&mut self, line: &str) {
        match self.header {
            Some(_) => self.end(),
            None => text::line(self.out, line),
        }
    }

    fn refuse(&mut self, line: &str) {
        match self.header {
            Some(header) => binary::refuse(self.out, header, Status::NotFound),
            None => text::line(self.out, line),
        }
    }
}

/// Executes `stats` and its sub-commands.
pub(super) fn run(turn: &mut Turn<'_, ()>) -> Progress {
    let server = turn.server;
    let header = turn.request.binary;
    // In the binary protocol the words are one key.
    let mut words = (0..turn.keys.len())
        .flat_map(|index| turn.sent_key(index).split(|&byte| byte == b' '))
        .filter(|word| !word.is_empty());
    let word = words.next().unwrap_or_default();
    let (second, third) = (words.next(), words.next());
    if (word, header) == (b"cachedump", None) {
        return cachedump(turn, second, third);
    }
    let mut rows = Rows {
        out: turn.out,
        header,
    };
    match word {
        b"" => general(server, &mut rows),
        b"settings" => settings(server, &mut rows),
        b"items" => items(
            &server.data,
            &server.clock,
            &server.observability.stats,
            &mut rows,
        ),
        b"slabs" => slabs(
            &server.data,
            &server.clock,
            &server.observability.stats,
            &mut rows,
        ),
        b"sizes" => rows.row("sizes_status", "disabled"),
        b"sizes_enable" | b"sizes_disable" => {
            rows.row("sizes_status", "disabled");
            return Progress::Done;
        }
        b"conns" => connections(
            &server.clients,
            &server.clock,
            turn.session.info.id,
            &mut rows,
        ),
        b"extstore" => {}
        b"detail" => {
            detail(&server.observability.stats, second, &mut rows);
            return Progress::Done;
        }
        b"reset" => {
            server.observability.stats.reset_memcached();
            server.data.engine().reset_counters();
            rows.end_with("RESET");
            return Progress::Done;
        }
        _ => {
            rows.refuse("ERROR");
            return Progress::Done;
        }
    }
    rows.end();
    Progress::Done
}

fn sum(stats: &Stats, counter: fn(&Counts) -> &AtomicU64) -> u64 {
    stats.sum(|worker| counter(&worker.memcached))
}

fn general(server: &Server, rows: &mut Rows<'_>) {
    process_and_connections(server, rows);
    let sum = |counter| sum(&server.observability.stats, counter);
    let stats = &server.observability.stats;
    let (gets, hits) = (sum(|c| &c.gets), sum(|c| &c.get_hits));
    let (touches, touched) = (sum(|c| &c.touches), sum(|c| &c.touch_hits));
    let counts = [
        ("cmd_get", gets),
        ("cmd_set", sum(|c| &c.sets)),
        ("cmd_flush", sum(|c| &c.flushes)),
        ("cmd_touch", touches),
        ("cmd_meta", sum(|c| &c.metas)),
        ("get_hits", hits),
        ("get_misses", gets.saturating_sub(hits)),
        ("delete_misses", sum(|c| &c.delete_misses)),
        ("delete_hits", sum(|c| &c.delete_hits)),
        ("incr_misses", sum(|c| &c.incr_misses)),
        ("incr_hits", sum(|c| &c.incr_hits)),
        ("decr_misses", sum(|c| &c.decr_misses)),
        ("decr_hits", sum(|c| &c.decr_hits)),
        ("cas_misses", sum(|c| &c.cas_misses)),
        ("cas_hits", sum(|c| &c.cas_hits)),
        ("cas_badval", sum(|c| &c.cas_badval)),
        ("touch_hits", touched),
        ("touch_misses", touches.saturating_sub(touched)),
        ("store_too_large", sum(|c| &c.too_large)),
        ("store_no_memory", sum(|c| &c.no_memory)),
        ("auth_cmds", sum(|c| &c.auths)),
        ("auth_errors", sum(|c| &c.auth_errors)),
        ("bytes_read", stats.sum(|worker| &worker.input_bytes)),
        ("bytes_written", stats.sum(|worker| &worker.output_bytes)),
        ("limit_maxbytes", server.config.maxmemory_bytes()),
        ("accepting_conns", 1),
        ("threads", server.workers.count as u64),
    ];
    for (name, count) in counts {
        rows.row(name, count);
    }
    let counters = server.data.engine().counters(stats);
    let keys = server
        .data
        .engine()
        .db_facts(DATABASE, server.clock.now())
        .keys;
    rows.row("get_expired", counters.expiration_misses);
    let hash_bytes = server.data.engine().memory_facts().table_bytes;
    // A table of memcached with this power has as many bytes.
    rows.row("hash_power_level", (hash_bytes / 8).max(1).ilog2());
    rows.row("hash_bytes", hash_bytes);
    rows.row("hash_is_expanding", 0);
    rows.row("bytes", server.data.engine().used_bytes());
    rows.row("curr_items", keys);
    rows.row("total_items", sum(|c| &c.stored));
    rows.row("evictions", counters.evicted_keys);
    rows.row("reclaimed", counters.expired_keys);
    for name in ZEROS {
        rows.row(name, 0);
    }
}

fn process_and_connections(server: &Server, rows: &mut Rows<'_>) {
    let (user, system) = process::cpu_seconds();
    rows.row("pid", std::process::id());
    rows.row("uptime", server.lifecycle.started.elapsed().as_secs());
    rows.row("time", server.clock.now().0 / 1000);
    rows.row("version", VERSION);
    rows.row("pointer_size", usize::BITS);
    rows.row("rusage_user", format!("{user:.6}"));
    rows.row("rusage_system", format!("{system:.6}"));
    rows.row("max_connections", server.config.number(Id::MaxClients));
    rows.row("curr_connections", server.clients.registry.len());
    let stats = &server.observability.stats;
    let received = stats.connections_received.load(Relaxed);
    rows.row("total_connections", received);
    let rejected = stats.connections_rejected.load(Relaxed);
    rows.row("rejected_connections", rejected);
    rows.row("connection_structures", server.clients.registry.len());
    rows.row("read_buf_bytes", server.data.client_bytes());
}

fn settings(server: &Server, rows: &mut Rows<'_>) {
    let number = |id| server.config.number(id);
    let on = |is_on| if is_on { "yes" } else { "no" };
    rows.row("maxbytes", server.config.maxmemory_bytes());
    rows.row("maxconns", number(Id::MaxClients));
    rows.row("tcpport", number(Id::Memcached));
    rows.row("udpport", 0);
    rows.row("inter", server.config.text(Id::Bind));
    rows.row("verbosity", 0);
    let evicts = !["noeviction", "none"]
        .contains(&server.data.engine().eviction_name(&server.config).as_str());
    rows.row("evictions", if evicts { "on" } else { "off" });
    rows.row("shutdown_command", "no");
    rows.row("num_threads", server.workers.count);
    rows.row("stat_key_prefix", ":");
    rows.row(
        "detail_enabled",
        on(server.observability.stats.prefixes.is_on()),
    );
    rows.row("cas_enabled", "yes");
    rows.row("tcp_backlog", number(Id::TcpBacklog));
    rows.row("binding_protocol", "auto-negotiate");
    rows.row("auth_enabled_sasl", on(server.auth.acl.needs_login()));
    rows.row("auth_enabled_ascii", "no");
    rows.row("item_size_max", number(Id::MemcachedItemMax));
    rows.row("maxconns_fast", "yes");
    rows.row("slab_reassign", "no");
    rows.row("slab_automove", 0);
    rows.row("lru_crawler", "no");
    rows.row("flush_enabled", "yes");
    rows.row("dump_enabled", on(server.data.segments.is_none()));
    rows.row("lru_maintainer_thread", "no");
    rows.row("lru_segmented", "no");
    rows.row("idle_timeout", number(Id::Timeout));
    rows.row("track_sizes", "no");
    rows.row("ssl_enabled", "no");
}

/// There are no slab classes. All items are reported in class 1.
fn items(data: &Data, clock: &Clock, stats: &Stats, rows: &mut Rows<'_>) {
    let facts = data.engine().db_facts(DATABASE, clock.now());
    if facts.keys == 0 {
        return;
    }
    let counters = data.engine().counters(stats);
    let mut item = |name: &str, value: u64| rows.row(&format!("items:1:{name}"), value);
    item("number", facts.keys);
    item("mem_requested", data.engine().memory_facts().entry_bytes);
    item("evicted", counters.evicted_keys);
    item("outofmemory", sum(stats, |c| &c.no_memory));
    item("tailrepairs", 0);
    item("reclaimed", counters.expired_keys);
    item("crawler_reclaimed", 0);
    item("crawler_items_checked", 0);
    item("lrutail_reflocked", 0);
    item("moves_to_cold", 0);
    item("moves_to_warm", 0);
    item("moves_within_lru", 0);
    item("direct_reclaims", 0);
}

fn slabs(data: &Data, clock: &Clock, stats: &Stats, rows: &mut Rows<'_>) {
    let facts = data.engine().db_facts(DATABASE, clock.now());
    let memory = data.engine().memory_facts();
    let total = |counter| sum(stats, counter);
    let counts = [
        ("used_chunks", facts.keys),
        ("mem_requested", memory.entry_bytes),
        ("get_hits", total(|c| &c.get_hits)),
        ("cmd_set", total(|c| &c.sets)),
        ("delete_hits", total(|c| &c.delete_hits)),
        ("incr_hits", total(|c| &c.incr_hits)),
        ("decr_hits", total(|c| &c.decr_hits)),
        ("cas_hits", total(|c| &c.cas_hits)),
        ("cas_badval", total(|c| &c.cas_badval)),
        ("touch_hits", total(|c| &c.touch_hits)),
    ];
    for (name, count) in counts {
        rows.row(&format!("1:{name}"), count);
    }
    rows.row("active_slabs", 1);
    rows.row(
        "total_malloced",
        memory.used_bytes + memory.arena_free_bytes,
    );
}

/// Lists the connections of clients with the states of memcached that they resemble. `own` is the
/// client that sends the request.
fn connections(clients: &Clients, clock: &Clock, own: u64, rows: &mut Rows<'_>) {
    let now = clock.moment();
    for info in clients.registry.list() {
        let fd = info.fd;
        let is_local = info.flags.load(Relaxed) & flag::LOCAL != 0;
        let shown = |address: &str| match address.strip_suffix(":0").filter(|_| is_local) {
            Some(path) => format!("unix:{path}"),
            None => format!("tcp:{address}"),
        };
        let state = match info.input_bytes.load(Relaxed) {
            _ if info.id == own => "conn_parse_cmd",
            0 => "conn_read",
            _ => "conn_nread",
        };
        let idle_ms = now.0.saturating_sub(info.active_ms.load(Relaxed));
        rows.row(&format!("{fd}:addr"), shown(&info.address));
        rows.row(&format!("{fd}:listen_addr"), shown(&info.local_address));
        rows.row(&format!("{fd}:state"), state);
        rows.row(&format!("{fd}:secs_since_last_cmd"), idle_ms / 1000);
    }
}

/// `stats detail on|off|dump`: counters by the prefix of the key.
fn detail(stats: &Stats, word: Option<&[u8]>, rows: &mut Rows<'_>) {
    let prefixes = &stats.prefixes;
    match word {
        Some(b"on") => prefixes.set_on(true),
        Some(b"off") => prefixes.set_on(false),
        Some(b"dump") => {
            let mut text = Output::default();
            for (prefix, counts) in prefixes.all() {
                if !admin::is_word(&prefix) {
                    continue;
                }
                text.extend_from_slice(b"PREFIX ");
                text.extend_from_slice(&prefix);
                let session::stats::PrefixCounts {
                    gets,
                    hits,
                    sets,
                    deletes,
                } = counts;
                text::line(
                    &mut text,
                    &format!(" get {gets} hit {hits} set {sets} del {deletes}"),
                );
            }
            text::line(&mut text, "END");
            match rows.header {
                Some(header) => binary::stat(rows.out, header, b"detailed", &text),
                None => return rows.out.extend_from_slice(&text),
            }
            return rows.end();
        }
        _ => return rows.refuse("CLIENT_ERROR usage: stats detail on|off|dump"),
    }
    rows.end_with("OK");
}

/// `stats cachedump class limit`: the first items. All items are in class 1; the limit 0 is the
/// largest.
fn cachedump(turn: &mut Turn<'_, ()>, class: Option<&[u8]>, limit: Option<&[u8]>) -> Progress {
    const CLASS_MAX: u64 = 63;
    const ITEMS_MAX: u64 = 10_000;
    let (Some(class), Some(limit)) = (class, limit) else {
        text::line(turn.out, "CLIENT_ERROR bad command line");
        return Progress::Done;
    };
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let (Some(class), Some(limit)) = (number(class), number(limit)) else {
        text::line(turn.out, "CLIENT_ERROR bad command line format");
        return Progress::Done;
    };
    if class > CLASS_MAX {
        text::line(turn.out, "CLIENT_ERROR Illegal slab id");
        return Progress::Done;
    }
    let limit = match limit {
        0 => ITEMS_MAX,
        limit => limit.min(ITEMS_MAX),
    };
    let left = if class == 1 { limit } else { 0 };
    admin::dump(turn, Dump::Items(left))
}
