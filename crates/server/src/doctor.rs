//! LATENCY DOCTOR and MEMORY DOCTOR: anything unusual about this server, with numbers and advice.

use crate::context::Table;
use crate::state::{Data, Observability, Server};
use session::clock::Clock;
use settings::{Config, Id, bytes_for_people, process};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use store::{Census, Keyspace, Spans};

/// Minimum duration in microseconds of a command's longest call for it to be reported.
const SLOW_MICROS: u64 = 10_000;
/// Number of commands that are reported.
const COMMANDS_SHOWN: usize = 3;
/// Minimum lag of expiry in microseconds, exceeded by one key in a hundred, for it to be reported.
const LATE_MICROS: u64 = 100_000;
/// Number of keys whose lag must be known for that.
const LAGS_MIN: u64 = 100;
/// Minimum share in percent of the time that threads wait for a core for it to be reported.
const WAITING_PERCENT: u64 = 20;
/// CPU time in nanoseconds that must have been used for that.
const CPU_NANOS_MIN: u64 = 1_000_000_000;
/// Minimum number of bytes for which a part of the memory is worth reporting.
const NOTABLE_BYTES: u64 = 64 << 20;
/// Number of evicted keys whose age must be known to compare it with the TTLs.
const AGES_MIN: u64 = 20;
/// Commands by which programs take elements from queues, in lower case.
const QUEUE_COMMANDS: [&str; 12] = [
    "blpop",
    "brpop",
    "blmove",
    "brpoplpush",
    "blmpop",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "lpop",
    "rpop",
    "rpoplpush",
    "xreadgroup",
];

/// Findings, one per line.
#[derive(Default)]
struct Findings(String);

impl Findings {
    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "* {text}");
    }

    fn or(self, nothing: &str) -> String {
        match self.0.is_empty() {
            true => format!("{nothing}\n"),
            false => self.0,
        }
    }
}

/// Formats microseconds.
fn span(micros: u64) -> String {
    match micros {
        0..=9_999 => format!("{micros} µs"),
        _ => format!("{} ms", micros / 1_000),
    }
}

/// Returns the upper bound of the bin that has the median, in milliseconds.
fn median_ms(spans: &Spans) -> u64 {
    let (half, mut seen) = (spans.total().div_ceil(2), 0);
    for (bin, count) in spans.counts.iter().enumerate() {
        seen += count;
        if seen >= half {
            return 1 << bin;
        }
    }
    0
}

/// Returns the report of LATENCY DOCTOR. The caller holds no lock of a shard.
pub fn latency(server: &Server, table: &Table) -> String {
    let mut findings = Findings::default();
    slow_commands(&server.observability, table, &mut findings);
    let lag = server.observability.stats.expiry_lag();
    let late = lag.percentile(0.99);
    if lag.total >= LAGS_MIN && late >= LATE_MICROS {
        findings.add(format_args!(
            "One expired key in a hundred is removed {} or more after its deadline, at worst {}. The data threads lack time: see used_cpu_user, and commands above.",
            span(late),
            span(lag.max)
        ));
    }
    let (cpu, waiting) = process::thread_nanos();
    let percent = waiting * 100 / (cpu + waiting).max(1);
    if cpu >= CPU_NANOS_MIN && percent >= WAITING_PERCENT {
        findings.add(format_args!(
            "The threads waited for a core {percent} % of the time in which they had work. Other processes take the cores, or a limit of CPU time (cgroup) applies."
        ));
    }
    let swapped = process::swapped_bytes();
    if swapped >= 1 << 20 {
        findings.add(format_args!(
            "{} of the process are in swap, so that accesses wait for the disk. Lower maxmemory or turn swap off.",
            bytes_for_people(swapped)
        ));
    }
    let waiting = server.workers.long.waiting();
    if waiting > 0 {
        findings.add(format_args!(
            "{waiting} clients wait for a long command that uses their key. INFO shows long_commands_running; smaller collections avoid it."
        ));
    }
    for (name, history) in server.observability.latency.events() {
        findings.add(format_args!(
            "The event {name} took {} ms or longer {} times, on average {} ms, at worst {} ms. LATENCY HISTORY {name} has the times.",
            server.config.number(Id::LatencyMonitorThreshold),
            history.count,
            history.sum_ms / history.count.max(1),
            history.max_ms
        ));
    }
    let mut text = findings.or("No cause of latency was found: no command took 10 ms, keys expire on time, no thread waits for a core, and nothing is in swap.");
    if server.config.number(Id::LatencyMonitorThreshold) == 0 {
        text.push_str("The latency monitor is off. CONFIG SET latency-monitor-threshold 10 records each event of 10 ms or longer.\n");
    }
    text
}

fn slow_commands(observability: &Observability, table: &Table, findings: &mut Findings) {
    let names = table.names();
    let all = names.map(|(index, name)| (observability.stats.latency(index), name));
    let mut slow: Vec<_> = all
        .filter(|(summary, _)| summary.max >= SLOW_MICROS)
        .collect();
    slow.sort_by_key(|(summary, _)| std::cmp::Reverse(summary.max));
    for (summary, name) in slow.iter().take(COMMANDS_SHOWN) {
        findings.add(format_args!(
            "The slowest of {} calls of {name} took {}, and one in a thousand {} or longer. SLOWLOG GET has the arguments of slow calls.",
            summary.total,
            span(summary.max),
            span(summary.percentile(0.999))
        ));
    }
}

/// Returns the report of MEMORY DOCTOR. The caller holds no lock of a shard.
pub fn memory(server: &Server, table: &Table) -> String {
    let mut findings = Findings::default();
    let (facts, used) = (server.data.engine().memory_facts(), server.used_bytes());
    let (max, limit) = (
        server.config.maxmemory_bytes(),
        server.config.memory_limit(),
    );
    let show = bytes_for_people;
    limits(&server.data, &server.config, &mut findings, used);
    let resident = process::resident_bytes();
    if resident > used * 3 / 2 && resident - used > NOTABLE_BYTES {
        findings.add(format_args!(
            "{} are resident, and {} in use. What was freed recently returns to the system within seconds; if it stays, values were much larger before.",
            show(resident),
            show(used)
        ));
    }
    let peak = server.observability.stats.peak_bytes.load(Relaxed);
    if peak > used * 2 && peak - used > NOTABLE_BYTES {
        let text = show(peak);
        findings.add(format_args!(
            "The peak was {text}, twice what is in use now. Plan for it."
        ));
    }
    let clients = server.data.client_bytes();
    if clients > used / 4 && clients > NOTABLE_BYTES {
        findings.add(format_args!(
            "Clients hold {} of {}. CLIENT LIST shows tot-mem of each; maxmemory-clients bounds the sum.",
            show(clients),
            show(used)
        ));
    }
    let free = facts.arena_free_bytes;
    if free > used / 2 && free > NOTABLE_BYTES {
        findings.add(format_args!(
            "{} inside the arenas are free and are reused first.",
            show(free)
        ));
    }
    let swapped = process::swapped_bytes();
    if swapped >= 1 << 20 {
        findings.add(format_args!(
            "{} of the process are in swap.",
            show(swapped)
        ));
    }
    if server.data.segments.is_none() {
        lifetimes(&server.data.keyspace, &server.clock, &mut findings);
    }
    if let Some(text) = queues_at_risk(server, table) {
        findings.add(format_args!("{text}"));
    }
    let bound = match (max, limit) {
        (0, _) => {
            "there is no maxmemory, and the data is far from the memory of the machine".to_owned()
        }
        (max, _) => format!("{} of {} are in use", show(used), show(max)),
    };
    findings.or(&format!(
        "No problem was found with this server's memory: {bound}."
    ))
}

/// Describes that keys which clients use as queues may be evicted; `None` if no key may be, or if
/// no command has taken an element of a queue.
pub fn queues_at_risk(server: &Server, table: &Table) -> Option<String> {
    let policy = server.data.engine().eviction_name(&server.config);
    if server.config.maxmemory_bytes() == 0 || !policy.starts_with("allkeys") {
        return None;
    }
    let calls = |index: usize| {
        server
            .observability
            .stats
            .sum(|worker| &worker.commands[index].calls)
    };
    let mut names = table.names();
    let used = names.find(|(index, name)| QUEUE_COMMANDS.contains(name) && calls(*index) > 0);
    used.map(|(_, name)| {
        format!(
            "Clients use keys as queues ({name}), and {policy} evicts keys of all kinds when memory is full: elements of queues would be lost without an error. maxmemory-policy noeviction, or one of the policies volatile-, keeps them."
        )
    })
}

/// Compares the limits with each other and with the memory in use.
fn limits(data: &Data, config: &Config, findings: &mut Findings, used: u64) {
    let (max, limit) = (config.maxmemory_bytes(), config.memory_limit());
    let show = bytes_for_people;
    if max == 0 && limit > 0 && used > limit / 2 {
        findings.add(format_args!(
            "maxmemory is not set, and {} of {} of the machine or container are in use. Beyond that the system ends the process: set maxmemory, for example to 80%.",
            show(used),
            show(limit)
        ));
    }
    if limit > 0 && max > limit / 20 * 19 {
        findings.add(format_args!(
            "maxmemory ({}) leaves less than 5 % of the {} that the machine or container grants. The system may end the process.",
            show(max),
            show(limit)
        ));
    }
    let policy = data.engine().eviction_name(config);
    if max > 0 && used > max / 20 * 19 && policy.starts_with("noeviction") {
        findings.add(format_args!(
            "{} of maxmemory ({}) are in use, and nothing is evicted under noeviction: writes are or will be refused.",
            show(used),
            show(max)
        ));
    }
}

/// Compares ages with TTLs, and reports expired keys that take memory.
fn lifetimes(keyspace: &Keyspace, clock: &Clock, findings: &mut Findings) {
    let (mut census, now) = (Census::default(), clock.now());
    while keyspace.census_step(&mut census, now) {}
    let backlog = census.expiry.backlog_bytes;
    if backlog > NOTABLE_BYTES && backlog > census.memory.used_bytes / 20 {
        findings.add(format_args!(
            "Expired keys that are not removed yet take about {}. LATENCY DOCTOR says whether the data threads lack time.",
            bytes_for_people(backlog)
        ));
    }
    let (evicted, written) = (&census.evicted_ages, &census.written_ttls);
    let (age, ttl) = (median_ms(evicted), median_ms(written));
    if evicted.total() >= AGES_MIN && written.total() >= AGES_MIN && age * 4 < ttl {
        findings.add(format_args!(
            "Half of the evicted keys were younger than {} s, and half of the TTLs are longer than {} s: keys are evicted long before they expire. More memory or shorter TTLs would help; mayfly sim advise computes how much.",
            age / 1000,
            ttl / 2000
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use session::clock::Clock;
    use settings::{Config, find};
    use store::{NewDeadline, Tick};

    const NOW: u64 = 1_700_000_000_000;

    fn server(settings: &[(&str, &str)]) -> Server {
        let config = Config::default();
        for (name, value) in settings {
            let param = find(name).expect("a setting");
            config.set(param, value).expect("a value");
        }
        Server::new(config, Clock::manual(NOW)).expect("valid settings")
    }

    #[test]
    fn causes_of_latency_are_named_with_numbers() {
        let server = server(&[]);
        let table = command::table();
        let text = latency(&server, table);
        assert!(
            text.starts_with("No cause") || text.contains("waited for a core"),
            "{text}"
        );
        assert!(text.contains("The latency monitor is off"));
        let keys = table.lookup(b"keys").expect("a command") as usize;
        server.observability.stats.workers[0].commands[keys]
            .micros
            .record(2_500_000, 1);
        server.observability.stats.workers[0]
            .expiry_lag_us
            .record(700_000, 200);
        server.observability.latency.add("command", 2_500, NOW);
        let text = latency(&server, table);
        for part in [
            "1 calls of keys took 2500 ms",
            "removed 7",
            "event command took",
            "SLOWLOG GET",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn memory_that_is_nearly_full_and_keys_evicted_early_are_reported() {
        let server = server(&[("maxmemory", "1mb")]);
        let fill = |count: u64| {
            let mut view = server.data.keyspace.lock_all(Tick(NOW));
            for number in 0..count {
                let name = format!("{number}");
                let key = server.data.keyspace.key(0, name.as_bytes());
                view.set(&key, &[b'x'; 100], NewDeadline::At(Tick(NOW + 86_400_000)));
            }
        };
        fill(7_500);
        let text = memory(&server, command::table());
        assert!(
            text.contains("nothing is evicted under noeviction"),
            "{text}"
        );
        server
            .data
            .keyspace
            .set_policy("allkeys-lru")
            .expect("a policy");
        fill(50_000);
        let text = memory(&server, command::table());
        assert!(text.contains("evicted long before they expire"), "{text}");
    }

    /// Jobs were lost without an error, and nothing named the cause.
    #[test]
    fn queues_under_eviction_are_named() {
        let server = server(&[("maxmemory", "1mb")]);
        let table = command::table();
        let call = |name: &[u8]| {
            let index = table.lookup(name).expect("a command") as usize;
            server.observability.stats.workers[0].commands[index]
                .calls
                .fetch_add(1, Relaxed);
        };
        server
            .data
            .keyspace
            .set_policy("allkeys-lru")
            .expect("a policy");
        call(b"rpush");
        assert_eq!(queues_at_risk(&server, table), None);
        call(b"brpop");
        let text = memory(&server, table);
        assert!(text.contains("queues (brpop), and allkeys-lru"), "{text}");
        for safe in ["volatile-lru", "noeviction"] {
            server.data.keyspace.set_policy(safe).expect("a policy");
            assert_eq!(queues_at_risk(&server, table), None, "{safe}");
        }
    }

    #[test]
    fn a_server_without_problems_says_so() {
        let text = memory(&server(&[]), command::table());
        assert!(
            text.starts_with("No problem was found") || text.contains("resident"),
            "{text}"
        );
    }
}
