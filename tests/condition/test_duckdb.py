"""The evaluator against DuckDB on the values where the two promise the same."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from condition import oracle
from slidejoin.condition import parse

NAMES = ["i", "f", "b", "t", "e", "s"]  # no type here overflows or rounds in DuckDB's arithmetic


def draw(rnd: random.Random, depth: int) -> str:
    if depth == 0:
        side, other = rnd.choice([("l", "r"), ("r", "l"), ("l", "l")])
        name = rnd.choice(NAMES)
        operator = rnd.choice(["=", "<>", "<", "<=", ">", ">="])
        if name == "i":
            return f"{side}.i + {rnd.randint(-3, 3)} {operator} 2 * {other}.i"
        if name == "f":
            return f"abs({side}.f - {other}.f) {operator} 0.5::DOUBLE"
        if name == "t":
            return f"{side}.t + INTERVAL '1 second' {operator} {other}.e"
        return rnd.choice([f"{side}.{name} {operator} {other}.{name}", f"{side}.{name} IS NULL"])
    parts = [draw(rnd, depth - 1) for _ in range(2)]
    return rnd.choice([f"({parts[0]} AND {parts[1]})", f"({parts[0]} OR {parts[1]})", f"NOT ({parts[0]})"])


def _table(rnd: random.Random) -> pa.Table:
    table = pa.Table.from_batches([oracle.batch(oracle.rows(rnd, 30))]).select(NAMES)
    return table.set_column(0, "i", table.column("i").cast(pa.int64()))  # DuckDB's int16 sums overflow


@pytest.mark.parametrize("seed", range(120))
def test_same_as_duckdb(seed: int) -> None:
    rnd = random.Random(seed)
    text = draw(rnd, rnd.randint(0, 3))
    left, right = (_table(rnd) for _ in range(2))
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    expected = connection.sql(
        f"SELECT coalesce({text}, false) AS ok FROM l POSITIONAL JOIN r"
    ).to_arrow_table()
    bound = parse(text).bind(left.schema, right.schema)
    found = bound.predicate.mask(left.to_batches()[0], right.to_batches()[0])
    assert found.tolist() == expected.column("ok").to_pylist(), text
