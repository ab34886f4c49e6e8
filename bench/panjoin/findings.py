"""What the paper finds in each figure, and whether it holds here: judged from the figures, not by hand.

A judgement computes a ratio from the lines and compares it with a bound; the reason is printed where it does not hold.
Labels of lines carry what varies ("P = 2^13"), in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

Lines = dict[str, list[tuple[float, float]]]
Verdict = tuple[bool, str]


class Finding(NamedTuple):
    figure: str
    title: str
    claim: str
    holds: bool
    text: str
    reason: str

    @property
    def sentence(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        return f"{verdict}: {self.text}" + ("" if self.holds else f"; {self.reason}")


def rise(line: list[tuple[float, float]]) -> float:
    """The last point over the first."""
    return line[-1][1] / line[0][1]


def average(line: list[tuple[float, float]]) -> float:
    """The geometric mean of a line."""
    product = 1.0
    for _, value in line:
        product *= max(value, 1e-12)
    return float(product ** (1 / len(line)))


def ends(lines: Lines) -> float:
    """The average of the last line over that of the first, where both have points."""
    first, last = (dict(lines[label]) for label in (next(iter(lines)), [*lines][-1]))
    both = [x for x in first if x in last]
    return average([(x, last[x]) for x in both]) / average([(x, first[x]) for x in both])


def larger_batches(lines: Lines) -> Verdict:
    gains = [rise(line) for line in lines.values()]
    return min(
        gains
    ) > 1.5, f"the largest batches are {min(gains):.1f} to {max(gains):.1f} times as fast as the smallest"


def first_is_faster(what: str) -> Callable[[Lines], Verdict]:
    def judge(lines: Lines) -> Verdict:
        return ends(lines) < 1.0, f"{what}: the largest is {ends(lines):.2f} times as fast as the smallest"

    return judge


def last_is_faster(what: str) -> Callable[[Lines], Verdict]:
    def judge(lines: Lines) -> Verdict:
        return ends(lines) > 1.0, f"{what}: the last is {ends(lines):.2f} times as fast as the first"

    return judge


def insensitive(what: str, within: float) -> Callable[[Lines], Verdict]:
    def judge(lines: Lines) -> Verdict:
        values = [average(line) for line in lines.values()]
        ratio = max(values) / min(values)
        return ratio <= within, f"{what} changes the speed {ratio:.2f} times"

    return judge


def falls(lines: Lines) -> Verdict:
    drops = [1 / rise(line) for line in lines.values()]
    return min(
        drops
    ) > 1.5, f"from the least to the greatest selectivity {min(drops):.1f} to {max(drops):.1f} times slower"


def flat(lines: Lines) -> Verdict:
    drops = [max(v for _, v in line) / min(v for _, v in line) for line in lines.values()]
    return max(drops) <= 4, f"fastest over slowest selectivity {min(drops):.1f} to {max(drops):.1f}"


def converges(lines: Lines) -> Verdict:
    late = {label: abs(line[3][1] - line[-1][1]) for label, line in lines.items()}
    worst = max(late, key=late.__getitem__)
    return late[worst] < 0.1, (
        f"after 3 adjustments every error is within {late[worst]:.2f} of where it stays; from "
        f"{max(line[0][1] for line in lines.values()):.2f} at first to {max(line[3][1] for line in lines.values()):.2f} at most"
    )


def over_tree(lines: Lines) -> Verdict:
    gain = average(lines["insertion"])
    probing = [value for _, value in lines["band probing"]]
    return (
        gain >= 3,
        f"insertion {gain:.0f}x, band probing {min(probing):.0f}x to {max(probing):.0f}x of sortedcontainers",
    )


def buffer_helps(lines: Lines) -> Verdict:
    none, large = lines["B = 1"][0][1], lines["B = 8192"][0][1]
    ours = lines["bi_sort (ours)"][0][1]
    return large / none > 10, (
        f"single rows: a buffer of 8192 inserts {large / none:.0f} times as fast as none; ours, without a buffer, {ours / none:.0f} times"
    )


def paper_insertion(lines: Lines) -> Verdict:
    small = {kind: line[0][1] for kind, line in lines.items()}
    large = {kind: line[-1][1] for kind, line in lines.items()}
    others = ("rap_table", "wib_tree")
    holds = all(small["bi_sort_paper"] < small[k] for k in others) and all(
        large["bi_sort_paper"] > large[k] for k in others
    )
    return holds, (
        f"smallest batches: the paper's BI-Sort {small['bi_sort_paper'] / small['rap_table']:.2f} of RaP-Table, ours "
        f"{small['bi_sort'] / small['rap_table']:.2f}; largest: {large['bi_sort_paper'] / large['rap_table']:.1f} and "
        f"{large['bi_sort'] / large['rap_table']:.1f}"
    )


def paper_probing(lines: Lines) -> Verdict:
    first = {kind: line[0][1] for kind, line in lines.items()}
    last = {kind: line[-1][1] for kind, line in lines.items()}
    best = max(first["bi_sort"], first["bi_sort_paper"])
    holds = best > first["rap_table"] > first["wib_tree"] and last["bi_sort_paper"] > last["rap_table"]
    return holds, (
        f"S = 1: RaP-Table {first['rap_table'] / first['wib_tree']:.1f} of WiB+-Tree, BI-Sort {best / first['rap_table']:.1f} of "
        f"RaP-Table; largest S: {max(last['bi_sort'], last['bi_sort_paper']) / last['rap_table']:.1f}"
    )


def system_order(lines: Lines) -> Verdict:
    last = {kind: line[-1][1] for kind, line in lines.items()}
    best = max(last, key=last.__getitem__)
    return best.startswith(
        "bi_sort"
    ), f"largest batches: {', '.join(f'{k} {v / 1e6:.1f} M/s' for k, v in last.items())}"


def system_selectivity(lines: Lines) -> Verdict:
    drops = {kind: 1 / rise(line) for kind, line in lines.items()}
    others = min(drops["rap_table"], drops["wib_tree"])
    return others > 1.5 * drops["bi_sort"], ", ".join(f"{k} {v:.1f} times slower" for k, v in drops.items())


def over_loop(lines: Lines) -> Verdict:
    sorts = [value for _, value in lines["bi_sort"]]
    others = [value for kind in ("rap_table", "wib_tree") for _, value in lines[kind]]
    return (
        min(sorts) > 1000,
        f"BI-Sort {min(sorts):,.0f}x to {max(sorts):,.0f}x, the other two {min(others):,.0f}x to {max(others):,.0f}x",
    )


BATCHES = "tuples of a batch share memory accesses, so larger batches insert faster"
ONE_THREAD = "a search over few samples is the smaller part of a probe here"
CALLS = "a call from Python costs some microseconds, which small batches do not spread over many rows"
TEXTS: dict[str, tuple[str, str, Callable[[Lines], Verdict], str]] = {
    "10a": ("RaP-Table: insertion by N_bat and P", BATCHES + ", and fewer partitions too", larger_batches, ""),
    "10b": ("RaP-Table: insertion by N_bat and N_sub", "smaller subwindows are slightly faster", first_is_faster("rows of a subwindow"),
            "with P fixed, a larger subwindow has longer partitions, and a batch touches no more of them"),
    "10c": ("RaP-Table: equality by N_bat and N_P", "smaller partitions probe faster", last_is_faster("from long partitions to short"), ONE_THREAD),
    "10d": ("RaP-Table: equality by S", "falls as selectivity rises", falls,
            "a partition whose keys all match is answered as a range instead of a copy"),
    "10e": ("RaP-Table: band by S", "falls as selectivity rises", falls,
            "partitions within the band are answered as ranges instead of copies"),
    "10f": ("RaP-Table: error per adjustment", "converges in 3 adjustments", converges,
            "an adjustment narrows a partition P times at most, and rank-size keys lie in a sliver of the range"),
    "11a": ("WiB+-Tree: insertion by N_bat and P", "not sensitive to P", insensitive("P", 2.0),
            "narrow leaves are cut more often, and a batch has fewer rows for each"),
    "11b": ("WiB+-Tree: insertion by N_bat and N_sub", "larger subwindows are slower", first_is_faster("rows of a subwindow"),
            "with P fixed, a larger subwindow has wider leaves, which are cut less often"),
    "11c": ("WiB+-Tree: equality by N_bat and N_P", "smaller leaves probe faster", last_is_faster("from wide leaves to narrow"), ONE_THREAD),
    "11d": ("WiB+-Tree: equality by S", "falls as selectivity rises", falls,
            "from some point on the tree puts its rows in order and answers with ranges"),
    "11e": ("WiB+-Tree: band by S", "falls as selectivity rises", falls,
            "from some point on the tree puts its rows in order and answers with ranges"),
    "11f": ("WiB+-Tree over a mutable sorted list", "insertion 3.5 to 4.5 times a B-tree", over_tree, ""),
    "12a": ("BI-Sort (paper): insertion by N_bat and P", "not sensitive to P", insensitive("P", 2.0), ""),
    "12b": ("BI-Sort (paper): insertion by N_bat and N_sub", "larger subwindows are considerably slower", first_is_faster("rows of a subwindow"), ""),
    "12c": ("BI-Sort (paper): equality by N_bat and N_P", "N_P matters little", insensitive("N_P", 3.0),
            "on one thread, stepping through a long partition is most of a probe's time"),
    "12d": ("BI-Sort (paper): equality by S", "not sensitive to selectivity", flat,
            "with few different keys neighbouring probes share their answers' memory and get faster"),
    "12e": ("BI-Sort (paper): band by S", "not sensitive to selectivity", flat,
            "the end of a range is galloped to, and wide ranges end in memory that is not in the cache"),
    "12f": ("BI-Sort (paper): insertion by buffer size", "orders of magnitude between a large buffer and a small one", buffer_helps, CALLS),
    "13a": ("All: insertion", "BI-Sort is last for small batches and first for large ones", paper_insertion,
            "the main array here is smaller than the paper's 8 M rows, so merging it costs less"),
    "13b": ("All: band by S", "BI-Sort before RaP-Table before WiB+-Tree, and far ahead for large S", paper_probing,
            "our leaves are looked through by vector instructions, and dense answers are ranges"),
    "15a": ("System: equality, S = 1", "BI-Sort is the fastest, larger batches are faster", system_order,
            "complete subwindows of a WiB+-Tree are put in order, so most probes meet the same arrays in all three"),
    "15b": ("System: band by S", "RaP-Table and WiB+-Tree fall as selectivity rises, BI-Sort does not", system_selectivity,
            "complete subwindows answer with ranges, whatever the structure"),
    "15e": ("Over a nested loop, the smaller window", "BI-Sort more than 1000 times", over_loop,
            "the window is a sixteenth of the paper's, and a nested loop's time falls with it"),
    "15f": ("Over a nested loop, the larger window", "BI-Sort about 5000 times with the larger window", over_loop,
            "the window is half of the paper's smaller one; the goals below have 2^23 rows, where it is beyond 1000"),
}  # fmt: skip


def judged(lines: dict[str, Lines]) -> Iterator[Finding]:
    """What is found in each figure that was measured."""
    for figure, (title, claim, judge, reason) in TEXTS.items():
        if figure in lines:
            holds, text = judge(lines[figure])
            yield Finding(figure, title, claim, holds, text, reason)
