"""The loops over rows: Numba functions, arrays in and arrays out, no knowledge of streams or windows.

Every kernel is declared with ``@kernel(signature, ...)``: it releases the GIL, is compiled for exactly those
signatures and kept in a cache directory that only its owner can read (the cache files are pickles, so a
shared temporary folder would let another user run code here). ``ready()`` loads or compiles those that every
join needs, once per process, and says so when a compilation is going to take a while. Those of an index that
few joins use come when the first index of its kind is made: ``ready("sort_tree")``.

Cost        a warm cache loads in well under a second; a cold one compiles in about ten seconds.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numba.core.config
import numba.types

Kernel = Callable[..., Any]
types: Any = numba.types  # neither is typed
config: Any = numba.core.config
njit: Any = numba.njit  # this is, but without the options it has

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
    "search", "merge", "order", "expand", "gather", "chores", "buckets", "marks", "llat", "partition", "wib_nodes", "wib_leaves",
)  # fmt: skip

ON_DEMAND = (
    "bplus_tree",
    "bit_sets",
    "id_sets",
    "css_tree",
    "po_join",
    "further_keys",
    "sort_tree",
    "cell_runs",
    "nested",
    "deal",
)

_declared: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}
_compiled: set[Any] = set()
_loaded: frozenset[str] = frozenset()
_lock = threading.Lock()


def cache_directory() -> Path:
    """The owner-only directory of compiled kernels; made if it is missing.

    ``SLIDEJOIN_CACHE`` names another place, for example where the home directory is read-only.
    """
    base = (
        os.environ.get("SLIDEJOIN_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    )
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    directory = Path(base) / "slidejoin" / f"numba-{numba.__version__}-{python}-{_edition()}"
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


@lru_cache
def _edition() -> str:
    """A name for the kernels as they are, all together.

    What a kernel calls is compiled into it, but Numba looks for changes in a kernel's own file only: it would go on with
    what another file had before an update.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def kernel(*signatures: Any, borrows: bool = False) -> Callable[[Kernel], Kernel]:
    """Declare a kernel with its signatures; it is compiled or loaded by ``ready()``.

    One that ``borrows`` its arrays from a caller that holds them all the while does not count who else does. Numba
    would, with a locked instruction whenever an array is taken out of a tuple or handed on, and does not compile a
    kernel that borrows and makes arrays of its own.
    """

    def declare(function: Kernel) -> Kernel:
        # Numba reads the cache directory while decorating; it is put back so that kernels of the
        # application that imports us keep theirs.
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_directory())
        try:
            compiled: Kernel = njit(nogil=True, cache=True, _nrt=not borrows)(function)
        finally:
            config.CACHE_DIR = before
        _declared.setdefault(function.__module__, []).append((compiled, signatures))
        return compiled

    return declare


def inlined(function: Kernel) -> Kernel:
    """Declare a part of kernels: it is compiled with each that calls it."""
    compiled: Kernel = njit(inline="always")(function)
    return compiled


def part(function: Kernel) -> Kernel:
    """Declare a part of one kernel that is compiled with it, as a function of its own."""
    compiled: Kernel = njit(nogil=True)(function)
    return compiled


def ready(*modules: str, quiet: bool = False) -> None:
    """Load kernels from the cache, or compile those that are missing, saying so on stderr.

    Those of every join, and ``modules`` of ``ON_DEMAND`` that are about to be used.
    """
    global _loaded  # noqa: PLW0603 - one set for the process, replaced whole so that reading needs no lock
    wanted = (*MODULES, *modules)
    if _loaded.issuperset(wanted):
        return
    with _lock:
        said = quiet
        for module in wanted:
            if module in _loaded:
                continue
            name = f"{__name__}.{module}"
            import_module(name)
            if not config.DISABLE_JIT:
                for compiled, signatures in _declared[name]:
                    if compiled in _compiled:  # before an interruption; no more signatures can be compiled
                        continue
                    if not said and not _cached(compiled):
                        _say(modules)
                        said = True
                    for signature in signatures:
                        compiled.compile(signature)
                    _compiled.add(compiled)
                    compiled.disable_compile()
            _loaded |= {module}


def _say(modules: tuple[str, ...]) -> None:
    what, seconds = ("kernels", 30) if not modules else (f"kernels of {modules[-1]}", 10)
    sys.stderr.write(f"slidejoin: compiling {what}, once for this machine (about {seconds} s) ...\n")
    sys.stderr.flush()


def _cached(compiled: Any) -> bool:
    """Whether the cache has the kernel as its source is now."""
    return bool(compiled._cache._cache_file._load_index())  # noqa: SLF001 - Numba has no public question for it
