"""Tables of results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Kind of a column and its values: text (str), count (int), number (float), flag (bool) or list
# (list of float). A missing value is None.
Columns = dict[str, tuple[str, list[Any]]]


class Table:
    """Results in columns.

    ``table["miss_ratio"]`` is a column as a list, ``for row in table`` yields dictionaries, and
    ``len(table)`` is the number of rows. Arrow libraries read the table without PyArrow:
    ``polars.DataFrame(table)``, ``pyarrow.table(table)``.

    ``provenance`` says what made the table: version, call and machine.
    """

    def __init__(
        self, columns: Columns, *, page: str | None = None, provenance: dict[str, Any] | None = None
    ) -> None:
        self._columns = columns
        self._page = page
        self.provenance: dict[str, Any] = provenance or {}

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))[1]) if self._columns else 0

    def __getitem__(self, name: str) -> list[Any]:
        try:
            return list(self._columns[name][1])
        except KeyError:
            raise KeyError(f"{name!r}: expected one of {', '.join(self._columns)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = list(self._columns)
        for row in zip(*(values for _, values in self._columns.values()), strict=True):
            yield dict(zip(names, row, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self, columns: list[str] | None = None) -> str:
        """Returns the table as aligned text: the columns given, or those that people compare."""
        shown = columns or [
            name
            for name in ("trace", "policy", "size", "cache_size", "requests", "miss_ratio",
                         "byte_miss_ratio", "evictions", "expirations", "low", "high")
            if name in self._columns and any(value is not None for value in self[name])
        ] or self.columns
        rows = [shown]
        rows.extend([_shown(line[name]) for name in shown] for line in self)
        widths = [max(len(row[at]) for row in rows) for at in range(len(shown))]
        is_text = [self._columns[name][0] == "text" for name in shown]
        lines = []
        for row in rows:
            cells = zip(row, widths, is_text, strict=True)
            line = "  ".join(
                cell.ljust(width) if text else cell.rjust(width) for cell, width, text in cells
            )
            lines.append(line.rstrip())
        return "\n".join(lines)

    def rows_in_parts(self, count: int) -> list[Table]:
        """Returns tables of ``count`` rows each, in order."""
        return [
            Table({name: (kind, values[at : at + count]) for name, (kind, values) in self._columns.items()})
            for at in range(0, len(self), count)
        ]

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns the columns as lists by name."""
        return {name: list(values) for name, (_, values) in self._columns.items()}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the table through Arrow's C stream interface."""
        return _native.arrow_stream(self._columns)

    def to_arrow(self) -> pyarrow.Table:
        """Returns a table of PyArrow."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a data frame of pandas. Missing counts become floats, as pandas has it."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def to_polars(self) -> polars.DataFrame:
        """Returns a data frame of Polars."""
        import polars

        return polars.DataFrame(self)

    def to_json(self) -> str:
        """Returns the rows as JSON; numbers are read back exactly."""
        import json

        return json.dumps(list(self))

    def to_csv(self) -> str:
        """Returns the table as CSV; lists are separated by blanks."""
        import csv
        import io

        output = io.StringIO()
        writer = csv.writer(output, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self:
            writer.writerow(
                [
                    " ".join(map(repr, value)) if isinstance(value, list) else value
                    for value in row.values()
                ]
            )
        return output.getvalue()

    def to_html(self) -> str:
        """Returns the page that ``mayfly sim --html`` writes: plots and all columns."""
        if self._page is None:
            needed = ("trace", "policy", "cpu_seconds", "replayed")
            if not all(name in self._columns for name in needed):
                raise ValueError("this table has no page: expected one of simulate, sweep or curve")
            columns = {name: values for name, (_, values) in self._columns.items()}
            self._page = _native.page_of_replays(columns)
        return self._page

    def _repr_html_(self) -> str:
        try:
            return inline(self.to_html())
        except ValueError:
            import html

            return f"<pre>{html.escape(self.to_text())}</pre>"

    def plot(self, measure: str = "miss_ratio", *, axes: Any = None) -> Any:
        """Plots a measure over the cache size, a line for each policy, or bars at a single size.

        measure: name of a column of numbers.
        axes: matplotlib axes to draw on; new ones if None. Returned.
        """
        from ._plots import plot

        return plot(self, measure, axes)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        return " ".join(f"{number:.4g}" for number in value)
    return str(value)


def inline(page: str, height: int = 720) -> str:
    """Returns a page as a frame for a notebook, apart from the notebook's own styles."""
    import html

    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" height="{height}" '
        'style="border:0" sandbox="allow-scripts"></iframe>'
    )


def merged(tables: list[Table], provenance: dict[str, Any] | None = None) -> Table:
    """Joins the rows of tables. A column that a table lacks is None in its rows."""
    columns: Columns = {}
    for table in tables:
        for name, (kind, _) in table._columns.items():
            columns.setdefault(name, (kind, []))
    for table in tables:
        for name, (_, values) in columns.items():
            own = table._columns.get(name)
            values.extend(own[1] if own else [None] * len(table))
    return Table(columns, provenance=provenance)
