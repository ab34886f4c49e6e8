"""Entries of the log as files of this host, for workers that have to catch up.

Spark hands a partition to whichever Python process is free, so a process often finds that another one has
taken the last micro-batches. What it missed it reads here at the speed of the page cache, instead of through
the state store's socket. Files are named by the SHA-256 of what they hold and are checked against it when they
are read, so a file that is missing, torn or altered is as good as none, and no file can change a result.

The folder is readable by its owner only and lies in Spark's scratch space, which goes with the application.
Files are read, not mapped: a mapped file that is altered later would alter rows in use.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path

WORD = re.compile(r"[\w-]{1,64}")


class Folder:
    def __init__(self, path: Path, budget: int) -> None:
        self.path = path
        self._budget = budget

    @staticmethod
    def of(query_id: str | None, worker: int, budget: int) -> Folder | None:
        """The folder of one worker of a query; None where there is no safe place or no budget for it."""
        if query_id is None or WORD.fullmatch(query_id) is None or budget <= 0:
            return None
        base = os.environ.get("SLIDEJOIN_SPARK_CACHE")
        scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        root = Path(base or scratch or tempfile.gettempdir()) / f"slidejoin-{_user()}"
        path = root / query_id / str(worker)
        try:
            for part in (root, root / query_id, path):
                part.mkdir(mode=0o700, parents=True, exist_ok=True)
                if not _ours(part):
                    return None
        except OSError:  # a read-only or full disk: entries are then read from the state store
            return None
        return Folder(path, budget)

    def read(self, name: str) -> bytes | None:
        """The content that has this digest, if a file here has it."""
        try:
            body = (self.path / name).read_bytes()
        except OSError:
            return None
        return body if hashlib.sha256(body).hexdigest() == name else None

    def write(self, name: str, body: bytes) -> None:
        """Keep a copy: written beside and renamed, so that no reader sees half of it."""
        try:
            if sum(file.stat().st_size for file in self.path.iterdir()) + len(body) > self._budget:
                return
            handle, beside = tempfile.mkstemp(dir=self.path)
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            Path(beside).rename(self.path / name)
        except OSError:  # a copy is a convenience; the state store has the entry
            return

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _ours(path: Path) -> bool:
    """Whether a folder is a real one, belongs to this user, and is closed to others."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != _user():
        return False
    if found.st_mode & 0o077:
        path.chmod(0o700)
    return True
