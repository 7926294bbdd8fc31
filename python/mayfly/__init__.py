"""Simulate eviction policies on traces, get advice on policy and memory, and cache with deadlines.

Simulation: :func:`simulate`, :func:`sweep`, :func:`curve`, :func:`analyze`, :func:`advise`,
:func:`generate`. Requests come from files, NumPy arrays, pandas, Polars and Arrow tables; results are
a :class:`Table`, which Arrow libraries read without a copy.

Cache: :class:`Cache` and :func:`cached`.

Libraries such as NumPy, pandas, Polars, PyArrow, matplotlib, tqdm, Dask and Ray are imported when a
call needs them, and none is required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from _collections_abc import MutableMapping

from ._native import Cache, ManualClock, TraceError, policies, version

if TYPE_CHECKING:
    from ._advice import Advice, Analysis, advise, analyze
    from ._cached import cached
    from ._distribute import sweep
    from ._input import Trace, load
    from ._simulate import curve, generate, simulate
    from ._table import Table

__version__: str = version

MutableMapping.register(Cache)

__all__ = [
    "Advice",
    "Analysis",
    "Cache",
    "ManualClock",
    "Table",
    "Trace",
    "TraceError",
    "__version__",
    "advise",
    "analyze",
    "cached",
    "curve",
    "generate",
    "load",
    "policies",
    "simulate",
    "sweep",
]

# Modules are imported when one of their names is first used, so that a program that only caches does
# not load the simulator's part.
_HOMES = {
    "Advice": "_advice",
    "Analysis": "_advice",
    "advise": "_advice",
    "analyze": "_advice",
    "cached": "_cached",
    "sweep": "_distribute",
    "Trace": "_input",
    "load": "_input",
    "curve": "_simulate",
    "generate": "_simulate",
    "simulate": "_simulate",
    "Table": "_table",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
