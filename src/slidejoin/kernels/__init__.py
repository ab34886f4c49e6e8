"""The loops over rows: Numba functions, arrays in and arrays out, no knowledge of streams or windows.

Every kernel is declared with ``@kernel(signature)``: it releases the GIL, is compiled for exactly that
signature and kept in a cache directory that only its owner can read (the cache files are pickles, so a
shared temporary folder would let another user run code here). ``ready()`` loads or compiles all of them
once per process and says so when a compilation is going to take a while.

Cost        a warm cache loads in well under a second; a cold one compiles in about ten seconds.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numba.core.config
import numba.types

Kernel = Callable[..., Any]
types: Any = numba.types  # neither is typed
config: Any = numba.core.config

# Inputs are declared read-only so that views of Arrow buffers (which are) and our own arrays both fit.
I64 = types.Array(types.int64, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
U8 = types.Array(types.uint8, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
OUT_I64 = types.Array(types.int64, 1, "C")
OUT_I32 = types.Array(types.int32, 1, "C")
OUT_U64 = types.Array(types.uint64, 1, "C")
OUT_U8 = types.Array(types.uint8, 1, "C")

MODULES = (
    "waiting", "search", "merge", "order", "buckets", "expand", "marks", "llat", "partition", "wib_nodes", "wib_leaves",
    "nested",
)  # fmt: skip

_declared: list[tuple[Any, Any]] = []
_ready = threading.Event()
_lock = threading.Lock()


def cache_directory() -> Path:
    """The owner-only directory of compiled kernels; made if it is missing.

    ``SLIDEJOIN_CACHE`` names another place, for example where the home directory is read-only.
    """
    base = (
        os.environ.get("SLIDEJOIN_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    )
    directory = (
        Path(base) / "slidejoin" / f"numba-{numba.__version__}-py{sys.version_info[0]}{sys.version_info[1]}"
    )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    owned = directory.stat()
    if hasattr(os, "getuid") and owned.st_uid != os.getuid():
        raise PermissionError(
            f"the kernel cache {directory} belongs to another user; expected a directory of your own; "
            "set SLIDEJOIN_CACHE to one"
        )
    if owned.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


def kernel(signature: Any) -> Callable[[Kernel], Kernel]:
    """Declare a kernel with its one signature; it is compiled or loaded by ``ready()``."""

    def declare(function: Kernel) -> Kernel:
        # Numba reads the cache directory while decorating; it is put back so that kernels of the
        # application that imports us keep theirs.
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_directory())
        try:
            compiled: Kernel = numba.njit(nogil=True, cache=True)(function)
        finally:
            config.CACHE_DIR = before
        _declared.append((compiled, signature))
        return compiled

    return declare


def ready(*, quiet: bool = False) -> None:
    """Load every kernel from the cache, or compile those that are missing, saying so on stderr."""
    if _ready.is_set():
        return
    with _lock:
        if _ready.is_set():
            return
        for module in MODULES:
            import_module(f"{__name__}.{module}")
        if not config.DISABLE_JIT:
            said = quiet
            for compiled, signature in _declared:
                if not said and not _cached(compiled):
                    sys.stderr.write("slidejoin: compiling kernels, once for this machine (about 20 s) ...\n")
                    sys.stderr.flush()
                    said = True
                compiled.compile(signature)
                compiled.disable_compile()
        _ready.set()


def _cached(compiled: Any) -> bool:
    """Whether the cache has the kernel as its source is now."""
    return bool(compiled._cache._cache_file._load_index())  # noqa: SLF001 - Numba has no public question for it
