"""Plots of tables with matplotlib, in a style for papers: thin lines, no frame, small type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._table import Table

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.linewidth": 0.3,
    "lines.linewidth": 1.1,
    "lines.markersize": 3,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "figure.figsize": (3.3, 2.2),
    "figure.dpi": 150,
    "savefig.bbox": "tight",
}
MARKERS = "osv^Dx*P"


def plot(table: Table, measure: str, axes: Any = None) -> Any:
    """Plots a measure against the cache size, with one line per policy, or as bars for a single size."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'mayfly-cache[plots]'") from error
    for name in ("policy", "cache_size", measure):
        if name not in table:
            raise ValueError(f"plot: the table has no column {name!r}")
    lines: dict[str, list[tuple[int, float]]] = {}
    several = len(set(table["trace"])) > 1 if "trace" in table else False
    for row in table:
        if row[measure] is not None:
            label = f"{row['trace']}: {row['policy']}" if several else row["policy"]
            lines.setdefault(label, []).append((row["cache_size"], row[measure]))
    with plt.rc_context(STYLE):
        if axes is None:
            # This layout is computed when the figure is drawn, so that no label is cut off.
            _, axes = plt.subplots(layout="constrained")
        unit = table["unit"][0] if "unit" in table and len(table) else "units"
        if all(len(points) == 1 for points in lines.values()):
            axes.bar(list(lines), [points[0][1] for points in lines.values()], width=0.6)
            axes.set_xticks(range(len(lines)), list(lines), rotation=45, ha="right")
            axes.grid(visible=False, axis="x")
            axes.set_axisbelow(True)
        else:
            for number, (label, points) in enumerate(lines.items()):
                points.sort()
                marker = MARKERS[number % len(MARKERS)]
                axes.plot(*zip(*points, strict=True), label=label, marker=marker)
            axes.set_xscale("log")
            axes.set_xlabel(f"cache size, {unit}")
            axes.legend()
        axes.set_ylabel(measure.replace("_", " "))
        axes.set_ylim(bottom=0)
    return axes
