"""Sorting a batch by key: a radix sort of keys and positions, of as many bits as the batch needs.

n keys that are spread evenly differ in their first log2(n) bits and a few; so two passes over as many bits
of what the keys span put all but a few neighbours in place, whatever the width of the keys, and an insertion
sort does the rest. Key and position are packed into one word meanwhile. Where the keys crowd together (floats of many magnitudes, a few outliers) that would take
too many moves; then every digit is sorted by, those that no two keys differ in apart. Two passes take a sixth
of the time of NumPy's vectorised sort of such words, and keep equal keys in order.
"""

from __future__ import annotations

from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U8, OUT_U64, U64, inlined, kernel, types
from slidejoin.kernels.bits import fits_32

FEW = 256  # rows up to which one argsort costs less than clearing the counters
DIGIT = 11  # bits a pass at most: the counters of one digit fit the first-level cache
KEPT = 1 << 16  # rows whose memory a thread keeps for the next time: 20 bytes each
PATIENCE = 4  # moves per row before nearly sorted is considered not sorted at all

Keys = NDArray[Any]  # int64, or int32

U = np.uint64
DIGIT_BITS, BUCKETS = U(DIGIT), 1 << DIGIT
BEYOND = U(
    3
)  # bits sorted by beyond log2(n): more cost more in the passes than they save in the insertion sort
COUNTERS = 2 * BUCKETS  # of two digits
MASK = U(BUCKETS - 1)
GROUP = U(4)  # neighbours that are compared at a time
SIGN = U(1 << 63)  # flipped, the signed order is the unsigned one; nothing overflows


@kernel(types.boolean(OUT_I64, OUT_I32, types.int64), types.boolean(OUT_I32, OUT_I32, types.int64))
def finish_sort(keys, order, patience):  # type: ignore[no-untyped-def]
    """Insertion sort of a nearly sorted batch; False if it would take more than ``patience`` moves."""
    moves = 0
    for i in range(1, len(keys)):
        key = keys[i]
        if keys[i - 1] <= key:
            continue
        row = order[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            order[j] = order[j - 1]
            j -= 1
            moves += 1
            if moves > patience:
                return False
        keys[j] = key
        order[j] = row
    return True


@kernel(types.boolean(I64), types.boolean(I32))
def ascends(values):  # type: ignore[no-untyped-def]
    """Whether the values never decrease."""
    for i in range(1, len(values)):  # noqa: SIM110 - Numba compiles no generators here
        if values[i] < values[i - 1]:
            return False
    return True


@kernel(
    types.Tuple((types.boolean, types.int64, types.int64))(I64),
    types.Tuple((types.boolean, types.int64, types.int64))(I32),
)
def overview(values):  # type: ignore[no-untyped-def]
    """Whether the values never decrease, then the least and the greatest; there is at least one."""
    if ascends(values):
        return True, np.int64(values[0]), np.int64(values[len(values) - 1])
    least = most = values[0]
    for i in range(len(values)):
        least = min(least, values[i])
        most = max(most, values[i])
    return False, np.int64(least), np.int64(most)


@kernel(
    types.void(I64, types.int64, types.int64, OUT_I64, OUT_I64),
    types.void(I32, types.int64, types.int64, OUT_I64, OUT_I64),
)
def add_both(values, below, above, lows, highs):  # type: ignore[no-untyped-def]
    """Intervals around values; nothing may overflow."""
    for i in range(len(values)):
        lows[i] = values[i] + below
        highs[i] = values[i] + above


@kernel(types.boolean(I64, I64, I32, OUT_I64, OUT_I64))
def gather_ascending(lows, highs, order, out_lows, out_highs):  # type: ignore[no-untyped-def]
    """Take both bounds in the given order; False, with the output unfinished, if the lower do not ascend."""
    before = np.int64(-(1 << 63))
    for i in range(len(order)):
        row = order[i]
        low = lows[row]
        if low < before:
            return False
        before = low
        out_lows[i] = low
        out_highs[i] = highs[row]
    return True


@kernel(types.boolean(U64, I32, types.uint64, types.uint64, OUT_I32, OUT_U64, OUT_I32))
def sort_by_digit(words, order, base, shift, counts, out_words, out_order):  # type: ignore[no-untyped-def]
    """One pass: by one digit of ``word - base``, keeping the order of equal ones; False if all are equal."""
    n = len(words)
    counts[:] = 0
    for i in range(n):
        counts[((words[i] - base) >> shift) & MASK] += 1
    if counts[((words[0] - base) >> shift) & MASK] == n:
        return False
    before = np.int32(0)
    for digit in range(BUCKETS):
        here = counts[digit]
        counts[digit] = before
        before += here
    for i in range(n):
        word = words[i]
        digit = ((word - base) >> shift) & MASK
        at = counts[digit]
        counts[digit] = at + 1
        out_words[U(at)] = word
        out_order[U(at)] = order[i]
    return True


@inlined
def width(value):  # type: ignore[no-untyped-def]
    """How many bits a number needs."""
    bits = U(0)
    while bits < U(64) and value >> bits:
        bits += U(1)
    return bits


@inlined
def unsigned(value):  # type: ignore[no-untyped-def]
    """A number whose unsigned order is the signed one of the value."""
    return U(np.int64(value)) ^ SIGN


@kernel(types.boolean(OUT_U64, types.uint64))
def finish_words(words, patience):  # type: ignore[no-untyped-def]
    """Insertion sort of nearly sorted words; False if it takes more than ``patience`` moves.

    Most neighbours are in order, so some are compared at a time: a branch for all of them instead of one for each.
    """
    rows = U(len(words))
    moves, i = U(0), U(1)
    while i < rows:
        end = min(i + GROUP, rows)
        astray = end - i < GROUP
        if not astray:
            for k in range(GROUP):
                astray |= words[i + k] < words[i + k - U(1)]
        if not astray:
            i = end
        while i < end:
            word = words[i]
            j = i
            while j > U(0) and words[j - U(1)] > word:
                words[j] = words[j - U(1)]
                j -= U(1)
            words[j] = word
            moves += i - j
            i += U(1)
        if moves > patience:
            return False
    return True


@kernel(
    types.boolean(I64, types.uint64, types.uint64, OUT_I32, OUT_U64, OUT_U64, OUT_I64, OUT_I32),
    types.boolean(I64, types.uint64, types.uint64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32),
    types.boolean(I32, types.uint64, types.uint64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32),
)
def sort_packed(values, base, bits, counts, words, moved, keys, order):  # type: ignore[no-untyped-def]
    """Sort by the first of ``bits``, as many as two digits have, then by insertion; False if the keys crowd together.

    Key and position move as one word, the key without its last bits if they do not fit in.
    """
    n = len(values)
    room = width(U(n - 1))
    digit_bits = min((room + BEYOND + U(1)) >> U(1), DIGIT_BITS)
    buckets = U(1) << digit_bits
    mask = buckets - U(1)
    cut = bits + room - U(64) if bits + room > U(64) else U(0)
    low = max(bits, cut + digit_bits + digit_bits) - digit_bits - digit_bits
    counts[: buckets + buckets] = 0
    for i in range(n):
        digits = (unsigned(values[i]) - base) >> low
        counts[digits & mask] += 1
        counts[buckets + ((digits >> digit_bits) & mask)] += 1
    before, before_second = np.int32(0), np.int32(0)
    for place in range(buckets):
        digit = U(place)
        here, second = counts[digit], counts[buckets + digit]
        counts[digit], counts[buckets + digit] = before, before_second
        before += here
        before_second += second
    for i in range(n):
        key = unsigned(values[i]) - base
        digit = (key >> low) & mask
        at = counts[digit]
        counts[digit] = at + 1
        moved[U(at)] = ((key >> cut) << room) | U(i)
    shift = low - cut + room + digit_bits
    for i in range(n):
        word = moved[i]
        digit = buckets + ((word >> shift) & mask)
        at = counts[digit]
        counts[digit] = at + 1
        words[U(at)] = word
    if not finish_words(words, U(PATIENCE * n)):
        return False
    mask = (U(1) << room) - U(1)  # of the position
    if cut:
        for i in range(n):
            order[i] = words[i] & mask
        for i in range(n):
            keys[i] = values[order[i]]
        return finish_sort(keys, order, PATIENCE * n)
    for i in range(n):
        word = words[i]
        order[i] = word & mask
        keys[i] = np.int64(((word >> room) + base) ^ SIGN)
    return True


@kernel(
    types.void(
        I64, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I64, OUT_I32
    ),
    types.void(
        I64, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32, OUT_I32
    ),
    types.void(
        I32, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32, OUT_I32
    ),
)  # fmt: skip
def radix_sort(values, least, most, counts, words, moved, moved_order, keys, order):  # type: ignore[no-untyped-def]
    """Sort a batch of at least two, of which the extremes are known; ``keys`` are wide enough for both."""
    base = unsigned(least)
    bits = width(unsigned(most) - base)
    if sort_packed(values, base, bits, counts, words, moved, keys, order):
        return
    counts = counts[:BUCKETS]
    # Every digit, from the last to the first; the batch wanders between the two pairs of arrays.
    for i in range(len(values)):
        words[i] = unsigned(values[i])
        order[i] = i
    wandered = False
    shift = U(0)
    while shift < bits:
        if wandered:
            wandered = not sort_by_digit(moved, moved_order, base, shift, counts, words, order)
        else:
            wandered = sort_by_digit(words, order, base, shift, counts, moved, moved_order)
        shift += DIGIT_BITS
    if wandered:
        words = moved
        order[:] = moved_order
    for i in range(len(values)):
        keys[i] = np.int64(words[i] ^ SIGN)


@kernel(types.int64(I64, types.int64, OUT_U8))
def mark_below_earlier(values, frontier, out):  # type: ignore[no-untyped-def]
    """Mark the values that are below one before them, or below the frontier; returns how many there are."""
    count = 0
    for i in range(len(values)):
        value = values[i]
        out[i] = value < frontier
        count += value < frontier
        frontier = max(frontier, value)
    return count


@kernel(types.int64(I64, types.int64))
def count_below(values, bound):  # type: ignore[no-untyped-def]
    """How many values are less."""
    count = 0
    for i in range(len(values)):
        count += values[i] < bound
    return count


def sort_order(values: Keys, *, narrow: bool = False) -> tuple[Keys, NDArray[np.int32]]:
    """``(sorted values, int32 positions)`` of a batch; values that tie keep no particular order.

    ``narrow``: the sorted ones may have 32 bits, if all of them fit.

    >>> sort_order(np.array([5, 1, 3]))
    (array([1, 3, 5]), array([1, 2, 0], dtype=int32))
    """
    n = len(values)
    ascending, least, most = overview(values) if n else (True, 0, 0)
    if ascending:
        return values, np.arange(n, dtype=np.int32)
    if n <= FEW:
        order = values.argsort().astype(np.int32)
        return values[order], order
    keys: Keys = np.empty(n, dtype=width_for(values, least, most, narrow=narrow))
    order = np.empty(n, dtype=np.int32)
    radix_sort(values, least, most, *passes(n), keys, order)
    return keys, order


def width_for(values: Keys, least: int, most: int, *, narrow: bool) -> type:
    """Of sorted values: 32 bits if they have so many already, or if that is asked for and enough."""
    return np.int32 if values.dtype == np.int32 or (narrow and fits_32(least, most)) else np.int64


class _Spare(local):
    """The thread's own memory for the passes in between: fresh memory would be cold in the cache."""

    def __init__(self) -> None:
        self.words, self.order = np.empty((2, 0), dtype=np.uint64), np.empty(0, dtype=np.int32)
        self.counts = np.empty(COUNTERS, dtype=np.int32)


_spares = _Spare()


def passes(rows: int) -> tuple[Any, Any, Any, Any]:
    """Memory for sorting so many rows: counters, words twice, and an order."""
    spare = _spares
    if len(spare.order) < rows:
        spare = _Spare() if rows > KEPT else spare
        room = max(rows, KEPT)
        spare.words, spare.order = np.empty((2, room), dtype=np.uint64), np.empty(room, dtype=np.int32)
    return spare.counts, spare.words[0, :rows], spare.words[1, :rows], spare.order[:rows]
