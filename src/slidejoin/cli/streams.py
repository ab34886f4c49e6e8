"""Byte streams that can be measured, and looked into before they are read."""

from __future__ import annotations

import io
from typing import Protocol


class Readable(Protocol):
    """What a byte stream must do for us."""

    def read(self, size: int, /) -> bytes | None:
        """At most ``size`` bytes; fewer, even before the end, are allowed; none at the end."""


class Meter:
    """Counts what is read from a stream: the numerator of a progress bar."""

    closed = False

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.bytes_read = 0

    def read(self, size: int = -1, /) -> bytes:
        """As the stream beneath."""
        piece = self._stream.read(size) or b""
        self.bytes_read += len(piece)
        return piece

    def close(self) -> None:
        """The owner of the stream beneath closes it."""


class Replay:
    """A stream whose beginning can be looked at, and which fills every read up to its size.

    Pipes answer with what they have; Arrow's stream readers take a short answer for the end.
    """

    closed = False

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._head = io.BytesIO()

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or all there are; they will be read again. Call it once, first."""
        head = self.read(size)
        self._head = io.BytesIO(head)
        return head

    def read(self, size: int = -1, /) -> bytes:
        """Exactly ``size`` bytes, or all that are left."""
        if size < 0:
            raise io.UnsupportedOperation("reading all of a stream at once")
        pieces = [self._head.read(size)]
        missing = size - len(pieces[0])
        while missing and (piece := self._stream.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """The owner of the stream beneath closes it."""
