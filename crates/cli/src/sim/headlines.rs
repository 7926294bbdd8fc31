//! `mayfly sim --headlines`: checks claims of papers on these traces.

use super::{Arguments, resolve};
use ::sim::headlines::{self, Headlines, Measured, OBJECTS_MIN, TraceKind};
use ::sim::{Columns, Spec, Unit};
use anyhow::{Context, Result};
use std::io::Write;
use trace::{Format, Workload};

/// Name that represents all policies in the claims.
const CLAIMS: &str = "claims";

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let policies = policies(arguments)?;
    arguments.pages.prepare()?;
    let mut measured = Vec::new();
    for trace in &arguments.traces {
        let columns = arguments.read(trace)?;
        let kind = kind(&trace.to_string_lossy(), arguments.format);
        let mut units = vec![Unit::Objects];
        if arguments.replaying.unit(&columns) == Unit::Bytes {
            units.push(Unit::Bytes);
        }
        for unit in units {
            measured.extend(measure(arguments, &columns, &policies, unit, kind)?);
        }
    }
    let headlines = Headlines::of(&measured);
    arguments.pages.write(|| headlines.page())?;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&headlines.titled())? + "\n",
        false => headlines.markdown(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Parses the policies, and returns them with their names as given.
fn policies(arguments: &Arguments) -> Result<Vec<(String, Spec)>> {
    let given = arguments.policy.iter().map(String::as_str);
    let names = given.flat_map(|name| match name {
        CLAIMS => headlines::policies(),
        name => vec![name],
    });
    let read = |name: &str| {
        let spec = name.parse().with_context(|| format!("--policy {name}"))?;
        Ok((name.to_owned(), spec))
    };
    names.map(read).collect()
}

/// Returns the kind of a trace. Block traces are recognised by their formats, which have no other
/// use.
fn kind(name: &str, format: Option<Format>) -> TraceKind {
    match format
        .or_else(|| Format::of_name(name).ok())
        .map(Format::workload)
    {
        Some(Workload::Block) => TraceKind::Block,
        Some(Workload::Web) | None => TraceKind::Web,
    }
}

fn measure(
    arguments: &Arguments,
    columns: &Columns,
    policies: &[(String, Spec)],
    unit: Unit,
    kind: TraceKind,
) -> Result<Vec<Measured>> {
    let smallest = match unit {
        Unit::Objects => OBJECTS_MIN,
        Unit::Bytes => OBJECTS_MIN * columns.footprint_bytes() / columns.objects() as u64,
    };
    let mut sizes = Vec::new();
    for size in &arguments.size {
        match resolve(size, columns, unit) {
            Ok(units) if units >= smallest => sizes.push((size.to_string(), units)),
            _ => eprintln!(
                "mayfly: {}: size {size} is left out: it holds fewer than {OBJECTS_MIN} objects",
                columns.name()
            ),
        }
    }
    if sizes.is_empty() {
        return Ok(Vec::new());
    }
    let named = policies.iter().map(|(name, spec)| (name.as_str(), spec));
    let named: Vec<_> = named.collect();
    let rows = arguments.replay_sizes(columns, &named, unit, &sizes)?;
    let of_row = |row| Measured { row, kind };
    Ok(rows.into_iter().map(of_row).collect())
}
