//! Every part of a page once: `cargo run -p mayfly-report --example gallery > gallery.html`.

use report::{Axis, Bars, Boxed, Cell, Cloud, Heat, Line, Page, Plot, Table};

fn wave(phase: f64, count: u32) -> Vec<(f64, f64)> {
    let point = |i| {
        (
            f64::from(i) / 10.0,
            300.0 + 120.0 * (f64::from(i) / 40.0 + phase).sin(),
        )
    };
    (0..count).map(point).collect()
}

fn main() {
    let mut page = Page::new("Every part of a page: “quotes”, <tags> & signs");
    page.command("cargo run -p mayfly-report --example gallery > gallery.html")
        .fact("machine", "2 cores, 23.4 GiB")
        .fact("version", "0.1.0");
    lines(&mut page);
    bars(&mut page);
    let section = page.section("Heat-maps and tables");
    let columns = (0..48).map(|hour| format!("{hour} h")).collect();
    let rows = (0..12).map(|power| format!("{} B", 1 << power)).collect();
    let value = |i: u32| (i % 7 != 3).then(|| f64::from(i * i % 9001 + 1));
    let heat = Heat::new(columns, rows, (0..48 * 12).map(value).collect(), "objects").log();
    section.plot(Plot::heat("Sizes over time", "time", "size", heat));
    let mut table =
        Table::new(&["index", "peak", "rate, 1/s", "note"]).with_caption("Sort by any column.");
    for (name, peak, rate) in [("wheel", 310.5, 120_000.0), ("sampled", 512.0, 117_500.0)] {
        let peak = Cell::Shown(peak, format!("{peak} MiB"));
        table.row(vec![name.into(), peak, Cell::Number(rate), "<b>".into()]);
    }
    table.row(vec!["none".into(), Cell::Empty, Cell::Empty, "".into()]);
    section.table(table);
    print!("{}", page.to_html());
}

fn lines(page: &mut Page) {
    let section = page.section("Lines and points");
    section.text("Hover over a plot, or focus it and use the arrow keys.");
    let band = wave(0.0, 600)
        .into_iter()
        .map(|(x, y)| (x, y * 0.9, y * 1.1));
    let lines = (0..9).map(|i| Line::new(&format!("series {i}"), wave(f64::from(i) / 2.0, 600)));
    let mut lines: Vec<Line> = lines.collect();
    lines[0] = lines[0].clone().with_band(band.collect());
    let (x, y) = (Axis::linear("seconds"), Axis::linear("MiB").from_zero());
    section.plot(Plot::lines("Nine lines, one with a band", x, y, lines));
    let curve = |skew: f64| {
        (1..60)
            .map(|i| (f64::from(i * i * 40), f64::from(i).powf(-skew)))
            .collect()
    };
    let lines = vec![
        Line::new("LRU", curve(0.7)),
        Line::new(
            "a policy whose name is rather long, indeed longer than narrow windows",
            curve(1.1),
        ),
    ];
    let (x, y) = (Axis::log("objects"), Axis::log("miss ratio"));
    section.plot(Plot::lines("Logarithmic axes", x, y, lines));
    let cloud = |shift: u32| {
        let point = |i: u32| {
            (
                f64::from(i * 7919 % 1000 + 1),
                f64::from((i * 104_729 + shift) % 997 + 1),
            )
        };
        (0..60).map(point).collect()
    };
    let clouds = vec![Cloud::new("hot", cloud(0)), Cloud::new("cold", cloud(400))];
    let (x, y) = (Axis::linear("age"), Axis::log("size, bytes"));
    section.plot(Plot::scatter("Points", x, y, clouds));
}

fn bars(page: &mut Page) {
    let section = page.section("Bars and boxes");
    let names: Vec<String> = ["120×1000", "60×1000", "240×1000", "1200×100", "600×100"]
        .map(String::from)
        .to_vec();
    let values = |shift: f64| {
        (0..5)
            .map(|i| Some(f64::from(i) * 12.0 - 8.0 + shift))
            .collect()
    };
    let ranges = (0..5).map(|i| Some((f64::from(i) * 10.0 - 12.0, f64::from(i) * 14.0 - 2.0)));
    let series = vec![
        Bars::new("peak", values(0.0)).with_ranges(ranges.collect()),
        Bars::new("mean", values(3.0)),
    ];
    section.plot(Plot::bars(
        "Reduction",
        Axis::linear("per cent"),
        names,
        series,
    ));
    let sample = |i: u32| -> Vec<f64> { (1..40).map(|j| f64::from(j * j % 37 + i)).collect() };
    let boxes = (0..4).filter_map(|i| Boxed::of_sample(&format!("policy {i}"), &sample(i * 3)));
    section.plot(Plot::boxes(
        "Boxes",
        Axis::linear("misses"),
        boxes.collect(),
    ));
}
