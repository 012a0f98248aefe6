"""How this package compiles: one decorator for kernels, one for the formulas they call.

A formula is plain Python that also works on NumPy arrays; a kernel may call it from another file. Numba
keys its on-disk cache by the file of the kernel alone, so an edited formula would leave a stale kernel
behind (numba#1833). The cache folder is therefore named by a hash of all sources of the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.extending import register_jitable

formula: Callable[..., Any] = register_jitable
"""Mark a closed form as callable from a compiled kernel; called from Python it stays plain Python."""


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _candidates() -> Iterator[Path]:
    """Folders to try, best first; the package's own is not among them, since an install may be read-only."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "midfill" / _source_hash()
    with contextlib.suppress(OSError):  # no temporary folder either
        user = os.getuid() if hasattr(os, "getuid") else None
        ours = Path(tempfile.gettempdir()) / f"midfill-{user}"
        ours.mkdir(mode=0o700, exist_ok=True)
        if user is None or ours.stat().st_uid == user:  # loading a kernel runs it: not from a folder that somebody else made
            yield ours / _source_hash()


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:
        return False
    return True


def cache_folder() -> str | None:
    """Folder for compiled kernels: NUMBA_CACHE_DIR, the user's cache, or the temporary folder; None if no place is writable."""
    found = next(filter(_is_writable, _candidates()), None)
    if found is None:
        warnings.warn("no writable folder for compiled kernels: they compile anew in every process", stacklevel=2)
    return None if found is None else str(found)


_CACHE_FOLDER = cache_folder()


def compiling_note() -> str:
    """One sentence if kernels are not in the cache yet, which says how long compiling takes and where they are kept; else empty."""
    if _CACHE_FOLDER is None:
        return "Compiling kernels, 10 to 15 seconds of one core; no folder is writable, so that every process does it again."
    if next(Path(_CACHE_FOLDER).rglob("kernels.evaluate*.nbi"), None) is not None:
        return ""
    return f"Compiling kernels once, 10 to 15 seconds of one core; they are kept in {_CACHE_FOLDER}."


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # Numba reads the folder when a function is decorated; setting it only here leaves other packages' caches alone.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE_FOLDER or ""
    try:
        return numba.njit(nogil=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a loop over bare floats and arrays, cached on disk, without fastmath, releasing the GIL."""
    return _compiled(function, cache=_CACHE_FOLDER is not None)


def bare_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no arrays of its own: all are handed in, and none is counted.

    Counting references is most of the time of a kernel that passes arrays to short parts, and threads that count the
    same array wait for each other.
    """
    return _compiled(function, cache=_CACHE_FOLDER is not None, _nrt=False)


def bare_part(function: Callable[..., Any]) -> Any:
    """A part of a `bare_kernel` of the same file, pasted into it."""
    return _compiled(function, cache=_CACHE_FOLDER is not None, forceinline=True, _nrt=False)
