"""Durable snapshots: one file, written beside and renamed, checked byte for byte when read.

Format      magic, format version, then sections: a JSON header that names every section with its length and
            SHA-256, and Arrow IPC streams a side: the rows in state, their numbers (row number, position, match
            mark), and late rows that were kept. The header itself is covered by a digest.
Reading     anything that does not check out is a StateError before a single row is used. Indexes are not
            stored: they are built again from the rows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import tempfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slidejoin.engine import Engine
from slidejoin.errors import SlidejoinError, StateError
from slidejoin.settings import Settings, checked_threads
from slidejoin.stats import Intaken
from slidejoin.window.arrivals import Arrivals, Numbers
from slidejoin.window.clock import Clocks
from slidejoin.window.payload import no_columns, one_batch
from slidejoin.window.ring import Ring
from slidejoin.window.spec import SIDES
from slidejoin.window.timeline import Timeline

MAGIC = b"SLIDEJOIN\x00"
VERSION = 1
PREFIX = struct.Struct("<10sIQ32s")  # magic, version, header length, SHA-256 of the header
LONGEST_HEADER = 1 << 26
NUMBERS = pa.schema([("seq", pa.int64()), ("position", pa.int64()), ("marked", pa.uint8())])


# -- files ---------------------------------------------------------------------------------------------


def write(path: str | PathLike[str], header: dict[str, Any], sections: dict[str, bytes]) -> None:
    """Write all of it to a new file, make it durable, and rename it over the old one."""
    target = Path(path)
    header["sections"] = [
        {"name": name, "length": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        for name, body in sections.items()
    ]
    text = json.dumps(header).encode()
    prefix = PREFIX.pack(MAGIC, VERSION, len(text), hashlib.sha256(text).digest())
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise StateError(
            f"the snapshot cannot be written to {target} ({error.strerror}); expected a folder that can be "
            "written; check the path"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in (prefix, text, *sections.values()):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StateError(
                f"the snapshot cannot be written to {target} ({error.strerror}); expected a file that can be "
                "replaced; check the path"
            ) from error
        raise
    _sync_folder(target.parent)


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header and sections of a snapshot that checks out."""
    target = Path(path)
    try:
        data = target.read_bytes()
    except OSError as error:
        raise StateError(
            f"the snapshot {target} cannot be read ({error.strerror}); expected a file written by save(); "
            "check the path"
        ) from error
    if len(data) < PREFIX.size or not data.startswith(MAGIC):
        raise StateError(f"{target} is not a snapshot; expected a file written by save(); check the path")
    _, version, length, digest = PREFIX.unpack_from(data)
    if version != VERSION:
        raise StateError(
            f"{target} has snapshot format {version}; expected format {VERSION}; load it with the slidejoin that "
            "wrote it"
        )
    text = data[PREFIX.size : PREFIX.size + length]
    if length > LONGEST_HEADER or len(text) < length or hashlib.sha256(text).digest() != digest:
        raise _altered(target)
    header: dict[str, Any] = json.loads(text)
    at = PREFIX.size + length
    sections = {}
    for section in header["sections"]:
        body = data[at : at + section["length"]]
        if len(body) < section["length"] or hashlib.sha256(body).hexdigest() != section["sha256"]:
            raise _altered(target)
        sections[section["name"]] = body
        at += section["length"]
    if at != len(data):
        raise _altered(target)
    return header, sections


def _altered(target: Path) -> StateError:
    return StateError(
        f"{target} is truncated or altered: a checksum does not match; expected the file as save() wrote it; "
        "go back to an earlier snapshot"
    )


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- a join as header and sections ---------------------------------------------------------------------


def save(engine: Engine, path: str | PathLike[str]) -> None:
    """Write the join's settings, books and rows."""
    books, rings = engine.books, engine.worker.rings
    header = {
        "settings": engine.settings.to_json(),
        "intaken": [asdict(intaken) for intaken in books.intaken],
        "clocks": [books.clocks.left, books.clocks.right],
        "schemas": [None if schema is None else _schema_text(schema) for schema in books.schemas],
        "named": [None if schema is None else _schema_text(schema) for schema in books.named],
        "timeline": None
        if books.timeline is None
        else {"tick": books.timeline.tick, "zoned": books.timeline.zoned},
        "matches": books.matches,
        "emitted": books.emitted,
        "bounds": [None if ring is None else ring.bound for ring in rings],
    }
    sections = {}
    for name, schema, ring, late in zip(SIDES, books.schemas, rings, books.late_rows, strict=True):
        if schema is None or ring is None:
            continue
        rows, numbers = _state(ring)
        sections[f"{name}.rows"], sections[f"{name}.numbers"] = _ipc(rows), _ipc(numbers)
        if late:
            sections[f"{name}.late"] = _ipc(pa.Table.from_batches(late, ring.schema).unify_dictionaries())
    write(path, header, sections)


def load(path: str | PathLike[str], *, condition: str | None, threads: int | None) -> Engine:
    """The join that a snapshot holds."""
    other = {} if threads is None else {"threads": checked_threads(threads)}
    header, sections = read(path)
    stored = header["settings"]
    if condition is not None and condition != stored["condition"]:
        raise StateError(
            f"{path} was saved with the condition {stored['condition']!r}; expected {condition!r}; load it "
            "without a condition, or start a new join"
        )
    try:
        engine = Engine(Settings.from_json(stored | other))
        _refill_books(engine, header, sections)
        engine.check()
    except (SlidejoinError, pa.ArrowException, KeyError, TypeError, ValueError, AssertionError) as error:
        raise StateError(
            f"{path} does not describe a join ({type(error).__name__}: {error}); expected a file written by save(); "
            "go back to an earlier snapshot"
        ) from error
    return engine


def _refill_books(engine: Engine, header: dict[str, Any], sections: dict[str, bytes]) -> None:
    books = engine.books
    left, right = (None if text is None else _schema(text) for text in header["schemas"])
    engine.acquaint(books, (_no_rows(left), _no_rows(right)))
    for side, text in enumerate(header.get("named", ())):  # the first snapshots did not say
        if text is not None:
            engine.learn_names(books, side, _schema(text))
    scale = header["timeline"]
    if scale is not None and books.timeline is None:
        books.timeline = Timeline.bare(engine.times(), engine.settings.lateness, **scale)
        books.clocks = Clocks(lateness=books.timeline.lateness)
    if (None if books.timeline is None else books.timeline.tick) != (
        None if scale is None else scale["tick"]
    ):
        raise ValueError("the time scale is another one")
    for side, name in enumerate(SIDES):
        if f"{name}.rows" in sections:
            rows, numbers = _read_ipc(sections[f"{name}.rows"]), _read_ipc(sections[f"{name}.numbers"])
            _refill_ring(engine, side, rows, numbers, header["bounds"][side])
    first, second = (Intaken(**intaken) for intaken in header["intaken"])
    books.intaken = (first, second)
    left_clock, right_clock = header["clocks"]
    books.clocks = Clocks(left_clock, right_clock, books.clocks.lateness)
    books.matches, books.emitted = header["matches"], header["emitted"]
    books.late_rows = tuple(
        tuple(_read_ipc(sections[f"{side}.late"]).to_batches()) if f"{side}.late" in sections else ()
        for side in SIDES
    )


def _no_rows(schema: pa.Schema | None) -> pa.RecordBatch | None:
    return None if schema is None else one_batch(schema.empty_table())


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _state(ring: Ring) -> tuple[pa.Table, pa.Table]:
    """The live rows of a ring, oldest first, and the numbers that go with them."""
    rows, numbers = [], []
    for subwindow in ring.subwindows:
        positions = subwindow.positions.array()
        live = np.arange(subwindow.rows, dtype=np.int32)
        if subwindow.dead and subwindow.dead_below is not None:
            live = np.flatnonzero(positions >= subwindow.dead_below).astype(np.int32)
        marks = np.zeros(len(live), dtype=np.uint8) if subwindow.marks is None else subwindow.marks[live]
        rows += subwindow.payload.select(live).batches()
        columns = [pa.array(column) for column in (subwindow.seqs.of(live), positions[live], marks)]
        numbers.append(pa.RecordBatch.from_arrays(columns, schema=NUMBERS))
    if len(ring.schema) == 0:
        rows = []
    return (
        pa.Table.from_batches(rows, ring.schema).unify_dictionaries(),
        pa.Table.from_batches(numbers, NUMBERS),
    )


def _refill_ring(engine: Engine, side: int, rows: pa.Table, numbers: pa.Table, bound: int | None) -> None:
    """Put saved rows back into a ring, in pieces of a subwindow."""
    ring = engine.worker.rings[side]
    assert ring is not None
    if rows.num_columns and not rows.schema.equals(ring.schema):
        rows = rows.cast(ring.schema)  # the first snapshots have dictionaries as they were pushed
    if rows.num_columns and rows.num_rows != numbers.num_rows:
        raise ValueError("rows and their numbers differ in length")
    ring.bound = bound
    size = ring.extent.rows
    for at in range(0, numbers.num_rows, size):
        piece = numbers.slice(at, size)
        seqs, positions, marks = (column.to_numpy() for column in piece.columns)
        batch = one_batch(rows.slice(at, size)) if rows.num_columns else no_columns(piece.num_rows)
        arrivals = Arrivals(side, batch, batch.num_rows, Numbers(0, seqs), Numbers(0, positions))
        home = engine.worker.store(arrivals)
        if home.subwindow.marks is not None:
            home.subwindow.marks[home.first : home.first + len(marks)] = marks
        ring.complete()


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read_ipc(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(body) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table
