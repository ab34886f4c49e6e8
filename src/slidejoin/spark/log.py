"""State as a log: what has arrived, in immutable entries, and one small manifest that names them.

Design      one map of numbers to bytes, kept by Spark's state store. 0 is the manifest; n > 0 is an entry, the
            rows that one micro-batch added, as an Arrow IPC stream; -n are the match marks of entry n, a bit a
            row, written again when they change. A micro-batch writes what arrived, the marks that changed, and
            the manifest; rows that have left are deleted by whole entries.
Reading     every value is checked against the digest that the manifest has of it, the manifest against its own.
            What does not fit is a StateError; nothing is unpickled.
Refusing    the manifest holds the fingerprint of the join that wrote it; another join is told what differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin.errors import StateError
from slidejoin.settings import length_from_json, window_from_json
from slidejoin.spark.folder import Folder
from slidejoin.spark.message import ipc_bytes, rows_in
from slidejoin.spark.query import UNSTATED, Query
from slidejoin.window.duration import duration
from slidejoin.window.spec import Time, Window

FORMAT = 1
MANIFEST = 0  # its key; entries count up from 1
POSITION = "__slidejoin_position"  # count windows: the row's arrival number, as nothing else tells it
DIGEST = 32  # bytes of SHA-256


class Store(Protocol):
    """A map of numbers to bytes: Spark's state, or a dict in tests."""

    def get(self, key: int) -> bytes | None: ...

    def put(self, key: int, value: bytes) -> None: ...

    def remove(self, key: int) -> None: ...


class Entry(NamedTuple):
    """What the manifest knows of an entry. ``low`` and ``high`` bound the positions of its rows."""

    id: int
    side: int
    rows: int
    low: int
    high: int
    nbytes: int
    digest: str
    marks: str = ""  # the digest of its match marks; empty while none is set


@dataclass(frozen=True)
class Manifest:
    """The state of one worker after a micro-batch."""

    version: int
    fingerprint: dict[str, Any]
    next_id: int
    clocks: tuple[int | None, int | None]
    seen: tuple[int, int]
    entries: tuple[Entry, ...]

    @cached_property
    def body(self) -> bytes:
        text = json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "fingerprint": self.fingerprint,
                "next_id": self.next_id,
                "clocks": self.clocks,
                "seen": self.seen,
                "entries": self.entries,
            }
        ).encode()
        return hashlib.sha256(text).digest() + text

    @property
    def tag(self) -> bytes:
        """Tells states apart: it covers the digest of every entry, so equal tags mean equal state."""
        return self.body[:DIGEST]

    @staticmethod
    def read(body: bytes) -> Manifest:
        digest, text = body[:DIGEST], body[DIGEST:]
        if hashlib.sha256(text).digest() != digest:
            raise altered("the manifest of the join's state")
        stored = json.loads(text)
        if stored["format"] != FORMAT:
            raise StateError(
                f"the checkpoint's join state has format {stored['format']}; expected format {FORMAT}; go on with "
                "the slidejoin that wrote it, or start a new checkpoint"
            )
        left, right = stored["clocks"]
        return Manifest(
            stored["version"],
            stored["fingerprint"],
            stored["next_id"],
            (left, right),
            (stored["seen"][0], stored["seen"][1]),
            tuple(Entry(*entry) for entry in stored["entries"]),
        )

    def matches(self, query: Query) -> None:
        """Refuse the state of another join, and say what differs."""
        before, now = (
            UNSTATED | json.loads(json.dumps(one)) for one in (self.fingerprint, query.fingerprint)
        )
        differences = [
            f"{name} was {told(name, before.get(name))}, is {told(name, now.get(name))}"
            for name in dict.fromkeys([*before, *now])
            if before.get(name) != now.get(name)
        ]
        if differences:
            raise StateError(
                f"the checkpoint was written by another join ({'; '.join(differences)}); expected the join that the "
                "checkpoint began with; put it back, or start this one with a new checkpointLocation"
            )


def told(name: str, stated: Any) -> str:
    """Part of a fingerprint as a person would say it."""
    if name == "windows":
        left, right = (of_column(window_from_json(window)) for window in stated)
        return left if left == right else f"{left} of the left, {right} of the right"
    if name == "lateness" and stated is not None:
        return str(duration(length_from_json(stated), name))
    return repr(stated)


def of_column(window: Window) -> str:
    """A window, and the column that it goes by."""
    if isinstance(window, Time):
        return f"{window} on {window.on!r}"
    return str(window) if window.by is None else f"{window} by {window.by!r}"


class Log:
    """One worker's log: entries in the state store, and copies of them in a folder of this host."""

    def __init__(self, query: Query, store: Store, folder: Folder | None) -> None:
        self.query = query
        self.store = store
        self.folder = folder
        self.read_entries = 0  # since this object was made
        self.read_from_state = 0

    def manifest(self) -> Manifest | None:
        """The state that Spark committed last; None for a new query."""
        body = self.store.get(MANIFEST)
        if body is None:
            return None
        found = Manifest.read(body)
        found.matches(self.query)
        return found

    def rows(self, entry: Entry) -> tuple[pa.RecordBatch, NDArray[np.int64] | None]:
        """The rows of an entry; for count windows their positions too."""
        self.read_entries += 1
        body = None if self.folder is None else self.folder.read(entry.digest)
        if body is None:
            self.read_from_state += 1
            body = self.store.get(entry.id)
            if body is None or digest(body) != entry.digest:
                raise altered(f"entry {entry.id} of the join's state")
            if self.folder is not None:
                self.folder.write(entry.digest, body)
        rows = rows_in(body)
        if self.query.timeline is not None:
            return rows, None
        positions = rows.column(POSITION).to_numpy()
        return rows.select(self.query.held(entry.side).names), positions

    def marks(self, entry: Entry) -> NDArray[np.uint8]:
        """The match marks of an entry, one number a row."""
        if not entry.marks:
            return np.zeros(entry.rows, dtype=np.uint8)
        body = self.store.get(-entry.id)
        if body is None or digest(body) != entry.marks:
            raise altered(f"the match marks of entry {entry.id} of the join's state")
        return np.unpackbits(np.frombuffer(body, dtype=np.uint8), count=entry.rows)

    def append(self, number: int, side: int, rows: pa.RecordBatch, positions: NDArray[np.int64]) -> Entry:
        """Write an entry."""
        if self.query.timeline is None:
            rows = rows.append_column(POSITION, pa.array(positions))
        body = ipc_bytes(rows)
        entry = Entry(
            number,
            side,
            rows.num_rows,
            int(positions.min()),
            int(positions.max()),
            len(body),
            digest(body),
        )
        self.store.put(number, body)
        if self.folder is not None:
            self.folder.write(entry.digest, body)
        return entry

    def mark(self, entry: Entry, marks: NDArray[np.uint8]) -> Entry:
        """Write the match marks of an entry, if they have changed."""
        if not marks.any():
            return entry
        body = np.packbits(marks).tobytes()
        now = digest(body)
        if now == entry.marks:
            return entry
        self.store.put(-entry.id, body)
        return entry._replace(marks=now)

    def drop(self, entries: Sequence[Entry]) -> None:
        """Delete entries, whole."""
        for entry in entries:
            self.store.remove(entry.id)
            if entry.marks:
                self.store.remove(-entry.id)
            if self.folder is not None:
                self.folder.remove(entry.digest)

    def seal(self, manifest: Manifest) -> None:
        """Write the manifest: the last write of a micro-batch."""
        self.store.put(MANIFEST, manifest.body)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def altered(what: str) -> StateError:
    return StateError(
        f"{what} is missing or altered: its checksum does not match; expected the checkpoint as Spark wrote it; go "
        "back to a copy of the checkpoint, or start a new one"
    )
