"""A join that survives its process: save, load in another place, go on as if nothing had happened."""

import tempfile
from pathlib import Path

import numpy as np

import slidejoin as sj


def batch(seed: int, rows: int = 10_000) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {"x": draw.integers(0, 1_000_000, rows), "y": draw.integers(0, 1_000_000, rows)}


def main() -> None:
    join = sj.Join("abs(l.x - r.x) <= 40 AND l.y < r.y", window=sj.Rows(50_000))
    for number in range(5):
        join.push(left=batch(number), right=batch(100 + number))
    with tempfile.TemporaryDirectory() as folder:
        join.save(Path(folder) / "join.snapshot")
        restored = sj.Join.load(Path(folder) / "join.snapshot")
    one, other = (each.push(left=batch(7), right=batch(107)) for each in (join, restored))
    print(f"{one.num_rows:,} matches from the join, {other.num_rows:,} from its restored twin")
    assert one.num_rows == other.num_rows
    assert join.stats().left == restored.stats().left


if __name__ == "__main__":
    main()
