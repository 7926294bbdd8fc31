"""Tables of results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Kind and values of a column. The kind is text (str), count (int), number (float), flag (bool) or list
# (list of float). A missing value is None.
Columns = dict[str, tuple[str, list[Any]]]


class Table:
    """Results of a simulation, in columns.

    ``table["miss_ratio"]`` is a column as a list, ``for row in table`` yields dictionaries, and
    ``len(table)`` is the number of rows. Arrow libraries read the table without PyArrow:
    ``polars.DataFrame(table)``, ``pyarrow.table(table)``.

    ``provenance`` describes the origin of the table: the version, the call and the machine.
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
        """Returns the table as aligned text, with the given columns or the most useful ones."""
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
        """Splits the table into tables of ``count`` rows each, in order."""
        return [
            Table({name: (kind, values[at : at + count]) for name, (kind, values) in self._columns.items()})
            for at in range(0, len(self), count)
        ]

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns a dictionary of column names and lists of values."""
        return {name: list(values) for name, (_, values) in self._columns.items()}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the table through Arrow's C stream interface."""
        return _native.arrow_stream(self._columns)

    def to_arrow(self) -> pyarrow.Table:
        """Returns the table as a PyArrow table."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the table as a pandas data frame. Counts with missing values become floats."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def to_polars(self) -> polars.DataFrame:
        """Returns the table as a Polars data frame."""
        import polars

        return polars.DataFrame(self)

    def to_json(self) -> str:
        """Returns the rows as JSON, with numbers that are read back exactly."""
        import json

        return json.dumps(list(self))

    def to_csv(self) -> str:
        """Returns the table as CSV. The values of a list are separated by spaces."""
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
        """Returns the HTML page that ``mayfly sim --html`` writes, with plots and all columns."""
        if self._page is None:
            needed = ("trace", "policy", "cpu_seconds", "replayed")
            if not all(name in self._columns for name in needed):
                raise ValueError("this table has no HTML page: expected a table of simulate, sweep or curve")
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
        """Plots a measure against the cache size, with one line per policy, or as bars for a single size.

        measure: name of a numeric column.
        axes: matplotlib axes to draw on; new ones if None.

        Returns the axes.
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
    """Returns a page as a notebook frame, which the notebook's styles do not affect."""
    import html

    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" height="{height}" '
        'style="border:0" sandbox="allow-scripts"></iframe>'
    )


def merged(tables: list[Table], provenance: dict[str, Any] | None = None) -> Table:
    """Joins the rows of tables. A column that a table lacks is None in the rows of that table."""
    columns: Columns = {}
    for table in tables:
        for name, (kind, _) in table._columns.items():
            columns.setdefault(name, (kind, []))
    for table in tables:
        for name, (_, values) in columns.items():
            own = table._columns.get(name)
            values.extend(own[1] if own else [None] * len(table))
    return Table(columns, provenance=provenance)
