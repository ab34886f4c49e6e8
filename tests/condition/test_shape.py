"""How conditions are taken apart: which paths there are, which need verifying, and what people read."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from condition.check import check
from slidejoin.condition import Branch, parse

SCHEMA = pa.schema(
    {
        "x": pa.int64(), "y": pa.int64(), "i": pa.int32(), "j": pa.int32(), "f": pa.float64(), "g": pa.float64(),
        "s": pa.string(), "t": pa.timestamp("us"), "k": pa.int64(),
    }
)  # fmt: skip


def only(text: str) -> Branch:
    bound = parse(text).bind(SCHEMA, SCHEMA)
    assert len(bound.branches) == 1, bound.describe()
    return bound.branches[0]


@pytest.mark.parametrize(
    "text",
    [
        "abs(l.x - r.x) <= 10",
        "abs(r.x - l.x) <= 10",
        "NOT (abs(l.x - r.x) > 10)",
        "10 >= abs(l.x - r.x)",
        "l.x BETWEEN r.x - 10 AND r.x + 10",
        "r.x BETWEEN l.x - 10 AND l.x + 10",
        "l.x <= r.x + 10 AND l.x >= r.x - 10",
        "l.x - r.x BETWEEN -10 AND 10",
        "2 * abs(l.x - r.x) + 1 <= 21",
        "abs(2 * l.x - 2 * r.x) < 21",
    ],
)
def test_every_spelling_of_a_band(text: str) -> None:
    (path,) = only(text).paths(1)
    assert (path.kind, path.verify, path.key_text) == ("band", None, "r.x")
    assert path.bounds_text == "l.x - 10 <= r.x <= l.x + 10" or "21" in text
    probe = pa.record_batch({"x": [0, 100]})
    items = path.intervals(probe)
    assert items.rows is None
    assert items.lo.tolist() == [-10, 90]
    assert items.hi.tolist() == [10, 110]


@pytest.mark.parametrize("text", ["abs(l.f - r.f) <= 0.05", "l.f BETWEEN r.f - 0.05 AND r.f + 0.05",
                                  "l.f - r.f >= -0.05 AND l.f - r.f <= 0.05"])  # fmt: skip
def test_float_bands_are_exact(text: str) -> None:
    for stored in (0, 1):
        paths = only(text).paths(stored)
        assert {path.kind for path in paths} <= {"band", "inequality"}
        assert paths[0].verify is None or "BETWEEN" in text


@pytest.mark.parametrize(
    ("text", "kind", "exact"),
    [
        ("l.x = r.x", "equality", True),
        ("l.s = r.s", "equality", False),
        ("l.x < r.x", "inequality", True),
        ("l.x <> r.x", "unequal", True),
        ("l.s < r.s", "inequality", False),
        ("2 * l.x + 1 <= r.y - 4", "inequality", True),
        ("l.x + r.x < 50", "inequality", True),
        ("l.i + l.j < r.x", "inequality", True),
        ("l.x + l.y < r.x", "inequality", False),
        ("abs(l.x - r.x) > 3", "unequal", True),
        ("abs(l.t - r.t) <= INTERVAL '5 minutes'", "band", True),
        ("upper(l.s) = upper(r.s)", "equality", False),
        ("l.f = r.x", "equality", True),
        ("l.f - r.f = 1", "band", True),
    ],
)
def test_kinds(text: str, kind: str, exact: bool) -> None:
    path = only(text).paths(0)[0]
    assert path.kind == kind
    assert (path.verify is None) == exact


def test_equalities_together_come_first() -> None:
    paths = only("l.x = r.x AND l.s = r.s AND l.f < r.f").paths(1)
    assert [path.kind for path in paths] == ["equality", "equality", "equality", "inequality"]
    assert paths[0].key_text == "(r.x, r.s)"
    assert paths[1].verify is not None
    assert "l.x = r.x" not in paths[1].verify.text


def test_or_of_bands_on_one_key_is_one_branch() -> None:
    (path,) = only("abs(l.x - r.x) <= 1 OR abs(l.x - r.x - 10) <= 1").paths(1)
    items = path.intervals(pa.record_batch({"x": [0, 100]}))
    assert path.verify is None
    assert items.rows is not None
    assert list(zip(items.rows.tolist(), items.lo.tolist(), items.hi.tolist(), strict=True)) == [
        (0, -11, -9), (0, -1, 1), (1, 89, 91), (1, 99, 101),
    ]  # fmt: skip


def test_overlapping_alternatives_merge() -> None:
    (path,) = only("abs(l.x - r.x) <= 5 OR abs(l.x - r.x - 3) <= 5 OR l.x = r.x + 20").paths(1)
    items = path.intervals(pa.record_batch({"x": [0]}))
    assert list(zip(items.lo.tolist(), items.hi.tolist(), strict=True)) == [(-20, -20), (-8, 5)]


def test_or_over_different_keys_is_several_branches() -> None:
    bound = parse("l.x = r.x OR l.y = r.y OR l.f < r.f").bind(SCHEMA, SCHEMA)
    assert len(bound.branches) == 3
    assert bound.branches[0].paths(0)[0].verify is None
    assert "IS NOT TRUE" in bound.branches[1].verify.text


def test_in_list() -> None:
    branch = only("l.x IN (1, 2, 3) AND l.x = r.x")
    assert branch.filters[0] is not None
    assert len(parse("l.x IN (r.x, r.y)").bind(SCHEMA, SCHEMA).branches) == 2


def test_too_many_alternatives_stay_residual() -> None:
    text = " AND ".join(f"(l.x < r.x + {i} OR l.y < r.y + {i})" for i in range(12))
    bound = parse(text).bind(SCHEMA, SCHEMA)
    assert 1 <= len(bound.branches) <= 16


def test_filters_go_to_their_side() -> None:
    branch = only("l.s = 'a' AND r.y > 3 AND l.x = r.x AND (l.y < 1 OR l.y > 5)")
    left, right = branch.filters
    assert left is not None
    assert left.columns == (("s", "y"), ())
    assert right is not None
    assert right.columns == ((), ("y",))
    assert branch.paths(0)[0].verify is None


def test_width_in_a_column() -> None:
    branch = only("abs(l.x - r.x) <= l.k")
    (band,) = branch.paths(1)
    assert (band.kind, band.verify) == ("band", None)
    assert all(path.verify is not None for path in branch.paths(0))


def test_columns_and_aliases() -> None:
    condition = parse('A.x < b."Y y" AND a.Z = 1', aliases=("a", "b"))
    assert condition.columns(0) == {"x", "Z"}
    assert condition.columns(1) == {"Y y"}
    schema = pa.schema({"X": pa.int64(), "Y y": pa.int64(), "z": pa.int64()})
    bound = condition.bind(schema, schema)
    assert bound.predicate.columns == (("X", "z"), ("Y y",))


def test_describe() -> None:
    text = "abs(l.f - r.f) <= 0.05 AND l.x < r.x AND l.s = 'x'"
    assert parse(text).bind(SCHEMA, SCHEMA).describe().splitlines() == [
        "condition    abs(l.f - r.f) <= 0.05 AND l.x < r.x AND l.s = 'x'",
        "left filter  l.s = 'x'",
        "band         l.f - 0.05 <= r.f <= l.f + 0.05, key l.f | r.f",
        "inequality   r.x > l.x, key l.x | r.x",
        "residual     (none)",
    ]
    assert "left filter" in parse(text).describe()


def test_hashes_do_not_depend_on_the_process() -> None:
    code = (
        "import pyarrow as pa; from slidejoin.condition import parse; s = pa.schema({'s': pa.string()});"
        "p = parse('l.s = r.s').bind(s, s).branches[0].paths(0)[0];"
        "print(p.keys(pa.record_batch({'s': ['a', 'b' * 300, '']})).values.tolist())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


def test_hash_does_not_depend_on_the_batch() -> None:
    (path,) = only("l.s = r.s").paths(0)
    words = ["a", "x" * 127, "x" * 128, "x" * 129, "y" * 500, ""]
    together = path.keys(pa.record_batch({"s": words})).values.tolist()
    assert together == [int(path.keys(pa.record_batch({"s": [word]})).values[0]) for word in words]
    assert len(set(together)) == len(words)


def test_masks_from_several_threads() -> None:
    predicate = parse("upper(l.s) = r.s").bind(SCHEMA, SCHEMA).predicate
    left, right = pa.record_batch({"s": ["a", "b"] * 500}), pa.record_batch({"s": ["A", "A"] * 500})
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.extend(predicate.mask(left, right) for _ in range(5)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    assert all(result.sum() == 500 for result in results)


def test_large_columns_agree_with_small_ones() -> None:
    rng = np.random.default_rng(7)
    count = 3000
    data = pa.record_batch(
        {"f": rng.normal(0, 1, count), "g": rng.random(count), "x": rng.integers(-50, 50, count)}
    )
    for text in (
        "abs(l.f - r.f) <= 0.05",
        "abs(l.f - r.f) <= r.g",
        "l.f - r.f > 0.3",
        "abs(l.x - r.x) <= r.g",
    ):
        bound = parse(text).bind(data.schema, data.schema)
        for stored in (0, 1):
            for path in bound.branches[0].paths(stored):
                whole, parts = (
                    path.intervals(data),
                    [path.intervals(data.slice(i, 7)) for i in range(0, count, 7)],
                )
                assert (whole.lo == np.concatenate([part.lo for part in parts])).all()
                assert (whole.hi == np.concatenate([part.hi for part in parts])).all()
    small = data.slice(0, 60)
    f = small.column("f").to_numpy()
    expected = {(i, j) for i in range(60) for j in range(60) if abs(f[i] - f[j]) <= 0.05}
    check(parse("abs(l.f - r.f) <= 0.05").bind(data.schema, data.schema), small, small, expected)


def test_names_that_need_quotes_are_shown_with_them() -> None:
    schema = pa.schema({"a b": pa.int64(), "c": pa.int64()})
    text = parse('"my feed"."a b" < r.c', aliases=("my feed", "r")).bind(schema, schema).describe()
    assert '"my feed"."a b"' in text.splitlines()[1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("l.f BETWEEN r.x - 5 AND r.x + 5", "l.f - 5 <= r.x <= l.f + 5"),
        ("l.f <= 2 * r.x + 1 AND l.f >= 2 * r.x - 1", "(l.f - 1) / 2 <= r.x <= (l.f + 1) / 2"),
        ("l.f >= 3 - r.x AND l.f <= 9 - r.x", "3 - l.f <= r.x <= 9 - l.f"),
        ("l.f <= 1 - 2 * r.x AND l.f >= -2 * r.x", "(- l.f) / 2 <= r.x <= (1 - l.f) / 2"),
        ("l.f < r.x + r.y AND l.f > r.x + r.y - 4", "l.f < r.x + r.y < l.f + 4"),
    ],
)
def test_a_band_of_an_exact_column_around_a_float(text: str, shown: str) -> None:
    branch = only(text)
    assert [path.kind for path in branch.paths(1)] == ["band"]
    assert branch.paths(1)[0].bounds_text == shown
    assert branch.paths(0)[0].kind == "band"
