"""The indexes by name. A new one is a new file and its line here."""

from __future__ import annotations

from slidejoin.index.bi_sort import BiSort
from slidejoin.index.bi_sort_paper import BiSortPaper
from slidejoin.index.bplus_tree import BPlusTree
from slidejoin.index.cell_runs import CellRuns
from slidejoin.index.hash import Hash
from slidejoin.index.protocol import Entries, Index, Probes, Ranges
from slidejoin.index.rap_table import RapTable
from slidejoin.index.scan import Scan
from slidejoin.index.sizes import OWN, Sizes, sized
from slidejoin.index.sort_tree import SortTree
from slidejoin.index.spo_join import SpoCss, SpoHash, SpoJoin
from slidejoin.index.wib_tree import WibTree

REGISTRY: dict[str, type[Index]] = {
    index.name: index
    for index in (
        Scan,
        Hash,
        BiSort,
        BiSortPaper,
        RapTable,
        WibTree,
        BPlusTree,
        SpoJoin,
        SpoHash,
        SpoCss,
        SortTree,
        CellRuns,
    )
}

__all__ = [
    "OWN",
    "REGISTRY",
    "BPlusTree",
    "BiSort",
    "BiSortPaper",
    "CellRuns",
    "Entries",
    "Hash",
    "Index",
    "Probes",
    "Ranges",
    "RapTable",
    "Scan",
    "Sizes",
    "SortTree",
    "SpoCss",
    "SpoHash",
    "SpoJoin",
    "WibTree",
    "sized",
]
