"""Traces at URLs, which fsspec copies once to a local folder."""

from __future__ import annotations

import os


def is_remote(path: str) -> bool:
    """Returns whether a path is a URL."""
    return "://" in path


def shown(path: str) -> str:
    """Returns a path or URL in the form shown in results, without passwords and signatures."""
    if not is_remote(path):
        return path
    scheme, _, rest = path.partition("://")
    host, slash, name = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{name}"


def local_copy(url: str) -> str:
    """Returns the path of a local copy of a file, and downloads the file if there is none.

    Copies are stored in ``$MAYFLY_CACHE_DIR``, or in ``mayfly`` below the user's cache folder. A copy
    keeps the name of the file, because the extensions select the format, in a folder named after the URL.
    """
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{url}: needs fsspec: pip install 'mayfly-cache[remote]'") from error
    import hashlib
    import tempfile

    base = os.environ.get("MAYFLY_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mayfly"
    )
    folder = os.path.join(base, hashlib.sha256(url.encode()).hexdigest()[:16])
    path = os.path.join(folder, url.split("?")[0].rstrip("/").rsplit("/", 1)[-1])
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    # The file is written under another name first, so that an interrupted copy is never used.
    handle, partial = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as output, fsspec.open(url, "rb") as source:
            while block := source.read(1 << 20):
                output.write(block)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    return path
