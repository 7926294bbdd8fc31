//! Compares the generated pages of docs/ with the tables in the code.
//!
//! `UPDATE_DOCS=1 cargo test -p mayfly-server --test docs` writes the pages.

use server::context::Spec;
use server::{Server, command, metrics};
use session::clock::Clock;
use session::spec::{Keys, flag};
use settings::{Config, Kind, Param, TABLE};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

const HOW: &str = "UPDATE_DOCS=1 cargo test -p mayfly-server --test docs";

/// Differences from Redis in single commands. The page of differences lists the general ones.
const DIFFERENCES: &str = "
## Differences from Redis in replies

[Differences](differences.md) lists the general ones. The tables in `crates/server/tests/commands/tables/` show requests and replies of
commands on keys. A test also runs their rows against a redis-server, except the rows marked with `!`.

- The announced version is 8.6.3. All commands of that version are served except vector sets (`VADD` and the other commands with `V`) and three commands
  for moving keys between servers: `MIGRATE`, `RESTORE-ASKING`, `TRIMSLOTS`. `CLUSTER` describes [the cluster](../guide/cluster.md), fails over, and moves slots.
- `HOTKEYS` records at most 256 keys of one command, and no keys over 4 KiB. The sums are too high by at most the smallest recorded sum, because a key
  without a counter takes the one with the smallest sum; Redis lets such counters decay.
- `HIMPORT` stores ordinary hashes. The fieldsets of a connection take at most 64 MiB.
- `PFSELFTEST` adds 100,000 elements; `PFDEBUG GETREG` does not change the encoding.
- `DEBUG` has the subcommands that test suites use and that cannot end or damage the server: see `DEBUG HELP`. `LISTPACK` checks the encoding and prints nothing.
- A deadline in the past deletes the key and publishes the event `expired`. Redis publishes `del` (`EXPIRE` and similar commands,
  `GETEX`), or keeps the expired key until the next access (`SET … PXAT`, `MSETEX … PXAT`).
- The latest deadline is 2^48 − 1 ms (the year 10889); later ones are reduced to it. A deadline that overflows 64 bits is refused,
  as in Redis.
- `OBJECT ENCODING` derives the encoding of a string from its value: `int`, `embstr` up to 44 bytes, `raw` beyond. Redis also
  returns `raw` for a string that `APPEND` or `SETRANGE` has changed. `OBJECT REFCOUNT` always returns 1.
- `OBJECT FREQ` works only with eviction policies that record a frequency, and returns an error with the others. `OBJECT IDLETIME`
  always returns an error, because no policy records the time of the last access. `RESTORE` checks `IDLETIME` and `FREQ` and ignores them, and so does
  a load of a snapshot file that contains them: the policy treats the key as new.
- `keyspace_hits` and `keyspace_misses` count reads of values, `EXISTS` and `TOUCH`; Redis counts `TTL` and `TYPE` too.
- `INCRBYFLOAT` calculates with the 80-bit floating-point numbers of x86-64 on every machine. It accepts only decimal notation;
  Redis accepts hexadecimal notation too.
- `SCAN` accepts a cursor only in the form in which it was returned: without a sign and leading zeros.
- `CLIENT PAUSE` does not hold `CLIENT`, `AUTH`, `HELLO`, `QUIT`, `RESET`, `SHUTDOWN` and the commands of subscriptions, so that `CLIENT UNPAUSE` can end it. With
  the segment engine, keys expire during a pause too.
- `MEMORY USAGE` counts the entry and its places in the table and the expiry index, and always all elements.
- `SLOWLOG` may contain an entry for several short commands of a pipeline. They are timed together, and one of them was slow for a reason outside it.
- `BITFIELD … OVERFLOW SAT SET` with a large negative number saturates to the smallest number; in Redis a sum overflows and the
  result is the greatest number.
- `SADD` of an existing member keeps its deadline. `SMOVE` and the storing commands do not copy deadlines; `COPY` and `RENAME` do.
  A member's deadline in the past publishes `sexpired`.
- `TTL` and `PTTL` accept a member of a collection as a second argument, as in KeyDB.
- `ZADD` of an existing member removes its deadline, unless a condition such as `NX` prevents the update. `ZINCRBY` and
  `ZADD … INCR` keep the deadline.
- A score is never −0. Scores are printed with the shortest text that reads back as the same number, by `ZSCAN` too. Ranges and
  scores accept only decimal notation.
- `SRANDMEMBER` and `ZRANDMEMBER` with a negative count return at most 2^24 members.
- `SORT … ALPHA` compares bytes, independent of the locale; Redis does so only with `STORE`.
- `DEL`, `UNLINK`, `FLUSHDB` and `FLUSHALL` always free memory in steps, with `ASYNC` and with `SYNC`.
";

/// Compares a page with its generated text, or writes the page if `UPDATE_DOCS` is set.
fn compare(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).expect("docs/reference can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let line = found
        .lines()
        .zip(wanted.lines())
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| found.lines().count().min(wanted.lines().count()));
    assert!(
        found == wanted,
        "docs/reference/{name}:{}: the tables in the code have changed; run {HOW}",
        line + 1
    );
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_of_commands_matches_the_tables() {
    let mut groups: BTreeMap<&str, Vec<(&Spec, bool)>> = BTreeMap::new();
    for spec in command::table().iter() {
        let is_on_both = spec.run.is_on_segment();
        let group = groups.entry(spec.group).or_default();
        group.push((spec, is_on_both));
    }
    let mut page = String::from(
        "# Commands\n\nGenerated from the tables in `crates/server/src/command/`; a test compares them. \
         *Arity* includes the command name, as in Redis; a negative number is a minimum. *Segment* says whether \
         [the segment engine](../guide/segment.md) serves the command too. *Since* is the version of Redis that \
         introduced the command, or the name of another server that has it. Options are those of Redis 8.\n",
    );
    page.push_str(DIFFERENCES);
    for (group, mut specs) in groups {
        specs.sort_by_key(|(spec, _)| spec.name);
        let _ = write!(
            page,
            "\n## {group}\n\n| command | arity | keys | segment | since | description |\n|---|---:|---|---|---|---|\n"
        );
        for (spec, is_on_both) in specs {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} |",
                spec.name.to_uppercase(),
                spec.arity,
                keys(spec),
                if is_on_both { "yes" } else { "" },
                spec.since,
                cell(spec.summary)
            );
        }
    }
    compare("commands.md", &page);
}

/// Describes how a command uses keys.
fn keys(spec: &Spec) -> &'static str {
    let is_write = spec.has(flag::WRITE);
    match (spec.keys, is_write) {
        (Keys::None | Keys::WholeIf(_), _) => "",
        (Keys::Whole, true) => "writes all",
        (Keys::Whole, false) => "reads all",
        (_, true) => "writes",
        (_, false) => "reads",
    }
}

#[test]
fn the_page_of_metrics_matches_the_tables() {
    let mut page = String::from(
        "# Metrics\n\nGenerated from the rows in `crates/server/src/info/` and `crates/server/src/metrics.rs`; a test compares them. [The guide](../guide/metrics.md) \
         says how they are served.\n\nThe third column is the field of `INFO` that has the same number, the fourth the name in redis_exporter: \
         *same* is the name with `redis_` instead of `mayfly_`. Metrics of one engine are absent with the other one, those of the append-only file while there is none, and those about the primary on a server that is not a replica. Histograms have `_bucket`, `_sum` and `_count`.\n\n\
         | metric | type | INFO | redis_exporter | description |\n|---|---|---|---|---|\n",
    );
    let mut seen = std::collections::BTreeSet::new();
    for engine in ["slab", "segment"] {
        let config = Config::default();
        for (name, value) in [("engine", engine), ("maxmemory", "64mb")] {
            let param = settings::find(name).expect("a setting");
            config.set(param, value).expect("a value");
        }
        let server = Server::new(config, Clock::manual(1)).expect("valid settings");
        // Some metrics exist during a load only.
        server.persistence.loading.begin(1);
        let (table, census) = (command::table(), store::Census::default());
        let format = metrics::page::Format::Prometheus;
        let text = metrics::render(&server, table, &census, Duration::ZERO, format);
        let mut help = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ').expect("a name and a text").1;
            }
            let Some((name, kind)) = line
                .strip_prefix("# TYPE ")
                .and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            if seen.insert(name.to_owned()) {
                add_metric(&mut page, name, kind, help);
            }
        }
    }
    // Only a replica or a server with an append-only file shows these.
    for row in server::info::rows() {
        let server::info::row::Export::Metric(metric) = &row.export else {
            continue;
        };
        let (kind, suffix) = match metric.is_counter {
            true => ("counter", "_total"),
            false => ("gauge", ""),
        };
        let name = format!("{}{}{suffix}", metrics::PREFIX, metric.name);
        if seen.insert(name.clone()) {
            add_metric(&mut page, &name, kind, metric.help);
        }
    }
    compare("metrics.md", &page);
}

/// Adds a row of the table of metrics.
fn add_metric(page: &mut String, name: &str, kind: &str, help: &str) {
    let (names, help) = (names_of(name), cell(help));
    let _ = writeln!(page, "| `{name}` | {kind} | {names} | {help} |");
}

/// Returns a metric's INFO field and its name in redis_exporter, as two table cells.
fn names_of(name: &str) -> String {
    use server::info::row::{Export, Exporter};
    let bare = name.strip_prefix(metrics::PREFIX).expect("the prefix");
    if metrics::SAME_IN_EXPORTER.contains(&bare) {
        return " | same".to_owned();
    }
    let base = bare.strip_suffix("_total").unwrap_or(bare);
    let row = server::info::rows().find_map(|row| match &row.export {
        Export::Metric(metric) if metric.name == base => Some((row.name, &metric.exporter)),
        _ => None,
    });
    let Some((field, exporter)) = row else {
        return " | ".to_owned();
    };
    let exporter = match exporter {
        Exporter::Lacks => String::new(),
        Exporter::Same => "same".to_owned(),
        Exporter::As(other) => format!("`redis_{other}`"),
    };
    format!("`{field}` | {exporter}")
}

#[test]
fn the_page_of_settings_matches_the_table() {
    let mut page = String::from(
        "# Configuration\n\nGenerated from the table in `crates/settings/src/table.rs`; a test compares them.\n\n\
         A setting is given as `--name value` on the command line and as `name value` in a file. `CONFIG GET` reads it and \
         `CONFIG SET` changes it at run time, unless it is marked *fixed*. `MAYFLY_NAME` in the environment sets it too: \
         `MAYFLY_MAXMEMORY_POLICY`. The command line takes precedence over the environment, and both over the file.\n\n\
         | setting | default | values | description |\n|---|---|---|---|\n",
    );
    for param in TABLE {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            param.name,
            if param.default.is_empty() {
                String::from("empty")
            } else {
                format!("`{}`", cell(param.default))
            },
            values(param),
            cell(param.help)
        );
    }
    compare("configuration.md", &page);
}

#[test]
fn the_page_of_policies_matches_the_lists() {
    let mut page = String::from(
        "# Eviction policies, admission filters and expiry indexes\n\nGenerated from the lists in `crates/policy/src/evict.rs`, \
         `crates/policy/src/admit.rs`, `crates/policy/src/expire.rs` and `crates/store/src/eviction.rs`; a test compares them. \
         Names ignore case, `-` and `_`; other accepted names are in parentheses. \
         Each algorithm is one file below `crates/policy/src/evict/`, `admit/` or `expire/`, which begins with a description: idea, source, bytes per entry, cost, parameters, and when to avoid it.\n\n\
         ## Names of maxmemory-policy\n\nThe third column names the algorithm that serves each name, because some names of Redis are served by another algorithm. \
         `noeviction`, the default, refuses writes when memory is full.\n\n\
         | name | keys that may be evicted | algorithm and parameters | note |\n|---|---|---|---|\n",
    );
    for name in store::Keyspace::policy_names() {
        let choice = store::PolicyChoice::parse(&name).expect("a listed name is served");
        let Some(spec) = choice.spec else { continue };
        let scope = if name.starts_with("volatile") {
            "keys with a deadline"
        } else {
            "all"
        };
        let _ = writeln!(page, "| `{name}` | {scope} | `{spec}` | {} |", choice.note);
    }
    page.push_str(
        "\n## Policies\n\nParameters follow a colon, as in `allkeys-s3fifo:0.2`, in this order or by name. A policy that does not store its state \
         in the bits of an entry runs only in the simulator.\n\n\
         | policy | on a hit | bits per entry | parameters: default, range |\n|---|---|---:|---|\n",
    );
    for about in policy::any::POLICIES {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            names(about.name, about.aliases),
            match about.on_hit {
                policy::OnHit::Ignore => "nothing",
                policy::OnHit::Mark => "marks the entry",
                policy::OnHit::Reorder => "reorders entries",
            },
            about
                .meta_bits
                .map_or("simulator".to_string(), |bits| bits.to_string()),
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\n## Admission filters\n\nIn the simulator, a filter in front of a policy decides on a miss whether the key is inserted.\n\n\
         | filter | is notified of hits and evictions | parameters: default, range |\n|---|---|---|\n",
    );
    for about in policy::admit::any::FILTERS {
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            names(about.name, about.aliases),
            if about.listens { "yes" } else { "no" },
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\n## Expiry indexes\n\nValues of the setting `expiry`; [expiry](../guide/expiry.md) describes their guarantees. Each index stores up to 16 bits \
         in the same word as a deadline.\n\n\
         | index | bits beside a deadline | parameters: default, range |\n|---|---:|---|\n",
    );
    for about in policy::expire::any::INDEXES {
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            names(about.name, about.aliases),
            about.link_bits,
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\nPresets, to which parameters may be added:\n\n| name | index and parameters |\n|---|---|\n",
    );
    for (name, spec) in policy::expire::any::PRESETS {
        let _ = writeln!(page, "| `{name}` | `{spec}` |");
    }
    compare("policies.md", &page);
}

/// Lists an algorithm's canonical name and its aliases for a table cell.
fn names(name: &str, aliases: &[&str]) -> String {
    let aliases: Vec<String> = aliases.iter().map(|alias| format!("`{alias}`")).collect();
    match aliases.is_empty() {
        true => format!("`{name}`"),
        false => format!("`{name}` ({})", aliases.join(", ")),
    }
}

/// Lists an algorithm's parameters for a table cell.
fn knobs(knobs: &[policy::knobs::Knob]) -> String {
    let cells: Vec<String> = knobs
        .iter()
        .map(|knob| format!("`{}`: {}, {}", knob.name, knob.default, knob.range))
        .collect();
    cell(&cells.join("; "))
}

/// Describes the values that a setting accepts.
fn values(param: &Param) -> String {
    let kind = match param.kind {
        Kind::Bool => "yes, no".to_string(),
        Kind::Int(low, i64::MAX) => format!("from {low}"),
        Kind::Int(low, high) => format!("{low} to {high}"),
        Kind::Bytes(..) => "bytes, kb, mb, gb".to_string(),
        Kind::BytesOrPercent => "bytes, kb, mb, gb, %".to_string(),
        Kind::Choice(words) => words.join(", "),
        Kind::Permissions => "octal number".to_string(),
        Kind::Text | Kind::Secret => "text".to_string(),
        Kind::FileName => "name of a file".to_string(),
        Kind::Address => "address:port".to_string(),
        Kind::Host => "host".to_string(),
        Kind::SavePoints => "pairs of seconds and changes".to_string(),
        Kind::Policy => "see [policies](policies.md)".to_string(),
        Kind::Index => store::Keyspace::expiry_names().join(", "),
        Kind::Events => "letters".to_string(),
        Kind::OutputLimits => "class hard soft seconds, …".to_string(),
        Kind::Classes => "name option value …".to_string(),
        Kind::Percentiles => "0 to 100, …".to_string(),
        Kind::Fixed(words) => format!("only {}", words[0]),
    };
    let kind = kind.trim_end().to_string();
    if param.is_mutable() {
        kind
    } else {
        format!("{kind} *(fixed)*")
    }
}

/// Pages of the guide about other programs than the server. The names in them are in none of its
/// tables.
const OTHER_PAGES: &[&str] = &[
    "choosing-a-policy.md",
    "edge-sites.md",
    "edge.md",
    "install.md",
    "library-from-others.md",
    "library.md",
    "programs.md",
    "python.md",
    "reading-a-report.md",
    "sharding.md",
    "simulator.md",
    "writing-a-policy.md",
];

/// Words in the guide that look like settings or fields of INFO and are neither.
const OTHER_WORDS: &[&str] = &[
    // Programs, parts of commands, and settings of the configuration file alone.
    "entries-added",
    "etcd-server",
    "expiry-lag",
    "expiry-mixed",
    "expiry-storm",
    "gl-cache",
    "key-count",
    "load_balancing_strategy",
    "redis-benchmark",
    "redis-cli",
    "rename-command",
    "tls-cert",
    "tls-cn",
    // Functions and flags of scripts.
    "acl_check_cmd",
    "allow-cross-slot-keys",
    "allow-oom",
    "allow-stale",
    "error_reply",
    "no-cluster",
    "no-writes",
    "status_reply",
    // Commands and statistics of memcached.
    "cache_memlimit",
    "evicted_active",
    "evicted_unfetched",
    "expired_unfetched",
    "flush_all",
    "get_expired",
    "get_flushed",
    "lru_crawler",
    // Names of Redis and its exporter that this server does not have.
    "allocator_muzzy",
    "aof-timestamp-enabled",
    "aof_rewrites_consecutive_failures",
    "current_cow_size_age",
    "current_save_keys_processed",
    "current_save_keys_total",
    "enable-protected-configs",
    "eventloop_duration_sum",
    "expired_subkeys_active",
    "gcc_version",
    "instantaneous_eventloop_duration_usec",
    "io_threaded_total_prefetch_batches",
    "io_threaded_total_prefetch_entries",
    "lua-replicate-commands",
    "mem_cluster_slot_migration_input_buffer",
    "mem_cluster_slot_migration_input_buffer_peak",
    "mem_cluster_slot_migration_output_buffer",
    "mem_replica_full_sync_buffer",
    "rdb_saves_consecutive_failures",
    "redis_connected_clients",
    "repl-diskless-sync",
    // Options and numbers of classes of keys.
    "late_ms_max",
    "late_ms_mean",
    "never_stored",
    "ttl-default",
    "ttl-jitter",
    "ttl-max",
];

/// Reads the pages of a folder of docs/, with their names, in alphabetical order.
fn pages(folder: &str) -> BTreeMap<String, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files = std::fs::read_dir(docs.join(folder)).expect("docs/ can be read");
    let pages = files.filter_map(|file| {
        let path = file.expect("docs/ can be read").path();
        let name = path.file_name()?.to_string_lossy().into_owned();
        let text = name
            .ends_with(".md")
            .then(|| std::fs::read_to_string(&path));
        Some((name, text?.expect("pages are UTF-8")))
    });
    pages.collect()
}

/// Fails if there are faults, with a list of them.
fn expect_none(faults: &[String], what: &str) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

#[test]
fn settings_and_fields_that_the_guide_names_exist() {
    let reference = pages("reference");
    let lists = ["configuration.md", "metrics.md", "policies.md"];
    let is_known = |word: &str| {
        let quoted = format!("`{word}`");
        settings::find(word).is_some()
            || server::info::rows().any(|row| row.name == word)
            || lists.iter().any(|page| reference[*page].contains(&quoted))
    };
    // Two words at least, because any single one might be something else.
    let is_name = |word: &str| {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let mut parts = word.split(['-', '_']);
        word.contains(['-', '_']) && parts.all(|part| !part.is_empty() && part.bytes().all(is_part))
    };
    let mut faults = Vec::new();
    for (page, text) in pages("guide") {
        for (index, line) in text.lines().enumerate() {
            if OTHER_PAGES.contains(&page.as_str()) {
                break;
            }
            let quoted = line.split('`').skip(1).step_by(2);
            let words = quoted.filter_map(|code| code.split([' ', ':']).next());
            for word in words.filter(|word| is_name(word)) {
                if !is_known(word) && !OTHER_WORDS.contains(&word) {
                    faults.push(format!("docs/guide/{page}:{}: {word}", index + 1));
                }
            }
        }
    }
    expect_none(
        &faults,
        "no setting, field of INFO, metric or policy has this name; correct it, or add it to OTHER_WORDS in crates/server/tests/docs.rs",
    );
    for word in OTHER_WORDS {
        assert!(!is_known(word), "remove {word} from OTHER_WORDS: it exists");
    }
}

#[test]
fn subcommands_and_settings_of_config_that_the_docs_name_exist() {
    let mut faults = Vec::new();
    for folder in ["guide", "reference"] {
        for (page, text) in pages(folder) {
            for (index, line) in text.lines().enumerate() {
                let is_outside = |char: char| !char.is_ascii_alphanumeric() && char != '-';
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                for pair in words.windows(2) {
                    let (name, next) = (pair[0].trim_start_matches(is_outside), pair[1]);
                    let next = next.trim_end_matches(is_outside);
                    if lacks(name, next) {
                        faults.push(format!("docs/{folder}/{page}:{}: {name} {next}", index + 1));
                    }
                }
                for three in words.windows(3) {
                    let [config, verb, name] = three else {
                        continue;
                    };
                    let name = name.trim_end_matches(is_outside);
                    let is_change = config.ends_with("CONFIG") && ["GET", "SET"].contains(verb);
                    let is_word = !name.is_empty()
                        && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                    if is_change && is_word && settings::find(name).is_none() {
                        faults.push(format!("docs/{folder}/{page}:{}: {name}", index + 1));
                    }
                }
            }
        }
    }
    expect_none(
        &faults,
        "no command or setting has this name; in a sentence, write `CONFIG SET` in backticks",
    );
}

/// Whether a container of commands lacks a subcommand that is written in capital letters.
fn lacks(name: &str, word: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    let is_written = |text: &str| text.len() > 1 && text.bytes().all(is_capital);
    if !is_written(name) || !is_written(word) {
        return false;
    }
    let full = format!("{name}|{word}").to_ascii_lowercase();
    command::table()
        .iter()
        .find(|spec| spec.has(flag::CONTAINER) && spec.name.eq_ignore_ascii_case(name))
        .is_some_and(|spec| spec.subcommands.iter().all(|sub| sub.name != full))
}
