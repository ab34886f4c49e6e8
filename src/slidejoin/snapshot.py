"""Durable snapshots: one file, written beside and renamed, checked byte for byte when read.

Format      magic, format version, then sections: a JSON header that names every section with its length and
            SHA-256, and one Arrow IPC stream a side for the rows in state (columns, then row number, position
            and match mark) and for late rows that were kept. The header itself is covered by a digest.
Reading     anything that does not check out is a StateError before a single row is used. Indexes are not
            stored: they are built again from the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import SlidejoinError, StateError
from slidejoin.stats import Intaken
from slidejoin.tuning import Tuning
from slidejoin.window.arrivals import Arrivals, Numbers
from slidejoin.window.clock import Clocks
from slidejoin.window.payload import no_columns, one_batch
from slidejoin.window.ring import Ring
from slidejoin.window.spec import SIDES, Rows, Time, Window

if TYPE_CHECKING:
    from slidejoin.join import Join

MAGIC = b"SLIDEJOIN\x00"
VERSION = 1
PREFIX = struct.Struct("<10sIQ32s")  # magic, version, header length, SHA-256 of the header
LONGEST_HEADER = 1 << 26
EXTRA = ("__seq", "__position", "__marked")


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
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
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


def of(join: Join) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a snapshot of the join holds."""
    books = join._books
    header = {
        "condition": join._condition.text,
        "windows": [_window(window) for window in join._windows],
        "how": join._how,
        "lateness": None if join._lateness is None else list(join._lateness),
        "late": join._late,
        "order": join._order,
        "index": join._index,
        "flow": join._flow_name,
        "threads": join._threads,
        "aliases": join._aliases,
        "suffixes": join._suffixes,
        "tuning": asdict(join._tuning),
        "intaken": [asdict(intaken) for intaken in books.intaken],
        "clocks": [books.clocks.left, books.clocks.right],
        "tick": None if books.timeline is None else books.timeline.tick,
        "early": [None if value is None else _plain(value) for value in books.early],
        "matches": books.matches,
        "emitted": books.emitted,
        "bounds": [None if ring is None else ring.bound for ring in join._worker.rings],
        "late_rows": [len(batches) for batches in books.late_rows],
    }
    sections = {}
    for side, (schema, ring) in enumerate(zip(books.schemas, join._worker.rings, strict=True)):
        if schema is None or ring is None:
            continue
        sections[f"{SIDES[side]}.rows"] = _ipc(_state(schema, ring))
        if books.late_rows[side]:
            sections[f"{SIDES[side]}.late"] = _ipc(pa.Table.from_batches(books.late_rows[side], schema))
    return header, sections


def restore(
    cls: type[Join], path: str | PathLike[str], *, condition: str | None, threads: int | None
) -> Join:
    """The join that a snapshot holds."""
    header, sections = read(path)
    if condition is not None and condition != header["condition"]:
        raise StateError(
            f"{path} was saved with the condition {header['condition']!r}; expected {condition!r}; load it without "
            "a condition, or start a new join"
        )
    try:
        join = _joined(cls, header, sections, threads)
        join.check()
    except (SlidejoinError, pa.ArrowException, KeyError, TypeError, ValueError, AssertionError) as error:
        raise StateError(
            f"{path} does not describe a join ({type(error).__name__}: {error}); expected a file written by save(); "
            "go back to an earlier snapshot"
        ) from error
    return join


def _joined(cls: type[Join], header: dict[str, Any], sections: dict[str, bytes], threads: int | None) -> Join:
    left, right = (_read_window(window) for window in header["windows"])
    lateness = header["lateness"]
    join = cls(
        header["condition"],
        window=(left, right),
        how=header["how"],
        lateness=None if lateness is None else _read_length(lateness),
        late=header["late"],
        order=header["order"],
        index=header["index"],
        flow=header["flow"],
        threads=threads if threads is not None else header["threads"],
        aliases=tuple(header["aliases"]),
        suffixes=tuple(header["suffixes"]),
        tuning=Tuning(**header["tuning"]),
    )
    states = [_read_ipc(sections[f"{side}.rows"]) if f"{side}.rows" in sections else None for side in SIDES]
    empty = tuple(None if state is None else _columns(state).slice(0, 0) for state in states)
    batches = tuple(None if table is None else one_batch(table) for table in empty)
    books = join._books
    join._acquaint(books, batches)
    if books.timeline is not None and books.timeline.tick != header["tick"]:
        raise ValueError("the time scale is another one")
    for side, state in enumerate(states):
        ring = join._worker.rings[side]
        if state is not None and ring is not None:
            _refill(ring, join, side, state, header["bounds"][side])
    books.intaken = tuple(Intaken(**intaken) for intaken in header["intaken"])  # type: ignore[assignment]
    books.clocks = Clocks(*header["clocks"], books.clocks.lateness)
    books.early = tuple(header["early"])  # type: ignore[assignment]
    books.matches, books.emitted = header["matches"], header["emitted"]
    books.late_rows = tuple(
        tuple(_read_ipc(sections[f"{side}.late"]).to_batches()) if f"{side}.late" in sections else ()
        for side in SIDES
    )
    return join


def _state(schema: pa.Schema, ring: Ring) -> pa.Table:
    """The live rows of a ring, oldest first, with what is known about each."""
    parts = []
    for subwindow in ring.subwindows:
        positions = subwindow.positions.array()
        live = np.arange(subwindow.rows, dtype=np.int32)
        if subwindow.dead and subwindow.dead_below is not None:
            live = np.flatnonzero(positions >= subwindow.dead_below).astype(np.int32)
        marks = np.zeros(len(live), dtype=np.uint8) if subwindow.marks is None else subwindow.marks[live]
        rows = subwindow.take(live, schema.names) if len(schema) else no_columns(len(live))
        extra = (subwindow.seqs.of(live), positions[live], marks)
        table = pa.Table.from_batches([rows]) if len(schema) else pa.table({})
        for name, values in zip(EXTRA, extra, strict=True):
            table = table.append_column(name, pa.array(values))
        parts.append(table)
    if parts:
        return pa.concat_tables(parts).unify_dictionaries()
    fields = [pa.field(EXTRA[0], pa.int64()), pa.field(EXTRA[1], pa.int64()), pa.field(EXTRA[2], pa.uint8())]
    return pa.schema([*schema, *fields]).empty_table()


def _columns(state: pa.Table) -> pa.Table:
    return state.drop_columns(list(EXTRA))


def _refill(ring: Ring, join: Join, side: int, state: pa.Table, bound: int | None) -> None:
    """Put saved rows back into a ring, in pieces of a subwindow."""
    size = ring.extent.rows
    none = np.empty(0, dtype=np.int64)
    ring.bound = bound
    for at in range(0, state.num_rows, size):
        piece = state.slice(at, size)
        seqs, positions, marks = (piece.column(name).to_numpy() for name in EXTRA)
        rows = one_batch(_columns(piece)) if state.num_columns > len(EXTRA) else no_columns(piece.num_rows)
        arrivals = Arrivals(
            side, rows, Numbers(0, seqs), Numbers(0, positions), none, none, Numbers(0)
        )
        subwindow, first, _ = join._worker.insert(arrivals)
        if subwindow.marks is not None:
            subwindow.marks[first : first + len(marks)] = marks
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


def _window(window: Window) -> dict[str, Any]:
    if isinstance(window, Rows):
        return {"kind": "rows", "n": window.n, "by": window.by, "slide": window.slide}
    step = window.step
    return {
        "kind": "time",
        "length": list(window.duration),
        "on": window.on,
        "slide": None if step is None else list(step),
    }


def _read_window(stored: dict[str, Any]) -> Window:
    if stored["kind"] == "rows":
        by = stored["by"]
        return Rows(stored["n"], by=tuple(by) if isinstance(by, list) else by, slide=stored["slide"])
    on = stored["on"]
    slide = stored["slide"]
    return Time(
        _read_length(stored["length"]),
        on=tuple(on) if isinstance(on, list) else on,
        slide=None if slide is None else _read_length(slide),
    )


def _read_length(stored: list[Any]) -> str | int:
    count, physical = stored
    return f"{count} nanoseconds" if physical else int(count)


def _plain(value: Any) -> Any:
    """A heartbeat's time as JSON: a whole number or ISO text."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    return value if isinstance(value, str) else str(np.datetime64(value)) if isinstance(value, np.datetime64) else value.isoformat()


