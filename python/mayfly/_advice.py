"""Analysis of workloads, and advice on policy and cache size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _native
from ._input import source_of
from ._options import split
from ._progress import progress_bar
from ._simulate import check_sample, policy_names, size_text
from ._table import inline

if TYPE_CHECKING:
    from ._input import Requests
    from ._simulate import Size

CANDIDATES = ("lru", "clock", "sieve", "s3fifo", "s3fifo-w", "arc", "twoq", "lirs", "w-tinylfu")
OBJECTS_DEFAULT = 1_800_000


class _Document:
    """A result that can be read as a dictionary, as text and as an HTML page."""

    def __init__(self, data: dict[str, Any], text: str, page: str) -> None:
        self.data = data
        self._text = text
        self._page = page

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __repr__(self) -> str:
        return self._text

    def to_text(self) -> str:
        """Returns the text that the ``mayfly`` command prints."""
        return self._text

    def to_html(self) -> str:
        """Returns the HTML page that the ``mayfly`` command writes with ``--html``."""
        return self._page

    def _repr_html_(self) -> str:
        return inline(self._page)


class Analysis(_Document):
    """Description of a workload: ``data`` has the fields of ``mayfly trace analyze --json``."""


class Advice(_Document):
    """Advice on policy and memory: ``data`` has the fields of ``mayfly sim advise --json``."""

    @property
    def policy(self) -> str:
        """Name of the recommended policy."""
        return str(self.data["recommendation"]["policy"])

    @property
    def cache_size(self) -> int:
        """Recommended cache size in bytes, or in objects for a trace without sizes."""
        return int(self.data["recommendation"]["cache_size"])

    @property
    def miss_ratio(self) -> float:
        """Expected miss ratio of the recommended policy and size."""
        return float(self.data["recommendation"]["miss_ratio"])


def analyze(
    requests: Requests,
    *,
    objects: int = OBJECTS_DEFAULT,
    name: str | None = None,
    progress: bool = False,
    **options: Any,
) -> Analysis:
    """Describes a workload: popularity, sizes, TTLs, working sets, one-hit wonders, scans.

    requests, name, progress: as in :func:`simulate`.
    objects: maximum number of objects to track, at about 140 bytes each. If the trace has more, a
        sample of the keys is tracked.
    options: ``ttl_mix``, ``seed``, and the options for files.
    """
    import json

    if not 1 <= objects < 1 << 32:
        raise ValueError(f"objects {objects}: expected 1 to {(1 << 32) - 1}")
    reading, replaying = split(options)
    source = source_of(requests, name, reading)
    with progress_bar(progress, "analyze") as report:
        data, text, page = _native.analyze(source, objects, replaying, report)
    return Analysis(json.loads(data), text, page)


def advise(
    requests: Requests,
    *,
    memory: Size | None = None,
    target_miss_ratio: float | None = None,
    policies: str | Iterable[str] = CANDIDATES,
    sample_only: bool = False,
    sample_share: float = 0.01,
    sample_objects: int = 16384,
    name: str | None = None,
    progress: bool = False,
    **options: Any,
) -> Advice:
    """Recommends a policy and a cache size, and reports what TTLs cost.

    requests, name, progress, options: as in :func:`simulate`.
    memory: available memory: a number of bytes (objects for a trace without sizes), or a text such as
        ``"2gb"`` or ``"10%"``.
    target_miss_ratio: miss ratio to be reached, above 0 and below 1.
    policies: policies to choose from. LRU is always included for comparison.
    sample_only: whether to skip the full replay that confirms the result of the sample.
    """
    import json

    if target_miss_ratio is not None and not 0 < target_miss_ratio < 1:
        raise ValueError(f"target_miss_ratio {target_miss_ratio}: expected a number above 0 and below 1")
    check_sample(sample_share, sample_objects)
    reading, replaying = split(options)
    source = source_of(requests, name, reading)
    limit = None if memory is None else size_text(memory)
    sample = (sample_share, sample_objects)
    with progress_bar(progress, "advise") as report:
        data, text, page = _native.advise(
            source, policy_names(policies), limit, target_miss_ratio, sample, sample_only,
            replaying, report,
        )
    return Advice(json.loads(data), text, page)
