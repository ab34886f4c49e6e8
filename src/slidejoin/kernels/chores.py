"""Chores: calls of kernels written down as numbers, so that threads can share them without the interpreter.

Design      a chore is a row of 16 words: which kernel, and the addresses and lengths that it is called with. A
            board is where one thread puts up a table of chores and others look for them. Each takes a chore by
            changing one word (the number of the table and which of its chores are left), so no table is taken
            from after it has been replaced. A board has three lanes, in the order in which helpers look at them:
            chores that the one who puts them up does as well and waits for; chores done ahead, while it goes on, as it
            is going to need them soon; and chores that are done aside, in order, whenever nothing else is to be done.
Invariants  a table is replaced only when all its chores are done; whoever puts it up holds the arrays until then.
            What is read of a board before a chore is taken is in the board itself: it may be old, but is never gone,
            and whoever goes by it finds LEFT changed.
Why         a thread that has to come back to the interpreter after each kernel waits for the others each time,
            asleep, for as long as probing a few thousand rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slidejoin.kernels import I32, I64, OUT_I32, OUT_I64, OUT_U64, inlined, kernel, part, types
from slidejoin.kernels.atomics import add, look, now, pause, put, swap
from slidejoin.kernels.calls import address_of, call
from slidejoin.kernels.expand import expand_numbers, expand_visible, pairs_of
from slidejoin.kernels.memory import int32s_at, int64s_at
from slidejoin.kernels.merge import count_from, drop_below, merge_runs, rows_of_first
from slidejoin.kernels.order import COUNTERS, overview, radix_sort
from slidejoin.kernels.search import BLOCK, RUN_WORDS, SPARE, find_in_runs

WORDS = 16  # of a chore
FIND, COLLECT, CHECK, EXPAND, SORT, SHIFT, MERGE, COUNT, DROP, SAMPLE = range(10)

# Of a board: the lanes, how many threads watch, and what does chores. Words that different threads write are in
# different cache lines.
SHARED, AHEAD, AWAKE, PERFORM, ASIDE = 0, 32, 64, 72, 80
# Of a lane. TABLE is the place of the chores; those aside are themselves there.
LEFT, DONE, LENGTH, TABLE = 0, 8, 16, 24
MOST_ASIDE = 24  # chores; runs grow by at least a quarter, and batches are not that many
BOARD = ASIDE + TABLE + MOST_ASIDE * WORDS
# LEFT has the number of the table, where what is left of it begins, and where it ends; of the lane aside, the number of
# the table, how many of its chores are not done, and how many stretches of the next are taken.
HALF = 16  # bits of the latter two
MANY = (1 << HALF) - 1
STRETCH = 1 << 14  # rows that are merged aside before looking for something more urgent: 30 microseconds
SLICE = 1_200_000  # nanoseconds: less than a thread without a core waits for one, more than a chore takes
LOOKS = 1_000_000  # for work, at most, before a helper sleeps: some ten milliseconds
ANY = 1 << 40  # the length of an array that is not asked for its length


@inlined
def address(array):  # type: ignore[no-untyped-def]
    """Where an array begins in memory."""
    return np.int64(array.ctypes.data)


@kernel(types.int64(I64), types.int64(I32))
def place_of(array):  # type: ignore[no-untyped-def]
    """Where an array begins in memory; NumPy needs much longer to tell."""
    return address(array)


@inlined
def write(chores, number, words):  # type: ignore[no-untyped-def]
    """Write a chore down: its kind, then what its kernel reads."""
    for i in range(len(words)):
        chores[number * WORDS + i] = words[i]


# -- probing ---------------------------------------------------------------------------------------------------


@kernel(
    types.void(
        OUT_I64, I64, I64, types.int64, types.int64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64
    ),
    types.void(
        OUT_I64, I64, I32, types.int64, types.int64, I64, I64, I32, OUT_I32, OUT_I32, OUT_I32, OUT_I32, OUT_I64
    ),
)  # fmt: skip
def write_find(  # type: ignore[no-untyped-def]
    chores, runs, centres, below, above, lows, highs, rows, scratch, out_rows, out_starts, out_ends, counts
):
    """Probe the runs with the batch cut into as many pieces as there are chores: ``find_in_runs`` for each.

    Each piece has its part of the outputs, and three counts a run.
    """
    pieces = len(chores) // WORDS
    held = len(runs) // RUN_WORDS
    for piece in range(pieces):
        begin, end = len(rows) * piece // pieces, len(rows) * (piece + 1) // pieces
        at = 4 * (held + SPARE) * begin
        write(
            chores, piece,
            (FIND, address(runs), held, address(lows) + 8 * begin, address(highs) + 8 * begin,
             address(rows) + 4 * begin, end - begin, address(scratch) + 12 * begin, address(out_rows) + at,
             address(out_starts) + at, address(out_ends) + at, address(counts) + 24 * held * piece,
             address(centres) + centres.itemsize * begin if len(centres) else 0, below, above, centres.itemsize),
        )  # fmt: skip


@part
def find(c):  # type: ignore[no-untyped-def]
    runs, asked = c[2], c[6]
    room = (runs + SPARE) * asked
    lows, highs = int64s_at(c[3], asked), int64s_at(c[4], asked)
    places, rows, scratch = (
        int64s_at(c[1], RUN_WORDS * runs),
        int32s_at(c[5], asked),
        int32s_at(c[7], 3 * asked),
    )
    out_rows, out_starts, out_ends = int32s_at(c[8], room), int32s_at(c[9], room), int32s_at(c[10], room)
    counts, centres = int64s_at(c[11], 3 * runs), asked if c[12] else 0
    if c[15] == 4:
        find_in_runs(
            places, int32s_at(c[12], centres), c[13], c[14], lows, highs, lows, highs, rows, scratch,
            out_rows, out_starts, out_ends, counts,
        )  # fmt: skip
    else:
        find_in_runs(
            places, int64s_at(c[12], centres), c[13], c[14], lows, highs, lows, highs, rows, scratch,
            out_rows, out_starts, out_ends, counts,
        )  # fmt: skip


@kernel(types.int64(I64, OUT_I64, OUT_I64, OUT_I64))
def add_up(counts, targets, totals, cuts):  # type: ignore[no-untyped-def]
    """Where the answers of each piece in each run go, and the counts of each run; returns the number of all ranges.

    Runs come one after the other, and within a run the pieces. ``cuts`` gets two numbers a piece of a run: how many
    ranges and pairs of the run there are up to its end.
    """
    runs = len(totals) // 3
    pieces = len(targets) // runs
    at = 0
    for run in range(runs):
        begin, pairs, others_left_out = at, 0, 1
        for piece in range(pieces):
            mine = piece * runs + run
            targets[mine] = at
            at += counts[3 * mine]
            pairs += counts[3 * mine + 1]
            others_left_out &= counts[3 * mine + 2]
            cut = 2 * (run * pieces + piece)
            cuts[cut], cuts[cut + 1] = at - begin, pairs
        totals[3 * run], totals[3 * run + 1], totals[3 * run + 2] = at - begin, pairs, others_left_out
    return at


@kernel(types.void(OUT_I64, I64, I64, I64, I32, I32, I32, OUT_I32, OUT_I32, OUT_I32))
def write_collect(chores, finds, counts, targets, rows, starts, ends, out_rows, out_starts, out_ends):  # type: ignore[no-untyped-def]
    """Bring together what each of the chores ``finds`` has found."""
    pieces = len(chores) // WORDS
    runs = len(targets) // pieces
    for piece in range(pieces):
        at = finds[piece * WORDS + 8] - finds[8]
        write(
            chores, piece,
            (COLLECT, runs, address(counts) + 24 * runs * piece, address(targets) + 8 * runs * piece,
             address(rows) + at, address(starts) + at, address(ends) + at,
             address(out_rows), address(out_starts), address(out_ends)),
        )  # fmt: skip


@part
def collect(c):  # type: ignore[no-untyped-def]
    runs = c[1]
    counts, places = int64s_at(c[2], 3 * runs), int64s_at(c[3], runs)
    for column in range(3):
        source, target = int32s_at(c[4 + column], ANY), int32s_at(c[7 + column], ANY)
        at = 0
        for run in range(runs):
            to, count = places[run], counts[3 * run]
            target[to : to + count] = source[at : at + count]
            at += count


# -- expanding -------------------------------------------------------------------------------------------------


@kernel(types.void(OUT_I64, I32, I32, I32, I32, I64, types.int64, I64, I64, OUT_I32, OUT_I32, OUT_I64))
def write_check(chores, rows, starts, ends, ids, positions, base, lows, highs, out_rows, out_ids, kept):  # type: ignore[no-untyped-def]
    """``expand_visible`` for the ranges cut into as many pieces as there are chores.

    ``kept`` gets two numbers a piece: where its pairs begin in the outputs, and how many they are.
    """
    pieces = len(chores) // WORDS
    at = 0
    for piece in range(pieces):
        begin, end = len(rows) * piece // pieces, len(rows) * (piece + 1) // pieces
        pairs = pairs_of(starts, ends, begin, end)
        write(
            chores, piece,
            (CHECK, address(rows) + 4 * begin, address(starts) + 4 * begin, address(ends) + 4 * begin,
             end - begin, address(ids), address(positions), len(positions), base, address(lows),
             address(highs), len(lows), address(out_rows) + 4 * at, address(out_ids) + 4 * at,
             address(kept) + 16 * piece + 8, pairs),
        )  # fmt: skip
        kept[2 * piece] = at
        at += pairs


@part
def check(c):  # type: ignore[no-untyped-def]
    ranges, bounds, pairs = c[4], c[11], c[15]
    kept = int64s_at(c[14], 1)
    kept[0] = expand_visible(
        int32s_at(c[1], ranges), int32s_at(c[2], ranges), int32s_at(c[3], ranges), int32s_at(c[5], ANY),
        int64s_at(c[6], c[7]), c[8], int64s_at(c[9], bounds), int64s_at(c[10], bounds), 0, 0, pairs,
        int32s_at(c[12], pairs), int32s_at(c[13], pairs),
    )  # fmt: skip


@kernel(types.void(OUT_I64, I32, I32, I32, I32, I64, I64, types.int64, I64, types.int64, OUT_I64, OUT_I64))
def write_expand(  # type: ignore[no-untyped-def]
    chores, rows, starts, ends, ids, cuts, row_numbers, first_row, id_numbers, first_id, out_rows, out_ids
):
    """``expand_numbers`` for the ranges cut into as many pieces as there are chores, where ``cuts`` says, if it does."""
    pieces = len(chores) // WORDS
    at = end = 0
    for piece in range(pieces):
        begin = end
        if len(cuts):
            end, pairs = cuts[2 * piece], cuts[2 * piece + 1] - at
        else:
            end = len(rows) * (piece + 1) // pieces
            pairs = pairs_of(starts, ends, begin, end)
        write(
            chores, piece,
            (EXPAND, address(rows) + 4 * begin, address(starts) + 4 * begin, address(ends) + 4 * begin,
             end - begin, address(ids), address(row_numbers), len(row_numbers), first_row,
             address(id_numbers), len(id_numbers), first_id, address(out_rows) + 8 * at,
             address(out_ids) + 8 * at, pairs),
        )  # fmt: skip
        at += pairs


@part
def expand(c):  # type: ignore[no-untyped-def]
    ranges, pairs = c[4], c[14]
    expand_numbers(
        int32s_at(c[1], ranges), int32s_at(c[2], ranges), int32s_at(c[3], ranges), int32s_at(c[5], ANY),
        int64s_at(c[6], c[7]), c[8], int64s_at(c[9], c[10]), c[11], int64s_at(c[12], pairs),
        int64s_at(c[13], pairs),
    )  # fmt: skip


# -- sorting ---------------------------------------------------------------------------------------------------


@kernel(
    types.void(OUT_I64, I64, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I64, OUT_I32),
    types.void(OUT_I64, I64, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32, OUT_I32),
    types.void(OUT_I64, I32, types.int64, types.int64, OUT_I32, OUT_U64, OUT_U64, OUT_I32, OUT_I32, OUT_I32),
)  # fmt: skip
def write_sort(chores, values, least, most, counters, words, moved, moved_order, keys, order):  # type: ignore[no-untyped-def]
    """``radix_sort`` for as many pieces of a batch as there are chores, each with counters of its own.

    ``least`` above ``most``: they are narrow, and whoever sorts them finds out between which they lie.
    """
    pieces = len(chores) // WORDS
    for piece in range(pieces):
        begin, end = len(values) * piece // pieces, len(values) * (piece + 1) // pieces
        write(
            chores, piece,
            (SORT, begin, end - begin, address(values) + values.itemsize * begin, least, most,
             address(counters) + 4 * COUNTERS * piece, address(words) + 8 * begin, address(moved) + 8 * begin,
             address(moved_order) + 4 * begin, address(keys) + keys.itemsize * begin, address(order) + 4 * begin,
             values.itemsize, keys.itemsize),
        )  # fmt: skip


@part
def sort(c):  # type: ignore[no-untyped-def]
    first, rows = c[1], c[2]
    words, moved = int64s_at(c[7], rows).view(np.uint64), int64s_at(c[8], rows).view(np.uint64)
    counters, moved_order, order = int32s_at(c[6], COUNTERS), int32s_at(c[9], rows), int32s_at(c[11], rows)
    if c[12] == 4:
        values, keys = int32s_at(c[3], rows), int32s_at(c[10], rows)
        ascending, least, most = (False, c[4], c[5]) if c[4] <= c[5] else overview(values)
        if ascending:
            keys[:] = values
            order[:] = np.arange(rows, dtype=np.int32)
        else:
            radix_sort(values, least, most, counters, words, moved, moved_order, keys, order)
    elif c[13] == 4:
        wide_values, keys = int64s_at(c[3], rows), int32s_at(c[10], rows)
        radix_sort(wide_values, c[4], c[5], counters, words, moved, moved_order, keys, order)
    else:
        wide_values, wide_keys = int64s_at(c[3], rows), int64s_at(c[10], rows)
        radix_sort(wide_values, c[4], c[5], counters, words, moved, moved_order, wide_keys, order)
    for i in range(rows):
        order[i] += first


# -- runs ------------------------------------------------------------------------------------------------------


@kernel(types.void(OUT_I64, I32, types.int64, OUT_I32))
def write_shift(chores, ids, first, out):  # type: ignore[no-untyped-def]
    """The ids, counted from ``first`` on."""
    write(chores, 0, (SHIFT, address(ids), len(ids), first, address(out)))


@part
def shift(c):  # type: ignore[no-untyped-def]
    ids, first, out = int32s_at(c[1], c[2]), np.int32(c[3]), int32s_at(c[4], c[2])
    for i in range(len(ids)):
        out[i] = ids[i] + first


@kernel(
    types.void(OUT_I64, I64, I32, I64, I32, OUT_I64, OUT_I32),
    types.void(OUT_I64, I32, I32, I32, I32, OUT_I32, OUT_I32),
)
def write_merge(chores, keys_a, ids_a, keys_b, ids_b, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """``merge_runs``, as many equal stretches of the result as there are chores; for several, the keys must be there."""
    write(
        chores, 0,
        (MERGE, keys_a.itemsize, address(keys_a), address(ids_a), len(keys_a), address(keys_b), address(ids_b),
         len(keys_b), address(out_keys), address(out_ids)),
    )  # fmt: skip
    count = len(chores) // WORDS
    if count > 1:
        whole = chores[:WORDS].copy()
        for stretch in range(count):
            write_stretch(whole, stretch, count, chores[stretch * WORDS :])


@kernel(types.void(I64, types.int64, types.int64, OUT_I64))
def write_stretch(c, stretch, count, out):  # type: ignore[no-untyped-def]
    """One of ``count`` equal stretches of a merge."""
    width, rows_a, rows_b = c[1], c[4], c[7]
    begin, end = (rows_a + rows_b) * stretch // count, (rows_a + rows_b) * (stretch + 1) // count
    if width == 4:
        narrow_a, narrow_b = int32s_at(c[2], rows_a), int32s_at(c[5], rows_b)
        a, end_a = rows_of_first(narrow_a, narrow_b, begin), rows_of_first(narrow_a, narrow_b, end)
    else:
        wide_a, wide_b = int64s_at(c[2], rows_a), int64s_at(c[5], rows_b)
        a, end_a = rows_of_first(wide_a, wide_b, begin), rows_of_first(wide_a, wide_b, end)
    b, end_b = begin - a, end - end_a
    write(
        out, 0,
        (MERGE, width, c[2] + width * a, c[3] + 4 * a, end_a - a, c[5] + width * b, c[6] + 4 * b, end_b - b,
         c[8] + width * begin, c[9] + 4 * begin),
    )  # fmt: skip


@part
def merge(c):  # type: ignore[no-untyped-def]
    a, b = c[4], c[7]
    ids_a, ids_b, out_ids = int32s_at(c[3], a), int32s_at(c[6], b), int32s_at(c[9], a + b)
    if c[1] == 4:
        merge_runs(int32s_at(c[2], a), ids_a, int32s_at(c[5], b), ids_b, int32s_at(c[8], a + b), out_ids)
    else:
        merge_runs(int64s_at(c[2], a), ids_a, int64s_at(c[5], b), ids_b, int64s_at(c[8], a + b), out_ids)


@kernel(types.void(OUT_I64, I32, types.int64, OUT_I64))
def write_count(chores, ids, first, counts):  # type: ignore[no-untyped-def]
    """``count_from`` for as many pieces of a run as there are chores."""
    pieces = len(chores) // WORDS
    for piece in range(pieces):
        begin, end = len(ids) * piece // pieces, len(ids) * (piece + 1) // pieces
        write(
            chores, piece, (COUNT, address(ids) + 4 * begin, end - begin, first, address(counts) + 8 * piece)
        )


@part
def count(c):  # type: ignore[no-untyped-def]
    counts = int64s_at(c[4], 1)
    counts[0] = count_from(int32s_at(c[1], c[2]), np.int32(c[3]))


@kernel(
    types.void(OUT_I64, I64, I32, types.int64, types.int64, I64, OUT_I64, OUT_I32),
    types.void(OUT_I64, I32, I32, types.int64, types.int64, I64, OUT_I32, OUT_I32),
)
def write_drop(chores, keys, ids, first, shift, counts, out_keys, out_ids):  # type: ignore[no-untyped-def]
    """``drop_below`` for as many pieces of a run as there are chores, of which so many entries each are kept."""
    pieces = len(chores) // WORDS
    width, at = keys.itemsize, 0
    for piece in range(pieces):
        begin, end = len(ids) * piece // pieces, len(ids) * (piece + 1) // pieces
        write(
            chores, piece,
            (DROP, width, address(keys) + width * begin, address(ids) + 4 * begin, end - begin, first, shift,
             address(out_keys) + width * at, address(out_ids) + 4 * at, counts[piece]),
        )  # fmt: skip
        at += counts[piece]


@part
def drop(c):  # type: ignore[no-untyped-def]
    rows, kept, first, shift = c[4], c[9], np.int32(c[5]), np.int32(c[6])
    ids, out_ids = int32s_at(c[3], rows), int32s_at(c[8], kept)
    if c[1] == 4:
        drop_below(int32s_at(c[2], rows), ids, first, shift, int32s_at(c[7], kept), out_ids)
    else:
        drop_below(int64s_at(c[2], rows), ids, first, shift, int64s_at(c[7], kept), out_ids)


@kernel(types.void(OUT_I64, I64, OUT_I64), types.void(OUT_I64, I32, OUT_I32))
def write_sample(chores, keys, samples):  # type: ignore[no-untyped-def]
    """The last key of every full block."""
    write(chores, 0, (SAMPLE, keys.itemsize, address(keys), address(samples), len(samples)))


@part
def sample(c):  # type: ignore[no-untyped-def]
    length = c[4]
    if c[1] == 4:
        keys, out = int32s_at(c[2], BLOCK * length), int32s_at(c[3], length)
        for i in range(length):
            out[i] = keys[BLOCK * i + BLOCK - 1]
    else:
        wide, wide_out = int64s_at(c[2], BLOCK * length), int64s_at(c[3], length)
        for i in range(length):
            wide_out[i] = wide[BLOCK * i + BLOCK - 1]


# -- doing them ------------------------------------------------------------------------------------------------


@kernel(types.void(I64))
def perform(chores):  # type: ignore[no-untyped-def]
    """Do all chores of a table, in order."""
    for at in range(0, len(chores), WORDS):
        chore = chores[at : at + WORDS]
        kind = chore[0]
        if kind == FIND:
            find(chore)
        elif kind == COLLECT:
            collect(chore)
        elif kind == CHECK:
            check(chore)
        elif kind == EXPAND:
            expand(chore)
        elif kind == SORT:
            sort(chore)
        elif kind == SHIFT:
            shift(chore)
        elif kind == MERGE:
            merge(chore)
        elif kind == COUNT:
            count(chore)
        elif kind == DROP:
            drop(chore)
        elif kind == SAMPLE:
            sample(chore)


@kernel(types.boolean(OUT_I64, types.int64, types.boolean))
def take(board, lane, first):  # type: ignore[no-untyped-def]
    """Take the first or the last of a lane's chores that are left, and do it; False if none is left.

    Who puts them up begins at one end and helpers at the other, so that mostly the same thread has the same part of
    the arrays, call after call, in its cache.
    """
    left = look(board, lane + LEFT)
    begin, end = (left >> HALF) & MANY, left & MANY
    if begin == end:
        return False
    if swap(board, lane + LEFT, left, left + (1 << HALF) if first else left - 1):
        at = (begin if first else end - 1) * WORDS
        call(board[PERFORM], int64s_at(board[lane + TABLE], at + WORDS)[at:])
        add(board, lane + DONE, 1)
    return True


@inlined
def next_table(board, lane):  # type: ignore[no-untyped-def]
    """The number of the next table of a lane, where it stands in the word."""
    return ((look(board, lane + LEFT) >> 2 * HALF) + 1) << 2 * HALF


@kernel(types.void(OUT_I64, types.int64, I64))
def put_up(board, lane, chores):  # type: ignore[no-untyped-def]
    """Put chores up that are independent of each other; whoever does so has to ``finish`` them."""
    board[lane + TABLE] = address(chores)
    board[lane + LENGTH] = len(chores) // WORDS
    put(board, lane + DONE, 0)
    put(board, lane + LEFT, next_table(board, lane) | board[lane + LENGTH])


@kernel(types.boolean(OUT_I64, types.int64))
def all_done(board, lane):  # type: ignore[no-untyped-def]
    """Whether all chores that were put up in a lane are done."""
    return look(board, lane + DONE) == board[lane + LENGTH]


@kernel(types.boolean(OUT_I64, types.int64))
def finish(board, lane):  # type: ignore[no-untyped-def]
    """Do what others have left of the chores that are up, if any, and wait until all are done.

    Returns whether that took too long: who had taken one has no core to run on.
    """
    while take(board, lane, True):
        continue
    if all_done(board, lane):
        return False
    begun = now()
    while not all_done(board, lane):
        pause()
    return now() - begun > SLICE


@kernel(types.int64(OUT_I64, I64))
def put_aside(board, chores):  # type: ignore[no-untyped-def]
    """Put chores up that are to be done in order; returns the number of the table. The board has a copy of it."""
    for i in range(len(chores)):
        board[ASIDE + TABLE + i] = chores[i]
    board[ASIDE + LENGTH] = len(chores) // WORDS
    put(board, ASIDE + DONE, 0)
    table = next_table(board, ASIDE)
    put(board, ASIDE + LEFT, table | (board[ASIDE + LENGTH] << HALF))
    return table >> 2 * HALF


@kernel(types.boolean(OUT_I64, types.int64))
def is_done(board, table):  # type: ignore[no-untyped-def]
    """Whether a table put aside is done."""
    left = look(board, ASIDE + LEFT)
    return left >> 2 * HALF != table or (left >> HALF) & MANY == 0


@kernel(types.boolean(OUT_I64))
def take_aside(board):  # type: ignore[no-untyped-def]
    """Take the next stretch of the chore aside whose turn it is, and do it; False if there is none to take now.

    Merges have several stretches: those who wait for them can take some, and shared chores come in between.
    """
    left = look(board, ASIDE + LEFT)
    to_go, stretch = (left >> HALF) & MANY, left & MANY
    if to_go == 0:
        return False
    at = ASIDE + TABLE + (board[ASIDE + LENGTH] - to_go) * WORDS
    chore = board[at : at + WORDS]
    count = 1 + (chore[4] + chore[7]) // STRETCH if chore[0] == MERGE else 1
    if stretch >= count:
        return False
    if swap(board, ASIDE + LEFT, left, left + 1):
        if count == 1:
            call(board[PERFORM], chore)
        else:
            some = np.zeros(WORDS, dtype=np.int64)
            write_stretch(chore, stretch, count, some)
            call(board[PERFORM], some)
        if add(board, ASIDE + DONE, 1) + 1 == count:  # the last of them: it is the next one's turn
            put(board, ASIDE + DONE, 0)
            put(board, ASIDE + LEFT, ((left >> HALF) - 1) << HALF)
    return True


@kernel(types.void(OUT_I64, types.int64))
def finish_aside(board, table):  # type: ignore[no-untyped-def]
    """Help with a table put aside until it is done."""
    while not is_done(board, table):
        if not take_aside(board):
            pause()


@kernel(types.boolean(OUT_I64, I64, types.int64, types.int64))
def serve(board, posted, seen, patience):  # type: ignore[no-untyped-def]
    """Do what is put up, until something is posted for the interpreter or there was nothing for so many nanoseconds.

    Returns whether this thread had to wait for a core: then somebody else needs it more than who only watches.
    """
    add(board, AWAKE, 1)
    since = before = now()
    looks = 0  # counted for where there is no clock
    crowded = False
    while before - since <= patience and looks < LOOKS and look(posted, 0) == seen and not crowded:
        if take(board, SHARED, False) or take(board, AHEAD, False) or take_aside(board):
            since = before = now()
            looks = 0
        else:
            pause()
            looks += 1
            after = now()
            crowded = after - before > SLICE
            before = after
    add(board, AWAKE, -1)
    return crowded


def new_board() -> NDArray[np.int64]:
    """A board with nothing on it."""
    board = np.zeros(BOARD, dtype=np.int64)
    board[PERFORM] = address_of(perform)
    return board


class Chores:
    """A table of chores to be, with the arrays that they read and write."""

    def __init__(self) -> None:
        self._words = np.empty(8 * WORDS, dtype=np.int64)
        self._held: list[NDArray[Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def room(self, count: int = 1) -> NDArray[np.int64]:
        """Room for so many more; they are written down by a kernel that has their name."""
        begin, self._count = self._count, self._count + count
        if self._count * WORDS > len(self._words):
            self._words = np.concatenate([self._words, np.empty(2 * self._count * WORDS, dtype=np.int64)])
        return self._words[begin * WORDS : self._count * WORDS]

    def hold(self, *arrays: NDArray[Any]) -> None:
        """Keep arrays until the chores are done."""
        self._held += arrays

    def release(self) -> None:
        """They are done: let the arrays go."""
        self._held = []

    @property
    def table(self) -> NDArray[np.int64]:
        return self._words[: self._count * WORDS]

    def perform(self) -> None:
        """Do them all now; none is left."""
        if self._count:
            perform(self.table)
            self._count, self._held = 0, []
