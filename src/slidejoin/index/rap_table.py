"""RaP-Table: a subwindow in range partitions that are learnt from the subwindow before it.

Design      P - 1 splitters cut the keys into P partitions, unsorted inside, each a chain of an LLAT. A batch is
            sorted, so the search for one row's partition rebounds from the row before, and the rows of one
            partition are written together. A probe scans the partitions at its two ends and copies what
            matches; partitions in between, or whose least and greatest key are within the bounds, are ranges.
Invariants  splitters ascend; partition p has the keys in (splitters[p - 1], splitters[p]]; the histograms are
            each partition's count, least and greatest key; an id is held once; at most 2P entries are in use
            while there are no more rows than expected.
Cost        insert O(log P) a row at most, O(1 + P / batch) for dense batches; probe O(N / P + matches).
Adjustment  a subwindow's splitters come from its predecessor's histograms by Algorithm 1. As printed it has an
            error: the j-th splitter is (bal_j - sum_{i-1}) / count_i * (max_i - min_i), which is the distance
            from min_i, not the value, and j starts at 0, for which no bal is defined. Here min_i is added and
            j starts at 1. It is computed in integers, so that keys at both ends of int64 are exact.
Reference   seed 000, III-B, III-E, III-F. We differ: the first subwindow has no predecessor and takes its splitters
            from its first batch, and again whenever it has outgrown its estimate (the paper spreads them over
            32-bit integers; ours are 64-bit words, where dates and floats fill a sliver); P follows the number
            of rows expected, unless it is given; a complete subwindow is packed, so that neighbouring partitions
            are one range; and where scanning would cost more than sorting (increasing values, the known
            issue of III-B3), a sorted copy answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from slidejoin import kernels
from slidejoin.index.bi_sort import SampledRun
from slidejoin.index.by_key import ByKey
from slidejoin.index.llat import Llat
from slidejoin.index.protocol import Entries, Int32s, Int64s, InTurn, Probes, Ranges
from slidejoin.kernels.chores import Chores
from slidejoin.kernels.llat import END
from slidejoin.kernels.order import sort_order
from slidejoin.kernels.partition import COUNT, MAX, MIN, divide_probes, measure, split_batch
from slidejoin.kernels.search import find_blocks, find_ranges
from slidejoin.pools import ALONE, Crew

PARTITION_ROWS = (
    16  # two lines of keys: twice as many insert faster and probe slower, and rows are probed often
)
SIGMA = 1.25  # the paper suggests 1.10 to 1.25: small skew needs no second entry
SMALLEST = 64  # rows expected at least
OUTGROWN = 2  # times the rows expected: from there on partitions are too long
SORTING = 32  # rows scanned in the time that sorting one takes
USUAL = 8  # times a partition's usual length: what a probe may scan before it counts as too much
LISTING = 8  # rows packed in the time that listing one entry takes


@dataclass(slots=True)
class Table:
    """The state of one index. Only ``insert`` changes it; packing and dropping make another."""

    splitters: Int64s
    histogram: Int64s
    llat: Llat
    order: Int32s = field(init=False)
    flat: Llat | None = None  # a packed copy; and a sorted one: made when probes ask for too much
    ordered: SampledRun | None = None
    debt: int = 0  # rows scanned beyond the usual since the last insertion

    def __post_init__(self) -> None:
        self.order = np.arange(len(self.histogram), dtype=np.int32)

    def packed(self) -> Llat:
        if self.llat.sealed:
            return self.llat
        if self.flat is None:
            self.flat = self.llat.packed(self.order)
        return self.flat

    def sorted_run(self) -> SampledRun:
        if self.ordered is None:
            flat = self.packed()
            keys, order = sort_order(flat.keys)
            chores = Chores()
            self.ordered = SampledRun.build(Entries(keys, flat.ids[order]), chores)
            chores.perform()
        return self.ordered


class RapTable(ByKey, InTurn):
    """A range-partitioned subwindow.

    ``partitions`` fixes P, else there is one for every ``partition_rows`` rows expected, by default the class's; ``sigma`` is the slack
    of an entry; ``splitters`` and ``expected`` usually come from a predecessor; ``sorting`` is how many rows may
    be scanned beyond the usual, for each row held, before a sorted copy is made.
    """

    name: ClassVar[str] = "rap_table"
    by_arrival: ClassVar[bool] = False
    several: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"equality", "band", "inequality", "unequal"})
    partition_rows: ClassVar[int] = PARTITION_ROWS

    def __init__(
        self,
        *,
        partitions: int | None = None,
        splitters: Int64s | None = None,
        expected: int = 0,
        partition_rows: int | None = None,
        sigma: float = SIGMA,
        sorting: int = SORTING,
    ) -> None:
        kernels.ready()
        self._partitions, self._partition_rows = partitions, partition_rows or self.partition_rows
        self._sigma, self._sorting = sigma, sorting
        self._expected = max(SMALLEST, expected)
        self._born = 0
        self._table: Table | None = None
        if splitters is not None:
            self._table = self._empty(splitters)

    def successor(self) -> RapTable:
        """The empty table of the next subwindow, with splitters adjusted to what this one has seen."""
        expected = self._born or self._expected
        return type(self)(
            partitions=self._partitions,
            splitters=None if self._table is None else self._adjusted(self._table, expected),
            expected=expected,
            partition_rows=self._partition_rows,
            sigma=self._sigma,
            sorting=self._sorting,
        )

    def _adjusted(self, table: Table, expected: int) -> Int64s:
        histogram = table.histogram.copy()  # another thread may be inserting the last rows still
        if histogram[:, COUNT].sum() == 0:
            return table.splitters
        return np.maximum.accumulate(adjusted(histogram, self._count(expected)))

    def _count(self, expected: int) -> int:
        return self._partitions or max(1, expected // self._partition_rows)

    def _empty(self, splitters: Int64s) -> Table:
        partitions = len(splitters) + 1
        histogram = np.empty((partitions, 3), dtype=np.int64)
        histogram[:] = 0, 2**63 - 1, -(2**63)
        return Table(splitters, histogram, self._storage(partitions))

    def _storage(self, partitions: int) -> Llat:
        width = int(np.ceil(self._expected / partitions * self._sigma))
        return Llat(width=width, chains=partitions, reserved=partitions)

    def insert(self, entries: Entries, crew: Crew = ALONE) -> None:
        del crew  # one thread fills it: rows of one target follow each other
        if len(entries.keys) == 0:
            return
        table = self._table
        rows = self.entries + len(entries.keys)
        self._born += len(entries.keys)
        if table is None or (self._partitions is None and rows > OUTGROWN * self._expected):
            table, entries = self._repartitioned(table, entries)
        elif table.llat.sealed:
            table = self._thawed(table)
        self._append(table, entries)
        self._table = table

    @staticmethod
    def _append(table: Table, entries: Entries) -> None:
        rows = len(entries.keys)
        targets, partitions = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
        bounds = np.empty(rows + 1, dtype=np.int32)
        find_blocks(table.splitters, entries.keys, targets)
        runs = split_batch(targets, entries.keys, table.histogram, partitions, bounds)
        table.llat.append(partitions[:runs], bounds[: runs + 1], entries.keys, entries.ids)
        table.flat = table.ordered = None
        table.debt = 0

    def _repartitioned(self, table: Table | None, entries: Entries) -> tuple[Table, Entries]:
        """An empty table with splitters that suit the rows held and the batch, and all these rows, sorted."""
        if table is not None and table.llat.rows:
            held = table.packed()
            keys, order = sort_order(np.concatenate([held.keys, entries.keys]))
            entries = Entries(keys, np.concatenate([held.ids, entries.ids])[order])
        rows = len(entries.keys)
        self._expected = max(self._expected, OUTGROWN * rows)
        return self._empty(quantiles(entries.keys, self._count(self._expected))), entries

    def _thawed(self, table: Table) -> Table:
        """A packed table made ready for more rows."""
        llat, held = self._storage(len(table.histogram)), table.llat
        bounds = np.concatenate([np.zeros(1, dtype=np.int32), held.table[:, END]])
        llat.append(table.order, bounds, held.keys, held.ids)
        return Table(table.splitters, table.histogram.copy(), llat)

    def probe(self, probes: Probes) -> list[Ranges]:
        table = self._table
        if table is None or table.llat.rows == 0 or len(probes) == 0:
            return []
        asked, rows = len(probes), table.llat.rows
        firsts, whole_probes, whole_firsts, whole_lasts = probes.scratch
        low_probes, low_chains, high_probes, high_chains = (np.empty(asked, dtype=np.int32) for _ in range(4))
        find_blocks(table.splitters, probes.lows, firsts)
        at_low, at_high, wholes, scanned, listed = divide_probes(
            table.splitters,
            table.histogram,
            probes.lows,
            probes.highs,
            firsts,
            low_probes,
            low_chains,
            high_probes,
            high_chains,
            whole_probes,
            whole_firsts,
            whole_lasts,
        )
        table.debt += max(0, scanned - USUAL * self._partition_rows * asked)
        if table.debt > self._sorting * rows:
            return probe_sorted(table.sorted_run(), probes)
        llat = table.packed() if listed > asked + rows // LISTING else table.llat
        scans = [(low_chains[:at_low], low_probes[:at_low]), (high_chains[:at_high], high_probes[:at_high])]
        answers = [llat.scan(*scan, probes, scanned) for scan in scans if len(scan[0])]
        if wholes:
            answers.append(
                llat.whole(
                    table.order, whole_firsts[:wholes], whole_lasts[:wholes], whole_probes[:wholes], probes
                )
            )
        return [ranges for ranges in answers if ranges is not None]

    def drop_below(self, first: int, shift: int = 0, crew: Crew = ALONE) -> None:
        del crew  # one pass of copying
        table = self._table
        if table is None:
            return
        llat = table.llat.packed(table.order, first)
        llat.ids -= np.int32(shift)  # a copy of its own: earlier answers point into the other one
        histogram = np.empty_like(table.histogram)
        measure(llat.table[:, END].copy(), llat.keys, histogram)
        self._table = Table(table.splitters, histogram, llat)

    def merge(self, crew: Crew = ALONE) -> None:
        """Pack: partitions lie one after the other, so that any number of neighbours is one range."""
        del crew  # packing is one pass of copying
        table = self._table
        if table is not None and not table.llat.sealed:
            self._table = Table(
                table.splitters, table.histogram, table.packed(), None, table.ordered, table.debt
            )

    def check(self) -> None:
        table = self._table
        if table is None:
            return
        partitions = len(table.histogram)
        assert len(table.splitters) == partitions - 1, "a splitter between neighbours"
        assert bool(np.all(table.splitters[1:] >= table.splitters[:-1])), "splitters ascend"
        table.llat.check(table.order)
        flat = table.llat.packed(table.order)
        counts, least, most = table.histogram[:, COUNT], table.histogram[:, MIN], table.histogram[:, MAX]
        expected = np.empty_like(table.histogram)
        measure(flat.table[:, END].copy(), flat.keys, expected)
        assert np.array_equal(table.histogram, expected), "histograms are exact"
        some = counts > 0
        assert bool(np.all(most[:-1][some[:-1]] <= table.splitters[some[:-1]])), "no key above its splitter"
        assert bool(np.all(least[1:][some[1:]] > table.splitters[some[1:]])), "every key above the one before"
        assert len(np.unique(flat.ids)) == len(flat.ids) == int(counts.sum()), "an id is held once"
        if not table.llat.sealed and flat.rows <= self._expected:
            assert table.llat.entries_used <= 2 * partitions, "2P entries are enough"
        if table.flat is not None:
            assert np.array_equal(table.flat.ids, flat.ids), "the packed copy is up to date"
        if table.ordered is not None:
            assert np.array_equal(np.sort(table.ordered.ids), np.sort(flat.ids)), (
                "the sorted copy is up to date"
            )

    @property
    def entries(self) -> int:
        return 0 if self._table is None else self._table.llat.rows

    @property
    def nbytes(self) -> int:
        table = self._table
        if table is None:
            return 0
        held = table.splitters.nbytes + table.histogram.nbytes + table.order.nbytes + table.llat.nbytes
        held += 0 if table.flat is None else table.flat.nbytes
        return held + (0 if table.ordered is None else table.ordered.nbytes)

    @property
    def imbalance(self) -> float:
        """How uneven the partitions are: the mean of abs(count - N / P) over N / P; 0 is perfect (figure 10f)."""
        if self._table is None or self._table.llat.rows == 0:
            return 0.0
        counts = self._table.histogram[:, COUNT]
        mean = float(counts.mean())
        return float(np.abs(counts - mean).mean()) / mean


def adjusted(histogram: Int64s, partitions: int) -> Int64s:
    """Algorithm 1: new splitters from the count, least and greatest key of each partition; O(P).

    >>> adjusted(np.array([[2, 0, 10], [6, 20, 80]]), 4)
    array([10, 40, 60])
    """
    counts = histogram[:, COUNT]
    sums = np.cumsum(counts)
    total = int(sums[-1])
    balance = np.maximum(1, total * np.arange(1, partitions) // partitions)
    at = np.searchsorted(sums, balance)  # balance is within (sums[at - 1], sums[at]]
    count = counts[at].astype(np.uint64)
    part = (balance - sums[at]).astype(np.int64).view(np.uint64) + count
    least = histogram[at, MIN].view(np.uint64)
    span = histogram[at, MAX].view(np.uint64) - least
    # span * part / count without leaving 64 bits: counts are below 2^31, so the remainders' product fits
    offset = span // count * part + span % count * part // count
    splitters: Int64s = (least + offset).view(np.int64)
    return splitters


def quantiles(keys: Int64s, partitions: int) -> Int64s:
    """Splitters that cut a sorted batch evenly."""
    at = np.arange(1, partitions) * len(keys) // partitions
    return keys[np.maximum(at - 1, 0)]


def spread(partitions: int, low: int, high: int) -> Int64s:
    """Splitters spread evenly over a range, for when nothing is known: where the paper's tables start."""
    whole = np.array([[max(1, partitions), low, high]], dtype=np.int64)
    return adjusted(whole, partitions)


def probe_sorted(run: SampledRun, probes: Probes) -> list[Ranges]:
    """The answer from a sorted copy, as BI-Sort gives it."""
    blocks, rows, starts, ends = probes.scratch
    kept, pairs = find_ranges(
        run.keys, run.samples, probes.lows, probes.highs, probes.rows, blocks, rows, starts, ends
    )
    if not kept:
        return []
    return [Ranges(rows[:kept].copy(), starts[:kept].copy(), ends[:kept].copy(), run.ids, pairs)]
