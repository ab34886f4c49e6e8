"""Byte streams, read in the calling thread alone.

Arrow's streaming text readers call back into Python from threads of their own, which can outlive the
interpreter at exit. So bytes are read here, and Arrow gets whole blocks of lines to parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Readable(Protocol):
    """What a byte stream must do for us."""

    def read(self, size: int, /) -> bytes | None:
        """At most ``size`` bytes; fewer, even before the end, are allowed; none at the end."""


class Meter:
    """A stream that counts its bytes and fills every read up to its size; pipes answer with what they have."""

    closed = False

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.bytes_read = 0

    def read(self, size: int, /) -> bytes:
        """Exactly ``size`` bytes, or all that are left."""
        pieces = []
        missing = size
        while missing and (piece := self._stream.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        self.bytes_read += size - missing
        return b"".join(pieces)

    def close(self) -> None:
        """The owner of the stream beneath closes it."""


def blocks_of_lines(stream: Readable, size: int) -> Iterator[bytes]:
    """A stream in pieces of about ``size`` bytes that end with a line; a longer line is a piece of its own."""
    rest = b""
    while piece := stream.read(size):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
    if rest:
        yield rest
