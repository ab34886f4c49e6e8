"""Worker keys: integers that Spark's shuffle sends to partitions 0, 1, 2, ...

Spark places a grouping key at pmod(Murmur3 of it with seed 42, partitions). Two workers on one partition
would run one after the other, so each worker's key is searched for: the least that lands on its partition.
"""

from __future__ import annotations

from functools import lru_cache

SEED = 42  # Spark's HashPartitioning
MASK = 0xFFFFFFFF


def murmur3(value: int) -> int:
    """Murmur3 (x86, 32 bit) of one int as Spark hashes it: four bytes, seed 42, signed result."""
    mixed = (value & MASK) * 0xCC9E2D51 & MASK
    mixed = (mixed << 15 | mixed >> 17) & MASK
    mixed = mixed * 0x1B873593 & MASK
    result = SEED ^ mixed
    result = (result << 13 | result >> 19) & MASK
    result = (result * 5 + 0xE6546B64) & MASK
    result ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        result = (result ^ result >> shift) * factor & MASK
    result ^= result >> 16
    return result - (1 << 32) if result >> 31 else result


@lru_cache(maxsize=64)
def worker_keys(workers: int, partitions: int) -> tuple[int, ...]:
    """The grouping key of each worker; worker i lands on partition i. O(partitions * log(partitions)).

    >>> worker_keys(2, 2), worker_keys(4, 4)
    ((2, 0), (12, 6, 2, 0))
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < workers:
        place = murmur3(key) % partitions
        if place < workers:
            found.setdefault(place, key)
        key += 1
    return tuple(found[place] for place in range(workers))
