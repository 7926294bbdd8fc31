"""Sources of requests: files, arrays and tables."""

from __future__ import annotations

import array
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from . import _native
from ._options import ReadOptions, split
from ._progress import progress_bar

if TYPE_CHECKING:
    # What a trace may be given as: a path or URL, an array or iterable of keys, columns by name, a
    # table of pandas, Polars or Arrow, or a Trace.
    Requests = Union[str, "os.PathLike[str]", "Trace", Mapping[str, Any], Iterable[Any], Any]

# Length in seconds of the units of NumPy's dates and spans.
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "h": 3600.0, "D": 86400.0}


class Trace:
    """A trace in memory, ready for any number of replays.

    It is made by :func:`load`. ``len(trace)`` is the number of requests.
    """

    def __init__(self, native: _native.Trace, interning: dict[str, Any]) -> None:
        self._native = native
        self._interning = interning

    @property
    def name(self) -> str:
        """Name of the trace in results."""
        return self._native.name

    @property
    def objects(self) -> int:
        """Number of distinct keys."""
        return self._native.objects

    @property
    def footprint_bytes(self) -> int:
        """Total size of all objects at their first request, in bytes."""
        return self._native.footprint_bytes

    @property
    def has_sizes(self) -> bool:
        """Whether any object is larger than one byte."""
        return self._native.has_sizes

    @property
    def has_ttls(self) -> bool:
        """Whether any object has a TTL."""
        return self._native.has_ttls

    @property
    def has_time(self) -> bool:
        """Whether the trace has timestamps."""
        return self._native.has_time

    @property
    def memory_bytes(self) -> int:
        """Memory that the trace takes, in bytes."""
        return self._native.memory_bytes

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<mayfly.Trace {self.name!r}: {len(self)} requests for {self.objects} objects>"


def load(
    requests: Requests, *, name: str | None = None, progress: bool = False, **options: Any
) -> Trace:
    """Reads a trace into memory, so that several calls can replay it.

    >>> trace = load("requests.csv")
    >>> table = mayfly.simulate(trace, ["lru", "sieve"], ["1%", "10%"])

    requests: a path or URL; a one-dimensional array, list or generator of keys (integers, or text);
        a mapping of column names to arrays of equal length; a table of pandas, Polars or Arrow.
        The columns are ``key``, ``time`` (seconds) or ``time_ms``, ``size`` (bytes), ``ttl`` (seconds)
        or ``ttl_ms``, ``op`` (``"get"``, ``"set"``, …), ``key_size``, ``value_size``, ``client``,
        ``next``; others are ignored. Integers and floats are read in place.
    name: name of the trace in results; by default the name of the file.
    progress: whether to show a progress bar.
    options: ``format``, ``columns`` and ``skip_bad`` for files, and these :class:`ReplayOptions`:
        ``sample``, ``ttl_mix``, ``ignore_ttl``, ``request_rate``, ``memory_limit`` and ``seed``.
    """
    reading, replaying = split(options)
    if isinstance(requests, Trace):
        return requests
    source = source_of(requests, name, reading)
    with progress_bar(progress, "reading") as report:
        native = _native.Trace(source, replaying, report)
    return Trace(native, replaying)


def source_of(requests: Requests, name: str | None, reading: ReadOptions) -> _native.Source:
    """Returns the native source of requests."""
    if isinstance(requests, Trace):
        raise TypeError("a Trace can only be replayed: expected a file, an array or a table")
    if isinstance(requests, (str, os.PathLike)):
        return _of_path(os.fspath(requests), name, reading)
    given = [option for option, value in reading.items() if value]
    if given:
        raise TypeError(f"{given[0]}: expected only for a file")
    name = name or "requests"
    if isinstance(requests, Mapping):
        return _of_columns(name, requests)
    module = type(requests).__module__.partition(".")[0]
    if module == "pandas" and hasattr(requests, "columns"):
        frame: Any = requests
        for column in frame.columns[frame.columns.duplicated()]:
            if column in _native.field_names:
                raise ValueError(f"column {column!r}: the table has several columns of this name")
        return _of_columns(name, {column: frame[column] for column in frame.columns})
    if module == "polars" and hasattr(requests, "collect"):
        raise TypeError("requests of type LazyFrame: expected a DataFrame, which collect() returns")
    if hasattr(requests, "__arrow_c_stream__") and hasattr(requests, "columns"):
        return _native.Source.arrow(name, requests)
    fields = getattr(getattr(requests, "dtype", None), "names", None)
    if fields:
        structured: Any = requests
        return _of_columns(name, {field: structured[field] for field in fields})
    if isinstance(requests, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"requests of type {type(requests).__name__}: expected a path, an array of keys or a table"
        )
    return _of_columns(name, {"key": requests})


def _of_path(path: str, name: str | None, reading: ReadOptions) -> _native.Source:
    from ._remote import is_remote, local_copy

    shown = name or stem(path)
    if is_remote(path):
        path = local_copy(path)
    return _native.Source.file(
        shown, path, reading["format"], reading["columns"], bool(reading["skip_bad"])
    )


def stem(path: str) -> str:
    """Returns the file name without the endings of its format and compression."""
    name = path.rstrip("/").rsplit("/", 1)[-1]
    for ending in (".zst", ".gz", ".xz"):
        name = name.removesuffix(ending)
    name = name.removesuffix(".bin")
    return name.rpartition(".")[0] or name


def _of_columns(name: str, columns: Mapping[str, Any]) -> _native.Source:
    prepared = {}
    for column, values in columns.items():
        if column in _native.field_names:
            prepared[column] = _column(column, values)
    return _native.Source.columns(name, prepared)


def _column(name: str, values: Any) -> tuple[Any, float]:
    """Returns a column for the native module, and the length of its time unit in seconds."""
    if isinstance(values, (str, bytes)) or isinstance(values, Mapping):
        raise TypeError(
            f"column {name!r}: {type(values).__name__}: expected an array, a list or a generator"
        )
    module = type(values).__module__.partition(".")[0]
    if module in ("pandas", "polars", "pyarrow"):
        values = _of_library(name, values)
    if hasattr(values, "__array_interface__"):
        _refuse_masked(name, values)
        return _array(name, values)
    if name in ("key", "id", "obj_id", "op", "operation") and not hasattr(values, "__array__"):
        if not isinstance(values, Iterable):
            raise TypeError(f"column {name!r}: {type(values).__name__}: expected an array of keys")
        return values, 1.0
    try:
        import numpy
    except ImportError:
        return _without_numpy(name, values)
    return _array(name, numpy.asarray(values if hasattr(values, "__array__") else list(values)))


def _without_numpy(name: str, values: Any) -> tuple[Any, float]:
    """Converts a list of numbers to an array that the native module can read in place."""
    try:
        return _Numbers("d", values), 1.0
    except (TypeError, OverflowError) as error:
        raise TypeError(f"column {name!r}: {error}: expected numbers") from None


class _Numbers(array.array):  # type: ignore[type-arg]
    """An ``array.array`` with the array interface of NumPy."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        address, length = self.buffer_info()
        return {
            "typestr": f"{'<' if sys.byteorder == 'little' else '>'}f8",
            "shape": (length,),
            "strides": None,
            "data": (address, True),
            "version": 3,
        }


def _of_library(name: str, values: Any) -> Any:
    """Converts a column of pandas, Polars or PyArrow to an array without a copy where it can."""
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        if values.isna().any():
            row = int(values.isna().to_numpy().argmax())
            raise ValueError(f"column {name!r}, row {row}: null: fill or drop nulls first")
        array = values.to_numpy()
        if array.dtype == object and str(values.dtype)[:1].lower() in "iuf":
            # The column has a masked or an Arrow type of numbers.
            array = values.to_numpy(dtype=str(values.dtype).partition("[")[0].lower())
        return array
    if module == "polars":
        if values.null_count():
            row = values.is_null().arg_max()
            raise ValueError(f"column {name!r}, row {row}: null: fill or drop nulls first")
        return values.to_numpy() if values.dtype.is_numeric() or values.dtype.is_temporal() else values
    if values.null_count:
        row = values.is_null().to_pylist().index(True)
        raise ValueError(f"column {name!r}, row {row}: null: fill or drop nulls first")
    return values.to_numpy(zero_copy_only=False)


def _refuse_masked(name: str, array: Any) -> None:
    """Raises an error if a ``numpy.ma`` array has a masked entry, whose value has no meaning."""
    # Only arrays of numpy.ma have a fill value.
    if not (hasattr(array, "mask") and hasattr(array, "fill_value")):
        return
    import numpy

    mask = numpy.ma.getmaskarray(array)
    if mask.any():
        row = int(mask.argmax())
        raise ValueError(f"column {name!r}, row {row}: masked: fill or drop masked entries first")


def _array(name: str, array: Any) -> tuple[Any, float]:
    described = array.__array_interface__["typestr"]
    kind = described[1]
    if kind in "OUS":
        if name not in ("key", "id", "obj_id", "op", "operation"):
            if kind == "O":
                raise TypeError(f"column {name!r}: an array of objects: expected numbers")
            raise TypeError(f"column {name!r}: an array of text: expected numbers")
        return array.tolist(), 1.0
    if kind in "Mm":
        import numpy

        unit, count = numpy.datetime_data(array.dtype)
        if unit not in _SECONDS:
            raise TypeError(f"column {name!r}: dtype {array.dtype}: expected a unit of days or finer")
        if numpy.isnat(array).any():
            row = int(numpy.isnat(array).argmax())
            raise ValueError(f"column {name!r}, row {row}: NaT: fill or drop nulls first")
        return array.view(array.dtype.str.replace(kind, "i", 1).partition("[")[0]), (
            _SECONDS[unit] * count
        )
    return array, 1.0
