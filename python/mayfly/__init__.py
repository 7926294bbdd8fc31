"""A cache whose entries expire on time, and a simulator of eviction policies.

Cache: :class:`Cache` and :func:`cached`.

>>> import mayfly
>>> cache = mayfly.Cache(1000, ttl=60)
>>> cache["answer"] = 42

Simulation: :func:`simulate`, :func:`sweep`, :func:`curve`, :func:`analyze`, :func:`advise` and
:func:`generate`. They take requests from files, NumPy arrays, and tables of pandas, Polars or Arrow, and
return a :class:`Table`, which Arrow libraries read without a copy.

No other library is required. NumPy, pandas, Polars, PyArrow, matplotlib, tqdm, Dask and Ray are imported
only when a call needs them.
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

# A module is imported when one of its names is first used, so that a program that only caches does not
# load the simulator.
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
