"""What the Spark side needs besides slidejoin itself, looked for before anything else is tried.

PySpark says little when something is missing: without Java the session's process ends, without protobuf the
stateful operator's worker "exited unexpectedly". So they are looked for here, and named.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from slidejoin.errors import SlidejoinError

# What each is for is in docs/dependencies.md; PySpark itself brings neither of the others.
NEEDED = {"pyspark": "pyspark", "pandas": "pandas", "google.protobuf": "protobuf"}


class MissingError(SlidejoinError, ImportError):
    """Something that slidejoin.spark needs is not installed."""


def require_packages() -> None:
    """Refuse to go on without the packages of the ``spark`` extra."""
    absent = [package for module, package in NEEDED.items() if not _found(module)]
    if absent:
        raise MissingError(
            f"{' and '.join(absent)} cannot be imported; expected what slidejoin.spark builds on; "
            "run pip install 'slidejoin[spark]'"
        )


def require_java() -> None:
    """Refuse to go on where no Java can be found."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if not home and shutil.which("java"):
        return
    found = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java was found on the PATH"
    raise MissingError(
        f"{found}; expected Java 17 or newer, which Spark runs on; install one (on Debian or Ubuntu: apt-get "
        "install openjdk-17-jre-headless) or set JAVA_HOME; for a Spark Connect server use settings(remote=True)"
    )


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is not there
        return False
