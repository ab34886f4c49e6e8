"""The indexes by name. A new one is a new file and its line here."""

from __future__ import annotations

from slidejoin.index.bi_sort import BiSort
from slidejoin.index.bi_sort_paper import BiSortPaper
from slidejoin.index.hash import Hash
from slidejoin.index.protocol import Entries, Index, Probes, Ranges
from slidejoin.index.rap_table import RapTable
from slidejoin.index.scan import Scan
from slidejoin.index.wib_tree import WibTree

REGISTRY: dict[str, type[Index]] = {
    index.name: index for index in (Scan, Hash, BiSort, BiSortPaper, RapTable, WibTree)
}

__all__ = [
    "REGISTRY",
    "BiSort",
    "BiSortPaper",
    "Entries",
    "Hash",
    "Index",
    "Probes",
    "Ranges",
    "RapTable",
    "Scan",
    "WibTree",
]
