"""Pages of reports in a headless browser: each kind is made, opened, and compared with the JSON of its run.

    .venv/bin/python -m pytest tests/browser --server target/release/mayfly
    .venv/bin/python -m pytest tests/browser --screenshots FOLDER        and look at them

A check is a function `test_…(desk)`. Every page is opened light and dark, wide and narrow, and must
load nothing, say nothing on the console, keep inside its window, sort its tables and tell its points.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from view import Cell, Plot, Table, View, launch

VIEWS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
SIZE_MAX = 1_500_000
LIMIT_S = 300
UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


class Desk:
    """Environment of a check: a program, a browser, a folder, and a trace with all optional fields."""

    def __init__(self, mayfly: str, browser, folder: Path, screenshots: Path | None):
        self.mayfly = str(Path(mayfly).resolve())
        self.browser = browser
        self.folder = folder
        self.screenshots = screenshots
        self.trace = folder / "made.csv"
        recipe = "--requests 60k --objects 5k --pattern zipf:0.9@80+scan:1000@20 --size lognormal:200:1"
        self.run("trace", "generate", self.trace, *recipe.split(), *"--ttl-mix cluster4 --write-share 0.2 --request-rate 500".split())

    def run(self, *words) -> bytes:
        command = [self.mayfly, *words]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr.decode(errors='replace')}"
        return done.stdout

    def report(self, name: str, *words) -> tuple[dict | list, list[Table], list[Plot]]:
        """Returns a run's JSON and the content of its page, which is checked in every view."""
        path = self.folder / f"{name}.html"
        expected = json.loads(self.run(*words, "--json", "--html", path))
        size = path.stat().st_size
        assert size <= SIZE_MAX, f"{path.name} takes {size} bytes"
        faults, read, loads = [], None, []
        for scheme, width in VIEWS:
            view = View(self.browser, path, scheme, width)
            view.look()
            tables, plots = view.tables(), view.plots()
            check_hover(view, plots)
            if self.screenshots:
                view.page.mouse.move(0, 0)
                view.page.screenshot(path=self.screenshots / f"{name}-{scheme}-{width}.png", full_page=True)
            if read is None:
                read = (tables, plots)
                check_sorting(view, tables)
                check_print(view)
            else:
                assert tables == read[0], f"{view.name}: tables differ from those of the first view"
            loads.append(view.load_ms)
            faults += view.close()
        assert not faults, "\n".join(faults)
        print(f"     {path.name}: {size / 1000:.0f} kB, {len(read[0])} tables, {len(read[1])} plots, open after {min(loads):.0f} to {max(loads):.0f} ms")
        return expected, *read


@pytest.fixture(scope="module")
def desk(pytestconfig, tmp_path_factory):
    screenshots = pytestconfig.option.screenshots
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield Desk(pytestconfig.option.server, browser, tmp_path_factory.mktemp("reports"), screenshots)
        browser.close()


def check_hover(view: View, plots: list[Plot]) -> None:
    """The pointer and the arrow keys show the values of points."""
    for index, plot in enumerate(plots):
        places = [(x, y) for x, y, _ in plot.points]
        for at in sorted({0, len(plot.points) // 2, len(plot.points) - 1} & set(range(len(plot.points)))):
            # Of overlapping points the first is shown.
            wanted = plot.points[places.index(places[at])][2]
            shown = view.hover(index, plot.points[at])
            assert shown == wanted, f"{view.name}: {plot.title!r} shows {shown!r} for {wanted!r}"
    if plots and len(plots[0].points) > 1:
        assert view.walk(0, "ArrowRight", 2) == plots[0].points[1][2]
        assert view.walk(0, "ArrowLeft", 2) == plots[0].points[-1][2]


def known(cells: list[Cell]) -> list[float]:
    return [cell.value for cell in cells if cell.value is not None]


def check_sorting(view: View, tables: list[Table]) -> None:
    """A click sorts a column of numbers in ascending order, a second one in descending order, unknown values last; no row is lost."""
    for index, table in enumerate(tables):
        for column, name in enumerate(table.header):
            before = [row[column] for row in table.rows]
            if len(known(before)) < 2:
                continue
            up, down = view.sort(index, column), view.sort(index, column)
            values = sorted(known(before))
            assert known(up) == values, f"{view.name}: {table.caption!r} by {name!r} up"
            assert known(down) == values[::-1], f"{view.name}: {table.caption!r} by {name!r} down"
            for cells in (up, down):
                is_known = [cell.value is not None for cell in cells]
                assert is_known == sorted(is_known, reverse=True), f"{name!r}: what is unknown comes last"
            rows = sorted(str(row) for row in view.tables()[index].rows)
            assert rows == sorted(str(row) for row in table.rows), f"{name!r}: rows changed"


def check_print(view: View) -> None:
    view.page.emulate_media(media="print", color_scheme=view.scheme)
    view.look()
    assert len(view.page.pdf()) > 1000


def number(text: str) -> float:
    """Reads a number as pages print it: 12.3k, 1,234, −5."""
    found = re.fullmatch(r"([-−]?[\d,]*\.?\d+(?:e[-+]?\d+)?)([kMG]?)", text.strip())
    assert found, f"{text!r} is not a number"
    return float(found[1].replace("−", "-").replace(",", "")) * UNITS.get(found[2], 1)


def is_near(shown: float, expected: float) -> bool:
    """Pages show four digits, three of very small numbers, and four decimals below one."""
    if abs(expected) < 1e-4:
        return abs(shown - expected) <= 6e-3 * abs(expected) + 1e-12
    return abs(shown - expected) <= max(1e-3 * abs(expected), 5.1e-5)


def points_of(plot: Plot, line: str) -> list[tuple[float, float]]:
    """Points of a line in a plot, without bounds."""
    start = f"{line}: " if line else ""
    texts = [text.removeprefix(start).split(" (")[0].split(", ") for text in plot.texts() if text.startswith(start)]
    assert texts, f"{plot.title!r} has no line {line!r}: {plot.texts()[:3]}"
    return [(number(x), number(y)) for x, y in texts]


def check_line(plot: Plot, line: str, expected: list[tuple[float, float]]) -> None:
    """Every point shown is in the JSON, and the first and the last are shown."""
    shown = points_of(plot, line)
    for x, y in shown:
        assert any(is_near(x, a) and is_near(y, b) for a, b in expected), f"{plot.title!r}, {line!r}: {x}, {y} is not in the JSON"
    for (x, y), (a, b) in [(shown[0], expected[0]), (shown[-1], expected[-1])]:
        assert is_near(x, a) and is_near(y, b), f"{plot.title!r}, {line!r}: {(x, y)} instead of {(a, b)}"


def titled(plots: list[Plot], start: str) -> Plot:
    found = [plot for plot in plots if plot.title == start] or [plot for plot in plots if plot.title.startswith(start)]
    assert len(found) == 1, f"{len(found)} plots called {start!r} among {[plot.title for plot in plots]}"
    return found[0]


def check_numbers(table: Table, column: str, expected: list[float | None]) -> None:
    """A column has these values in this order."""
    cells = table.column(column)
    assert len(cells) == len(expected), f"{table.caption!r}: {len(cells)} rows for {len(expected)}"
    for cell, value in zip(cells, expected):
        if value is None:
            assert cell.value is None and cell.text == "–", f"{column!r}: {cell} for nothing"
        else:
            assert cell.value is not None and is_near(cell.value, value), f"{column!r}: {cell} for {value}"


def test_trace_analyze(desk):
    expected, tables, plots = desk.report("analyze", "trace", "analyze", desk.trace)
    found = {row[0].text: row[1].text for table in tables if table.header == ["measure", "value"] for row in table.rows}
    assert number(found["requests"]) == expected["requests"] == 60_000
    assert number(found["objects"]) == expected["objects"]
    for share in expected["operations"]["shares"]:
        assert number(found[share["op"]].split(" (")[0]) == share["requests"]
    for missing in expected["missing"]:
        assert missing in found.values()
    top = next(table for table in tables if table.header[0] == "object")
    assert [cell.text for cell in top.column("object")] == [str(row["key"]) for row in expected["popularity"]["top"]]
    check_numbers(top, "requests, min", [row["requests_min"] for row in expected["popularity"]["top"]])
    windows = expected["over_time"]["windows"]
    seconds = [window["start"] / 1000 for window in windows]
    rates = titled(plots, "Requests and objects")
    check_line(rates, "requests", [(x, w["requests"]) for x, w in zip(seconds, windows)])
    check_line(rates, "writes", [(x, w["writes"]) for x, w in zip(seconds, windows)])
    sets = titled(plots, "Working set")
    check_line(sets, "all requested so far", [(x, w["state"]["total_objects"]) for x, w in zip(seconds, windows)])
    check_line(sets, "not expired", [(x, w["state"]["live_objects"]) for x, w in zip(seconds, windows)])
    check_line(titled(plots, "Popularity"), "objects", [tuple(point) for point in expected["popularity"]["curve"]])
    check_line(titled(plots, "TTLs given"), "writes", [(ms / 1000, share) for ms, share in expected["ttls"]["ttl_ms"]["curve"]])
    sizes = expected["sizes"]["by_request"]["curve"]
    check_line(next(plot for plot in plots if plot.title == "Sizes"), "by request", [tuple(point) for point in sizes])
    check_heat(titled(plots, "Sizes over time"), expected["over_time"]["size_shares"])


def check_heat(plot: Plot, shares: list[list[float]]) -> None:
    """Each field is the mean of the windows in a column, the largest sizes first."""
    merged = -(-len(shares) // 96)
    columns = [shares[at : at + merged] for at in range(0, len(shares), merged)]
    means = [[sum(window[size] for window in column) / len(column) for column in columns] for size in range(len(shares[0]))]
    wanted = [mean for row in reversed(means) for mean in row if mean > 0]
    shown = [number(text.rsplit(": ", 1)[1].split(" ")[0]) for text in plot.texts()]
    assert len(shown) == len(wanted), f"{len(shown)} fields for {len(wanted)}"
    assert all(is_near(a, b) for a, b in zip(shown, wanted))


def test_a_trace_name_with_special_characters(desk):
    """A name with special characters of HTML, scripts and lines stays text."""
    name = os.fsencode(desk.folder) + b"/\"'>&amp;<img src=x onerror=alert(1)>\n\xff.csv"
    os.link(desk.trace, name)
    expected, tables, _ = desk.report("names", "trace", "analyze", name)
    assert expected["requests"] == 60_000 and tables
    view = View(desk.browser, desk.folder / "names.html", "light", 1280)
    text = view.page.locator("h1").text_content()
    assert "\"'>&amp;<img src=x onerror=alert(1)>\n\ufffd.csv" in text, text
    assert view.page.locator("img").count() == 0
    assert not view.close()


def test_sim(desk):
    expected, tables, plots = desk.report("sim", "sim", desk.trace, *"--policy fifo,lru,s3fifo --size 1%,10% --explain".split())
    table = tables[-1]
    for column in ("cache_size", "requests", "misses", "miss_ratio", "byte_miss_ratio", "evictions"):
        check_numbers(table, column.replace("_", " "), [row[column] for row in expected])
    assert [cell.text for cell in table.column("policy")] == [row["policy"] for row in expected]
    bars = titled(plots, "The miss ratio of each policy")
    shown = {text.rsplit(": ", 1)[0]: number(text.rsplit(": ", 1)[1]) for text in bars.texts()}
    assert len(shown) == len(expected)
    sizes = sorted({row["cache_size"] for row in expected})
    for row in expected:
        size = ("1%", "10%")[sizes.index(row["cache_size"])]
        assert is_near(shown[f"{row['policy']}, {size}"], row["miss_ratio"]), f"{shown} for {row}"
    over_time = titled(plots, "Miss ratio over time, 10%")
    for row in expected:
        if row["cache_size"] == sizes[1]:
            parts = row["miss_ratio_over_time"]
            check_line(over_time, row["policy"], [((at + 1) * 100 / len(parts), ratio) for at, ratio in enumerate(parts)])


def test_sim_of_learned_policies(desk):
    expected, tables, plots = desk.report("learned-sim", "sim", desk.trace, "--policy", "lru,gl-cache:e:group=5", "--size", "10%")
    [row] = [row for row in expected if row["trainings"] is not None]
    [table] = tables
    for column in ("trainings", "model_age", "groups_evicted", "learning_bytes_per_entry", "held_out_correlation"):
        check_numbers(table, column.replace("_", " "), [one[column] for one in expected])
    importances = titled(plots, "Importance of each feature in the last model")
    shares = [part.rsplit(" ", 1) for part in row["feature_importances"].split("; ")]
    for text, (feature, share) in zip(importances.texts(), shares, strict=True):
        assert text.startswith(feature) and abs(number(text.rsplit(": ", 1)[1]) - float(share)) < 1e-3, f"{text!r} for {feature} {share}"
    assert len(points_of(titled(plots, "Targets by fifths"), "gl-cache:e:group=5 10%")) == 5


def test_sim_curve(desk):
    words = "--policy lru,sieve,s3fifo --points 8 --sample-objects 3000"
    expected, tables, plots = desk.report("curve", "sim", "curve", desk.trace, *words.split())
    table = tables[-1]
    for column, field in [("cache size", "cache_size"), ("miss ratio", "miss_ratio"), ("low", "low"), ("high", "high"), ("byte miss ratio", "byte_miss_ratio")]:
        check_numbers(table, column, [row[field] for row in expected])
    ratios, saved = titled(plots, "Miss ratio"), titled(plots, "Misses saved against LRU")
    lru = {row["cache_size"]: row["miss_ratio"] for row in expected if row["policy"] == "lru"}
    for policy in ("lru", "sieve", "s3fifo"):
        rows = [row for row in expected if row["policy"] == policy]
        check_line(ratios, policy, [(row["cache_size"] / 2**20, row["miss_ratio"]) for row in rows])
        for text, row in zip([text for text in ratios.texts() if text.startswith(policy)], rows, strict=True):
            low, high = (number(end) for end in re.search(r"\((.*) to (.*)\)$", text).groups())
            assert is_near(low, row["low"]) and is_near(high, row["high"]), f"{text!r} for {row}"
        savings = [(row["cache_size"] / 2**20, (1 - row["miss_ratio"] / lru[row["cache_size"]]) * 100) for row in rows]
        check_line(saved, policy, savings)


def test_sim_advise(desk):
    words = ["--target-miss-ratio", "60%", "--policy", "lru,sieve,s3fifo", "--sample-objects", "3000"]
    expected, tables, plots = desk.report("advise", "sim", "advise", desk.trace, *words)
    view = View(desk.browser, desk.folder / "advise.html", "light", 1280)
    statements = expected["statements"]
    assert view.items() == [statement["text"] for statement in statements] + expected["left_out"]
    assert not view.close()
    figures = next(table for table in tables if table.header[0] == "topic")
    behind = [(statement["topic"], figure) for statement in statements for figure in statement["figures"]]
    assert [cell.text for cell in figures.column("topic")] == [topic for topic, _ in behind]
    assert [cell.text for cell in figures.column("number")] == [figure["name"] for _, figure in behind]
    check_numbers(figures, "value", [figure["value"] for _, figure in behind])
    found = expected["recommendation"]
    wanted = {found["policy"]: found["miss_ratio"], "lru": found["lru"]["miss_ratio"]}
    shown = dict(text.split(" (")[0].rsplit(": ", 1) for text in titled(plots, "The recommended policy").texts())
    assert shown.keys() == wanted.keys() and all(is_near(number(shown[name]), wanted[name]) for name in wanted), f"{shown} for {wanted}"
    rows = [(named, point) for named in expected["curves"] for point in named["curve"]["points"]]
    points = next(table for table in tables if "cache size" in table.header)
    assert [cell.text for cell in points.column("policy")] == [named["policy"] for named, _ in rows]
    for column, field in [("cache size", "capacity"), ("miss ratio", "miss_ratio"), ("low", "low"), ("high", "high")]:
        check_numbers(points, column, [point[field] for _, point in rows])


def test_bench_expiry_in_process(desk):
    words = "bench expiry in-process --index wheel,lazy,sampled --keys 1k,10k --shape uniform --runs 1"
    expected, tables, plots = desk.report("expiry", *words.split())
    # The table without a caption lists the best index for each measure.
    tables = [table for table in tables if table.caption]
    assert [table.caption for table in tables] == [f"{group['keys']} entries" for group in expected["groups"]]
    fields = {
        "B/item": "bytes_per_item", "filled": "bytes_filled", "with dead": "memory_per_item", "insert ns": "insert_ns",
        "pop": "pop_ns", "CPU": "cpu_ns", "scanned": "scanned_per_expired", "pause µs": "pause_us_max", "lag max": "lag_ms_max",
    }
    for group, table in zip(expected["groups"], tables):
        assert [cell.text for cell in table.column("index")] == [row["index"] for row in group["rows"]]
        for column, field in fields.items():
            check_numbers(table, column, [row[field] for row in group["rows"]])
    for title, field in [("Memory an entry", "memory_per_item"), ("Mean lag", "lag_ms_mean"), ("CPU a verb", "cpu_ns")]:
        bars = titled(plots, title)
        rows = expected["groups"][-1]["rows"]
        assert len(bars.points) == len(rows)
        for text, row in zip(bars.texts(), rows):
            name, value = text.rsplit(": ", 1)
            assert name.startswith(row["index"]) and is_near(number(value), row[field]), f"{text!r} for {row}"


def test_sim_learned(desk):
    words = "--size 10% --unit bytes --round ceiling,baselines,engine,knobs --policy lru,gl-cache:e,gl-cache:e:group=5"
    knobs = "--engine segcache,lru --group 20,60 --fraction 0.02 --merged 2,5 --interval 8 --samples 8192 --trees 16 --depth 6"
    expected, tables, plots = desk.report("learned", "sim", "learned", desk.trace, *words.split(), *knobs.split())
    [table] = [table for table in tables if table.caption.startswith("All results")]
    rows = expected["rows"]
    assert [cell.text for cell in table.column("name")] == [row["name"] for row in rows]
    check_numbers(table, "hit ratio", [row["hit_ratio"] for row in rows])
    check_numbers(table, "bytes an entry", [row["bytes_per_entry"] for row in rows])
    check_numbers(table, "over FIFO", [row["over_fifo"] for row in rows])
    learned = [row["learned"] for row in rows]
    check_numbers(table, "trainings", [one and one["trainings"] for one in learned])
    check_numbers(table, "rank correlation", [one and one["rank_correlation"] for one in learned])
    [learner] = [row for row in rows if (row["study"], row["name"]) == ("baselines", "gl-cache:e:group=5")]
    fifths = titled(plots, "Outcomes, by fifths of the predictions")
    realised = [(part + 1, fifth[1]) for part, fifth in enumerate(learner["learned"]["fifths"])]
    check_line(fifths, f"gl-cache:e:group=5, {learner['trace']} by bytes, 10%", realised)
    importances = titled(plots, "Importance of features, trace by trace")
    assert len(importances.points) == len(learner["learned"]["importances"]) == 9
    for plot in ("Throughput ÷ FIFO’s, 10%, bytes", "Objects in a group (figure 6.13): Throughput", "CPU time of learning", f"{learner['trace']}, 10%"):
        assert titled(plots, plot).points, plot


def test_sim_headlines(desk):
    expected, tables, plots = desk.report("headlines", "sim", desk.trace, "--headlines", "--size", "10%")
    shown = {table.caption: table for table in tables}
    assert expected and plots
    for sheet in expected:
        table = shown[sheet["title"]]
        for cells, row in zip(table.rows, sheet["rows"], strict=True):
            assert table.header == list(row)
            for cell, value in zip(cells, row.values(), strict=True):
                if value is None:
                    assert cell.value is None
                elif isinstance(value, str):
                    assert cell.text == value
                else:
                    assert cell.value == value or is_near(cell.value, value), f"{cell} for {value}"
