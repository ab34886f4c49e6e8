"""File formats: their names, endings, and the types a caller may ask for in text files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pyarrow as pa

from slidejoin.cli.endings import UsageError

FormatName = Literal["parquet", "csv", "ndjson", "arrow"]

ENDINGS: dict[str, FormatName] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}  # by name; for text formats only
TEXT: tuple[FormatName, ...] = ("csv", "ndjson")


def compression_of(path: Path) -> str | None:
    """The compression that a file's last ending names."""
    return COMPRESSIONS.get(path.suffix.lower())


def format_of(path: Path, asked: FormatName | None, option: str) -> FormatName:
    """The format asked for, else the one the ending names."""
    if asked is not None:
        return asked
    bare = path.with_suffix("") if compression_of(path) else path
    found = ENDINGS.get(bare.suffix.lower())
    if found is None:
        raise UsageError(
            f"cannot tell the format of {str(path)!r}; expected an ending such as .parquet, .csv, .ndjson or "
            f".arrow; say it with {option}"
        )
    return found


def parse_types(pairs: list[str], option: str) -> dict[str, pa.DataType]:
    """``["ts=timestamp[us]", "price=decimal(9,2)"]`` as Arrow types by column."""
    types = {}
    for text in pairs:
        column, equals, name = text.partition("=")
        if not (column.strip() and equals and name.strip()):
            raise UsageError(f"{option} {text!r} is not COLUMN=TYPE; expected for example ts=timestamp[us]")
        types[column.strip()] = _type(name.strip(), option)
    return types


def _type(name: str, option: str) -> pa.DataType:
    if found := re.fullmatch(r"decimal(?:128)?\((\d+),\s*(\d+)\)", name):
        precision, scale = map(int, found.groups())
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    elif found := re.fullmatch(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([\w/+:-]+)\]", name):
        return pa.timestamp(found[1], tz=found[2])
    else:
        try:
            return pa.type_for_alias(name)
        except ValueError:
            pass  # said below, in our words
    raise UsageError(
        f"{option} names the type {name!r}, which is unknown; expected an Arrow type such as int64, double, "
        "string, bool, date32, timestamp[us], timestamp[us, UTC] or decimal(9,2)"
    )
