//! The pages that list commands and settings say what the tables say.
//!
//! `UPDATE_DOCS=1 cargo test -p mayfly-server --test docs` writes them anew.

use server::command::{self, Keys, Spec, flag};
use server::config::{Kind, Param, TABLE};
use server::segments;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const HOW: &str = "UPDATE_DOCS=1 cargo test -p mayfly-server --test docs";

/// What a client might notice, beside what the README says.
const DIFFERENCES: &str = "
## Where replies differ from Redis

What is in general different stands in the README. `crates/server/tests/commands/tables/` shows input and reply of the
commands on keys; the rows there are put to a redis-server as well, but for those marked `!`.

- A deadline in the past deletes the key and says `expired`. Redis says `del` (`EXPIRE` and its kin, `GETEX`), or keeps the
  dead key until somebody looks (`SET … PXAT`, `MSETEX … PXAT`).
- Deadlines later than 2^48 − 1 ms (the year 10889) are kept as that one. What overflows 64 bits is refused, as in Redis.
- `OBJECT ENCODING` tells the form from the value: `int`, `embstr` up to 44 bytes, `raw` beyond. Redis also says `raw` of
  what `APPEND` or `SETRANGE` has touched. `OBJECT REFCOUNT` is always 1.
- `OBJECT IDLETIME` and `OBJECT FREQ` answer where the policy in force keeps them, and say so where it does not.
- `keyspace_hits` and `keyspace_misses` count reads of values, `EXISTS` and `TOUCH`; Redis counts `TTL` and `TYPE` too.
- `INCRBYFLOAT` counts with the 80-bit floats of x86-64 on every machine, and takes decimal notation only; Redis takes
  hexadecimal floats too.
- `SCAN` takes a cursor only as it was given: no sign, no leading zeros. An unknown `TYPE` is an error, as in Redis 8.
- `BITFIELD … OVERFLOW SAT SET` of a great negative number saturates to the least one; in Redis a sum wraps and it becomes the
  greatest.
- `SADD` of a member that is there leaves its deadline alone, `SMOVE` and the storing commands leave deadlines behind, `COPY` and
  `RENAME` take them along. A member's deadline in the past says `sexpired`.
- `TTL` and `PTTL` take a member of a collection as well, as in KeyDB.
- `ZADD` of a member that is there takes its deadline, unless a condition spares the member; `ZINCRBY` and `ZADD … INCR` leave it.
- Scores are never −0, and printed with the shortest text that reads back the same, by `ZSCAN` too. Intervals and scores take
  decimal notation only.
- `SRANDMEMBER` and `ZRANDMEMBER` repeat members at most 2^24 times in one reply.
- `SORT … ALPHA` compares bytes, whatever the locale; Redis does so only with `STORE`.
- `DEL`, `UNLINK`, `FLUSHDB` and `FLUSHALL` free memory in steps, whatever is asked for.
";

/// Compares a page with what it should be, or writes it.
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

/// Makes text fit into a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_of_commands_is_the_table() {
    let mut groups: BTreeMap<&str, Vec<(&Spec, bool)>> = BTreeMap::new();
    for (index, spec) in (0..).zip(command::table()) {
        let is_on_both = segments::command::is_served(index);
        let group = groups.entry(spec.group).or_default();
        group.push((spec, is_on_both));
    }
    let mut page = String::from(
        "# Commands\n\nGenerated from the table in `crates/server/src/command.rs`; a test compares them. \
         *Arity* counts the name itself, as in Redis; negative means at least. *Since* is the version of Redis that \
         brought the command, or whose it is otherwise. Options are those of Redis 8. *Segment* says whether [the segment engine](../lab/segment.md) serves it, too.\n",
    );
    page.push_str(DIFFERENCES);
    for (group, mut specs) in groups {
        specs.sort_by_key(|(spec, _)| spec.name);
        let _ = write!(
            page,
            "\n## {group}\n\n| command | arity | keys | segment | since | |\n|---|---:|---|---|---|---|\n"
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

/// How a command uses keys, in two words.
fn keys(spec: &Spec) -> &'static str {
    let is_write = spec.has(flag::WRITE);
    match (spec.keys, is_write) {
        (Keys::None, _) => "",
        (Keys::Whole, true) => "writes all",
        (Keys::Whole, false) => "reads all",
        (_, true) => "writes",
        (_, false) => "reads",
    }
}

#[test]
fn the_page_of_settings_is_the_table() {
    let mut page = String::from(
        "# Configuration\n\nGenerated from the table in `crates/server/src/config/table.rs`; a test compares them.\n\n\
         A setting stands on the command line as `--name value`, in a file as `name value`, and is read and changed at run time by \
         `CONFIG GET` and `CONFIG SET`; *fixed* ones only at start. The command line wins over the file.\n\n\
         | name | default | values | |\n|---|---|---|---|\n",
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
fn the_page_of_policies_is_the_list() {
    let mut page = String::from(
        "# Eviction policies, admission filters and expiry indexes\n\nGenerated from the lists in `crates/policy/src/any.rs`, \
         `crates/policy/src/admit/any.rs`, `crates/policy/src/expire/any.rs` and `crates/store/src/eviction.rs`; a test compares them. \
         Each algorithm is one file below `crates/policy/src/evict/`, `admit/` or `expire/`, which begins with its card: idea, source, bytes, cost, knobs, and when to avoid it.\n\n\
         ## Names of maxmemory-policy\n\nNames of Redis that are not ours are mapped to the nearest policy of ours. \
         `noeviction`, the default, refuses writes when memory is full.\n\n\
         | name | keys that may go | policy and knobs |\n|---|---|---|\n",
    );
    for name in store::Keyspace::policy_names() {
        let Some(meaning) = store::Keyspace::policy_meaning(&name) else {
            continue;
        };
        let scope = if name.starts_with("volatile") {
            "those with a deadline"
        } else {
            "all"
        };
        let _ = writeln!(page, "| `{name}` | {scope} | `{meaning}` |");
    }
    page.push_str(
        "\n## Policies\n\nKnobs are given behind a colon, as in `allkeys-s3fifo:0.2`, in this order or by name. A policy without bits \
         to keep in an entry runs in the simulator only.\n\n\
         | policy | a hit | bits in an entry | knobs: default, range |\n|---|---|---:|---|\n",
    );
    for about in policy::any::POLICIES {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            about.name,
            match about.on_hit {
                policy::OnHit::Ignore => "nothing",
                policy::OnHit::Mark => "marks the entry",
                policy::OnHit::Reorder => "reorders",
            },
            about
                .meta_bits
                .map_or("simulator".to_string(), |bits| bits.to_string()),
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\n## Admission filters\n\nWhat may stand before a policy in the simulator: asked on a miss whether the key is kept at all.\n\n\
         | filter | is told of hits and evictions | knobs: default, range |\n|---|---|---|\n",
    );
    for about in policy::admit::any::FILTERS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            about.name,
            if about.listens { "yes" } else { "no" },
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\n## Expiry indexes\n\nThe names of `expiry`; [expiry](../guide/expiry.md) says what each promises. Up to 16 bits fit beside a deadline \
         in its own word.\n\n\
         | index | bits beside a deadline | knobs: default, range |\n|---|---:|---|\n",
    );
    for about in policy::expire::any::INDEXES {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            about.name,
            about.link_bits,
            knobs(about.knobs)
        );
    }
    page.push_str(
        "\nOther names, to which knobs may be added:\n\n| name | index and knobs |\n|---|---|\n",
    );
    for (name, spec) in policy::expire::any::PRESETS {
        let _ = writeln!(page, "| `{name}` | `{spec}` |");
    }
    compare("policies.md", &page);
}

/// The cell that lists an algorithm's knobs.
fn knobs(knobs: &[policy::knobs::Knob]) -> String {
    let cells: Vec<String> = knobs
        .iter()
        .map(|knob| format!("`{}`: {}, {}", knob.name, knob.default, knob.range))
        .collect();
    cell(&cells.join("; "))
}

/// What a setting takes.
fn values(param: &Param) -> String {
    let kind = match param.kind {
        Kind::Bool => "yes, no".to_string(),
        Kind::Int(low, i64::MAX) => format!("from {low}"),
        Kind::Int(low, high) => format!("{low} to {high}"),
        Kind::Bytes(..) => "bytes, kb, mb, gb".to_string(),
        Kind::Choice(words) => words.join(", "),
        Kind::Text | Kind::Secret => "text".to_string(),
        Kind::Policy => "see [policies](policies.md)".to_string(),
        Kind::Index => store::Keyspace::expiry_names().join(", "),
        Kind::Events => "letters".to_string(),
        Kind::OutputLimits => "class hard soft seconds, …".to_string(),
        Kind::Percentiles => "0 to 100, …".to_string(),
        Kind::Fixed(words) => format!("only {}", words[0]),
    };
    let kind = kind.trim_end().to_string();
    if param.is_mutable {
        kind
    } else {
        format!("{kind} *(fixed)*")
    }
}
