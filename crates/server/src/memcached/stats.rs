//! `stats`: the statistics that memcached's monitoring reads, from the server's counters.

use super::turn::DATABASE;
use crate::config::Id;
use crate::state::Server;
use crate::stats::Counts;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::Output;
use wire::memcached::text::{line, stat};

/// Replies to `stats` and its sub-commands.
pub fn show(server: &Server, what: &[u8], out: &mut Output) {
    match what {
        b"" => general(server, out),
        b"settings" => settings(server, out),
        b"items" => items(server, out),
        b"slabs" => slabs(server, out),
        b"sizes" => stat(out, "sizes_status", "disabled"),
        b"conns" => connections(server, out),
        b"reset" => return line(out, "RESET"),
        _ => return line(out, "ERROR"),
    }
    line(out, "END");
}

fn general(server: &Server, out: &mut Output) {
    let sum =
        |counter: fn(&Counts) -> &AtomicU64| server.stats.sum(|worker| counter(&worker.memcached));
    let counters = server.engine().counters(&server.stats);
    let now_ms = server.clock.now().0;
    let facts = server.engine().db_facts(DATABASE, store::Tick(now_ms));
    let rows: &[(&str, u64)] = &[
        ("pid", u64::from(std::process::id())),
        ("uptime", server.started.elapsed().as_secs()),
        ("time", now_ms / 1000),
        ("pointer_size", 64),
        ("curr_connections", server.clients.len()),
        (
            "total_connections",
            server.stats.connections_received.load(Relaxed),
        ),
        (
            "rejected_connections",
            server.stats.connections_rejected.load(Relaxed),
        ),
        ("cmd_get", sum(|c| &c.gets)),
        ("cmd_set", sum(|c| &c.sets)),
        ("cmd_flush", sum(|c| &c.flushes)),
        ("cmd_touch", sum(|c| &c.touches)),
        ("get_hits", sum(|c| &c.get_hits)),
        ("get_misses", sum(|c| &c.get_misses)),
        ("delete_misses", sum(|c| &c.delete_misses)),
        ("delete_hits", sum(|c| &c.delete_hits)),
        ("incr_misses", sum(|c| &c.count_misses)),
        ("incr_hits", sum(|c| &c.count_hits)),
        ("touch_hits", sum(|c| &c.touch_hits)),
        ("bytes_read", server.stats.sum(|worker| &worker.input_bytes)),
        (
            "bytes_written",
            server.stats.sum(|worker| &worker.output_bytes),
        ),
        ("limit_maxbytes", server.config.number(Id::MaxMemory) as u64),
        ("threads", server.threads as u64),
        ("bytes", server.engine().used_bytes()),
        ("curr_items", facts.keys),
        ("evictions", counters.evicted_keys),
        ("reclaimed", counters.expired_keys),
    ];
    stat(out, "version", env!("CARGO_PKG_VERSION"));
    for (name, number) in rows {
        stat(out, name, &number.to_string());
    }
}

fn settings(server: &Server, out: &mut Output) {
    for (name, id) in [("maxbytes", Id::MaxMemory), ("maxconns", Id::MaxClients)] {
        stat(out, name, &server.config.number(id).to_string());
    }
    stat(out, "num_threads", &server.threads.to_string());
    let item_max = server.config.number(Id::MemcachedItemMax);
    stat(out, "item_size_max", &item_max.to_string());
    stat(out, "cas_enabled", "yes");
    stat(out, "flush_enabled", "yes");
    let evicts =
        !["noeviction", "none"].contains(&server.engine().eviction_name(&server.config).as_str());
    stat(out, "evictions", if evicts { "on" } else { "off" });
}

/// There are no slab classes. All items are reported in class 1.
fn items(server: &Server, out: &mut Output) {
    let facts = server.engine().db_facts(DATABASE, server.clock.now());
    if facts.keys > 0 {
        stat(out, "items:1:number", &facts.keys.to_string());
        let evicted = server.engine().counters(&server.stats).evicted_keys;
        stat(out, "items:1:evicted", &evicted.to_string());
    }
}

fn slabs(server: &Server, out: &mut Output) {
    let bytes = server.engine().used_bytes();
    stat(out, "active_slabs", "1");
    stat(out, "total_malloced", &bytes.to_string());
}

fn connections(server: &Server, out: &mut Output) {
    for info in server.clients.list() {
        stat(
            out,
            &format!("{}:addr", info.fd),
            &format!("tcp:{}", info.address),
        );
    }
}
