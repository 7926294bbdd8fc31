"""The study of the open traces in docs/lab/study.md: measures all of them and writes its tables again.

    python3 docs/lab/study.py --mayfly target/release/mayfly --traces FOLDER [--pages FOLDER]

The text is kept; what stands between `<!-- NAME -->` and `<!-- end -->` is replaced. `--pages` keeps
the page of each analysis. No trace is copied.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parent / "study.md"
TRACES = [
    "twitter_cluster52.csv.zst",
    "ecommerce_recs.txt.zst",
    "orm_busy.txt.zst",
    "web07.txt.zst",
    "web_adaptsize.csv.zst",
    "arc_oltp.lis.zst",
    "arc_p3.lis.zst",
    "arc_p6.lis.zst",
    "cloudphysics.vscsi.zst",
    "lirs_sprite.trc.zst",
    "lirs_multi3.trc.zst",
    "lirs_2pools.trc.zst",
]
MIXES = ["cluster52", "cluster4", "cluster12", "cluster26"]


def share(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.1f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def name_of(file: str) -> str:
    return file.split(".")[0]


def tables(run) -> dict[str, str]:
    """Every table of the document, by its name."""
    analyses = {file: run("trace", "analyze", file, "--json") for file in TRACES}
    popularity, time, one_hit, patterns, sizes, policies = [], [], [], [], [], []
    for file, it in analyses.items():
        name, fit = name_of(file), it["popularity"]["fit"]
        tops = it["popularity"]["top_shares"]
        popularity.append([name, f"{it['requests']:,}", f"{it['objects']:,.0f}", f"{fit['alpha']:.2f}", f"{fit['r_squared']:.3f}", *map(share, tops[:3]), it["popularity"]["deviation"]])
        wonders = it["one_hit_wonders"]
        one_hit.append([name, *(share(wonders[part]) for part in ("whole", "half", "tenth", "hundredth"))])
        found, gaps = it["patterns"], it["reuse"]["gap_requests"]
        patterns.append([name, share(found["sequential_share"]), share(found["first_run_share"]), share(found["successor_share"]), f"{gaps['p50']:,}", f"{gaps['p90']:,}"])
        if it["span_ms"]:
            spikes = it["over_time"]["spikes"]
            writes = it["operations"]["write_ratio"] if it["operations"] else None
            rates = [w["requests"] for w in it["over_time"]["windows"][:-1]]
            seconds = it["over_time"]["width"] / 1000
            time.append([name, f"{it['span_ms'] / 1000:,.0f}", f"{min(rates) / seconds:,.0f}", f"{max(rates) / seconds:,.0f}", str(len(spikes)), str(sum(s["is_of_hot_keys"] for s in spikes)), share(writes)])
        if it["sizes"]:
            own, pair = it["sizes"], it["relations"]["size_popularity"]
            sizes.append([name, f"{own['by_request']['mean']:,.0f}", f"{own['by_request']['p50']:,}", f"{own['by_object']['mean']:,.0f}", f"{own['by_object']['p99']:,}", share(own["changing_share"]), f"{pair['spearman']:+.2f}"])
        rows = run("sim", "curve", file, "--ignore-size", "--policy", "fifo,lru,sieve,s3fifo,s3fifo-w", "--size", "1%,10%", "--json")
        policies.append([name, *(f"{row['miss_ratio']:.3f}" for size in sorted({row['cache_size'] for row in rows}) for row in rows if row["cache_size"] == size)])
    ttl_rows = []
    for mix in MIXES:
        it = run("trace", "analyze", TRACES[0], "--ttl-mix", mix, "--json")
        ttls, last = it["ttls"], it["over_time"]["windows"][-1]["state"]
        ttl_rows.append([mix, f"{ttls['ttl_ms']['mean'] / 1000:,.0f}", f"{ttls['ttl_ms']['min'] / 1000:,.0f}", f"{ttls['range']:,.0f}", share(last["live_objects"] / last["total_objects"]), share(ttls["expired_share"]), share(ttls["unread_share"]), share(ttls["idle_share"])])
    return {
        "popularity": table(["trace", "requests", "objects", "α", "R²", "top 0.1 %, %", "1 %", "10 %", "where it leaves the line"], popularity),
        "time": table(["trace", "seconds", "requests/s, least", "most", "spikes", "of hot keys", "writes, %"], time),
        "ttls": table(["TTLs of", "mean, s", "least, s", "most / least", "live at the end, %", "objects that expire, %", "of these unread, %", "memory × time after the last read, %"], ttl_rows),
        "sizes": table(["trace", "mean by request", "median", "mean by object", "99 %", "objects that change, %", "rank correlation with popularity"], sizes),
        "one-hit": table(["trace", "whole", "50 %", "10 %", "1 % of the objects"], one_hit),
        "patterns": table(["trace", "neighbours, %", "new objects, %", "same successor, %", "median gap", "90 %"], patterns),
        "policies": table(["trace", "fifo, 1 %", "lru", "sieve", "s3fifo", "s3fifo-w", "fifo, 10 %", "lru", "sieve", "s3fifo", "s3fifo-w"], policies),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mayfly", type=Path, default=Path("target/release/mayfly"))
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--pages", type=Path, help="a folder for the page of each analysis")
    chosen = parser.parse_args()
    program = chosen.mayfly.resolve()
    pages = chosen.pages.resolve() if chosen.pages else None
    if pages:
        pages.mkdir(parents=True, exist_ok=True)

    def run(*words: str):
        command = [str(program), *words]
        if pages and words[:2] == ("trace", "analyze"):
            stem = "-".join(name_of(word) for word in words[2:] if not word.startswith("--"))
            command += ["--html", str(pages / f"{stem}.html")]
        done = subprocess.run(command, cwd=chosen.traces, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    text = DOCUMENT.read_text()
    for name, rows in tables(run).items():
        before, found, rest = text.partition(f"<!-- {name} -->\n")
        assert found, f"{DOCUMENT} has no place for {name}"
        text = f"{before}{found}\n{rows}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
