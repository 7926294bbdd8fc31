"""Progress bars, drawn by tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[int, int], None]


def bar_class() -> Any:
    """Returns the tqdm class that suits a terminal or a notebook."""
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'mayfly-cache[progress]'") from error
    return tqdm


@contextmanager
def progress_bar(is_wanted: bool, label: str) -> Iterator[Report | None]:
    """Yields a function to be called with the finished and total numbers of requests, or None."""
    if not is_wanted:
        yield None
        return
    bar = bar_class()(desc=label, unit="req", unit_scale=True)

    def report(done: int, total: int) -> None:
        if total and bar.total != total:
            bar.reset(total)
        bar.update(done - bar.n)

    try:
        yield report
    finally:
        bar.close()
