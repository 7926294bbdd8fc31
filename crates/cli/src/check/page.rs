//! Contents of a snapshot file as an HTML page and as JSON.

use durability::check::Contents;
use durability::check::survey::{Share, shown};
use report::{Axis, Bars, Column, Page, Plot, Table};
use serde_json::{Value, json};

/// Maximum number of prefixes on a page.
const PREFIXES_MAX: usize = 100;
/// Maximum number of prefixes in a plot.
const PREFIXES_DRAWN: usize = 20;

/// Returns the page of a file.
pub fn page(contents: &Contents, name: &str) -> Page {
    let mut page = Page::new(&format!("Contents: {name}"));
    if let Some(origin) = contents.origin() {
        page.fact("format", &origin);
    }
    let survey = contents.survey();
    let section = page.section("Types");
    section.text("Sizes are those of keys and values, without what a format or a server adds.");
    section.table(types(contents));
    let names = contents.types().keys().map(|name| (*name).to_owned());
    let sizes = contents.types().values().map(|sums| sums.bytes as f64);
    section.plot(bars(
        "Size by type",
        "bytes",
        names.collect(),
        sizes.collect(),
    ));

    let ttls = survey.ttls().into_iter();
    let ttls = ttls.map(|(name, share)| (name.to_owned(), share));
    shares(&mut page, "TTLs", "TTL", &ttls.collect::<Vec<_>>());
    shares(&mut page, "Sizes", "size", &survey.sizes());
    let mut prefixes = survey.prefixes();
    prefixes.truncate(PREFIXES_MAX);
    shares(&mut page, "Prefixes", "prefix", &prefixes);

    let section = page.section("Largest keys");
    section.table(largest(contents));
    page
}

fn types(contents: &Contents) -> Table {
    Table::of(contents.types())
        .column(Column::text("type"), |(name, _)| *name)
        .column(Column::count("keys"), |(_, sums)| sums.keys)
        .column(Column::count("with a TTL"), |(_, sums)| sums.with_deadline)
        .column(Column::count("expired"), |(_, sums)| sums.expired)
        .column(Column::count("elements"), |(_, sums)| sums.elements)
        .column(Column::count("elements with a TTL"), |(_, sums)| {
            sums.elements_with_deadline
        })
        .column(Column::count("bytes"), |(_, sums)| sums.bytes)
        .finish()
}

fn largest(contents: &Contents) -> Table {
    let all = contents.survey().largest();
    Table::of(&all)
        .column(Column::text("key"), |one| shown(&one.key))
        .column(Column::text("type"), |one| one.kind)
        .column(Column::count("database"), |one| one.database)
        .column(Column::count("bytes"), |one| one.bytes)
        .column(Column::count("elements"), |one| one.elements)
        .column(Column::span("TTL").absent("none"), |one| {
            one.ttl_ms.map(|ttl| ttl as f64)
        })
        .finish()
}

/// Adds a section with the numbers and sizes of keys by range.
fn shares(page: &mut Page, heading: &str, range: &str, rows: &[(String, Share)]) {
    let section = page.section(heading);
    let table = Table::of(rows)
        .column(Column::text(range), |(name, _)| name)
        .column(Column::count("keys"), |(_, share)| share.keys)
        .column(Column::count("bytes"), |(_, share)| share.bytes)
        .finish();
    section.table(table);
    let drawn = &rows[..rows.len().min(PREFIXES_DRAWN)];
    let names = || drawn.iter().map(|(name, _)| name.clone()).collect();
    let values = |of: fn(&Share) -> u64| drawn.iter().map(|row| of(&row.1) as f64).collect();
    let keys = values(|share| share.keys);
    section.plot(bars(&format!("{heading}: keys"), "keys", names(), keys));
    let bytes = values(|share| share.bytes);
    section.plot(bars(&format!("{heading}: size"), "bytes", names(), bytes));
}

fn bars(title: &str, unit: &str, names: Vec<String>, values: Vec<f64>) -> Plot {
    let axis = Axis::linear(unit).from_zero();
    Plot::bars(
        title,
        axis,
        names,
        vec![Bars::new(unit, values.into_iter().map(Some).collect())],
    )
}

/// Returns the contents of a file as JSON.
pub fn json(contents: &Contents) -> Value {
    let share =
        |name: &str, share: Share| json!({"name": name, "keys": share.keys, "bytes": share.bytes});
    let survey = contents.survey();
    let types = contents.types().iter().map(|(name, sums)| {
        json!({
            "type": name,
            "keys": sums.keys,
            "with_ttl": sums.with_deadline,
            "expired": sums.expired,
            "elements": sums.elements,
            "elements_with_ttl": sums.elements_with_deadline,
            "bytes": sums.bytes,
        })
    });
    let largest = survey.largest().into_iter().map(|one| {
        json!({
            "key": shown(&one.key),
            "type": one.kind,
            "database": one.database,
            "bytes": one.bytes,
            "elements": one.elements,
            "ttl_ms": one.ttl_ms,
        })
    });
    let databases = contents.databases().iter();
    let ttls = survey.ttls().into_iter().map(|row| share(row.0, row.1));
    let sizes = survey.sizes().into_iter().map(|row| share(&row.0, row.1));
    let prefixes = survey.prefixes().into_iter();
    json!({
        "format": contents.origin(),
        "empty": contents.empty(),
        "types": types.collect::<Vec<_>>(),
        "databases": databases.map(|(number, keys)| json!({"database": number, "keys": keys})).collect::<Vec<_>>(),
        "ttls": ttls.collect::<Vec<_>>(),
        "sizes": sizes.collect::<Vec<_>>(),
        "prefixes": prefixes.map(|row| share(&row.0, row.1)).collect::<Vec<_>>(),
        "largest": largest.collect::<Vec<_>>(),
    })
}
