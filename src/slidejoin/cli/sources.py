"""One side's input: a file, a folder of files, or a pipe, as one stream of batches with one schema."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from slidejoin.cli.endings import InputError, UsageError
from slidejoin.cli.formats import TEXT, FormatName, format_of, parse_types
from slidejoin.cli.readers import Reader, Types, open_file, open_pipe

PIPE = "-"
UNREADABLE = (pa.ArrowException, OSError, UnicodeError)  # what the readers raise on bad bytes


@dataclass(frozen=True)
class Input:
    """What the command line says about one side."""

    side: str
    where: str
    kind: FormatName | None
    types: list[str]

    def open(self, batch_rows: int) -> Source:
        """Find the files, settle the schema."""
        types = parse_types(self.types, f"--{self.side}-type")
        if self.where == PIPE:
            kind = self.kind or "arrow"
            self._check(kind, types)
            return Source(self, [], kind, types, batch_rows)
        paths = self._paths()
        kinds = {format_of(path, self.kind, f"--{self.side}-format") for path in paths}
        if len(kinds) > 1:
            raise UsageError(
                f"--{self.side} {self.where!r} holds files of several formats ({', '.join(sorted(kinds))}); "
                "expected one; move the others elsewhere"
            )
        kind = kinds.pop()
        self._check(kind, types)
        return Source(self, paths, kind, types, batch_rows)

    def schema(self) -> pa.Schema:
        """The columns alone."""
        with closing(self.open(batch_rows=1)) as source:
            return source.schema

    def _check(self, kind: FormatName, types: Types) -> None:
        if types and kind not in TEXT:
            raise UsageError(
                f"--{self.side}-type was given for {kind} input, whose columns have types; expected csv or "
                f"ndjson; drop --{self.side}-type"
            )

    def _paths(self) -> list[Path]:
        path = Path(self.where)
        if path.is_file() or path.is_fifo():
            return [path]
        if not path.is_dir():
            raise UsageError(
                f"--{self.side} {self.where!r} does not exist; expected a Parquet, CSV, NDJSON or Arrow file, "
                "a folder of them, or '-'; check the path"
            )
        # Names that begin with . or _ are marks of other programs (_SUCCESS, ._part.crc), not data.
        found = sorted(
            each
            for each in path.rglob("*")
            if each.is_file() and not any(part[0] in "._" for part in each.relative_to(path).parts)
        )
        if not found:
            raise UsageError(
                f"--{self.side} {self.where!r} is a folder without files; expected at least one; check the path"
            )
        return found


class Source:
    """The batches of one side, in the order of its files' names."""

    def __init__(
        self, given: Input, paths: list[Path], kind: FormatName, types: Types, batch_rows: int
    ) -> None:
        self.name = "standard input" if given.where == PIPE else given.where
        self.sized = bool(paths)
        self._side = given.side
        self._paths = paths
        self._kind: FormatName = kind
        self._batch_rows = batch_rows
        self._sizes = [path.stat().st_size for path in paths]
        self._current = 0
        self._types = types
        self._reader = self._open(0)
        self.schema = self._reader.schema
        unknown = sorted(types.keys() - set(self.schema.names))
        if unknown:
            self.close()
            raise UsageError(
                f"--{given.side}-type names {unknown[0]!r}, which {self.name} lacks; expected one of "
                f"{', '.join(self.schema.names)}; check the spelling"
            )
        if kind in TEXT:
            # What the first file's text turned out to hold is what the others must hold.
            self._types = {field.name: field.type for field in self.schema}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows of all files, in batches of at most the asked number of rows."""
        for number in range(max(len(self._paths), 1)):
            if number:
                self._current = number
                self._reader = self._open(number)
                self._same_columns(number)
            for batch in self._readable():
                for start in range(0, batch.num_rows, self._batch_rows):
                    yield batch.slice(start, self._batch_rows)
            self._reader.close()
        self._current = len(self._paths)

    def fraction(self) -> float:
        """The share of all bytes that has been read."""
        total = sum(self._sizes)
        if not total or self._current == len(self._sizes):
            return 1.0
        behind = sum(self._sizes[: self._current])
        return (behind + self._sizes[self._current] * self._reader.fraction()) / total

    def close(self) -> None:
        """Let go of the file that is open."""
        self._reader.close()

    def _open(self, number: int) -> Reader:
        try:
            if not self._paths:
                return open_pipe(sys.stdin.buffer, self._kind, self._types)
            return open_file(self._paths[number], self._kind, self._types, self._batch_rows)
        except UNREADABLE as error:
            # a path that cannot be opened is a mistake of the caller; bytes that make no sense are a failure
            kind = UsageError if isinstance(error, OSError) and error.errno else InputError
            raise kind(
                f"cannot read {self._where(number)} as {self._kind}: {_first_line(error)}; expected a readable "
                f"{self._kind} file; is --{self._side}-format right?"
            ) from error

    def _readable(self) -> Iterator[pa.RecordBatch]:
        """The current reader's batches; says which input was at fault."""
        try:
            yield from self._reader.batches()
        except UNREADABLE as error:
            hint = (
                f"name the column's type with --{self._side}-type COLUMN=TYPE"
                if self._kind in TEXT
                else "check how it was written"
            )
            raise InputError(
                f"cannot read {self._where(self._current)} further: {_first_line(error)}; expected "
                f"{self._kind} with the same types to its end; {hint}"
            ) from error

    def _same_columns(self, number: int) -> None:
        if not self._reader.schema.equals(self.schema):
            raise InputError(
                f"{self._where(number)} has columns {_columns(self._reader.schema)}; expected those of "
                f"{self._where(0)}: {_columns(self.schema)}; join files of one schema"
            )

    def _where(self, number: int) -> str:
        return str(self._paths[number]) if self._paths else self.name


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0].rstrip(".") or type(error).__name__
