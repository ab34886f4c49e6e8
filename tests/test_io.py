"""In and out: every producer of Arrow data, every type of payload, and columns that change or move."""

from __future__ import annotations

import decimal
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj
from duel import assert_same_rows, pairs_of

ROWS = {"k": [1, 2, 2, None], "name": ["a", "b", None, "d"]}
OTHER = {"k": [2, 1, 3], "score": [0.5, None, 1.5]}
EXPECTED = Counter({(0, 1): 1, (1, 0): 1, (2, 0): 1})


def table(rows: dict[str, list[Any]]) -> pa.Table:
    return pa.table(rows)


def keyed(**options: Any) -> sj.Join:
    return sj.Join("l.k = r.k", window=sj.Rows(1000), **options)


# -- what may be pushed -----------------------------------------------------------------------------------


def as_duckdb(data: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.register("data", data)
    return connection.sql("SELECT * FROM data")


PRODUCERS = {
    "table": lambda data: data,
    "record batch": lambda data: data.combine_chunks().to_batches()[0],
    "reader": lambda data: data.to_reader(),
    "reader of many batches": lambda data: data.to_reader(max_chunksize=1),
    "polars": pl.from_arrow,
    "duckdb": as_duckdb,
    "nanoarrow stream": nanoarrow.c_array_stream,
    "nanoarrow array": lambda data: nanoarrow.Array(data.to_reader()),
    "chunked": lambda data: pa.concat_tables([data.slice(i, 1) for i in range(data.num_rows)]),
    "sliced": lambda data: (
        pa.concat_tables([data, data, data]).combine_chunks().slice(data.num_rows, data.num_rows)
    ),
}


@pytest.mark.parametrize("producer", PRODUCERS, ids=str)
def test_anything_with_an_arrow_stream(producer: str) -> None:
    make = PRODUCERS[producer]
    matches = keyed().push(left=make(table(ROWS)), right=make(table(OTHER)))
    assert Counter(pairs_of(matches)) == EXPECTED
    rows = sorted(matches.to_table().to_pylist(), key=lambda row: (row["k_l"], str(row["name"])))
    assert rows == [
        {"k_l": 1, "name": "a", "k_r": 1, "score": None},
        {"k_l": 2, "name": None, "k_r": 2, "score": 0.5},
        {"k_l": 2, "name": "b", "k_r": 2, "score": 0.5},
    ]


def test_pandas() -> None:
    left = pd.DataFrame({"k": [1, 2, 2, 9], "name": ["a", "b", None, "d"]}, index=[7, 7, 8, 9])
    right = pd.DataFrame({"k": [2, 1, 3], "when": pd.to_datetime(["2024-01-01", None, "2024-01-03"])})
    matches = keyed().push(left=left, right=right)
    assert Counter(pairs_of(matches)) == EXPECTED
    assert matches.to_table().schema.names == ["k_l", "name", "k_r", "when"], "the index is not a column"


def test_pandas_nullable_integers_and_missing_values() -> None:
    left = pd.DataFrame({"k": pd.array([1, 2, None], dtype="Int64")})
    right = pd.DataFrame({"k": [1.0, float("nan")]})
    # pandas says missing with NaN, and Arrow reads it so: NULL matches nothing
    assert pairs_of(keyed().push(left=left, right=right)) == [(0, 0)]


def test_dict_of_numpy_arrays() -> None:
    left = {"k": np.array([1, 2, 2, 9]), "v": np.arange(4, dtype=np.float32)}
    right = {
        "k": np.array([2, 1, 3], dtype=np.int16),
        "t": np.array(["2024-01-01"] * 3, dtype="datetime64[ms]"),
    }
    matches = keyed().push(left=left, right=right)
    assert Counter(pairs_of(matches)) == EXPECTED
    assert matches.to_table().schema.types == [pa.int64(), pa.float32(), pa.int16(), pa.timestamp("ms")]


def test_dict_of_numpy_keeps_nan_as_a_number() -> None:
    nan = {"k": np.array([np.nan, 1.0])}
    assert Counter(pairs_of(keyed().push(left=nan, right=nan))) == Counter({(0, 0): 1, (1, 1): 1})


def test_dict_of_strided_arrays() -> None:
    wide = np.arange(20)
    matches = keyed().push(left={"k": wide[::2]}, right={"k": wide[::-4]})
    assert matches.num_rows == sum(k % 2 == 0 for k in wide[::-4].tolist())


def test_pushing_nothing_is_nothing() -> None:
    assert keyed().push().num_rows == 0
    assert sj.Join("TRUE", window=sj.Time(5, on="ts")).advance().num_rows == 0


def test_dict_of_lists_and_arrow_arrays() -> None:
    matches = keyed().push(left={"k": [1, None, 2]}, right={"k": pa.array([2, 2])})
    assert Counter(pairs_of(matches)) == Counter({(2, 0): 1, (2, 1): 1})


@pytest.mark.parametrize(
    "batch",
    [
        5,
        "text",
        [1, 2, 3],
        {"k": [1, 2], "v": [1]},
        {"k": np.zeros((2, 2))},
        {"k": 5},
        pa.array([1, 2]),
        object(),
        {"k": np.array([object()])},
        {"k": np.array([1, 2], dtype=">i4")},
    ],
    ids=lambda batch: str(type(batch)) + str(batch)[:12],
)
def test_what_cannot_be_pushed(batch: Any) -> None:
    join = keyed()
    with pytest.raises(sj.SchemaError):
        join.push(left=batch)
    assert join.stats()["left"]["rows_in"] == 0
    assert join.push(left=table(ROWS), right=table(OTHER)).num_rows == 3


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"k": 5}, r"the left column 'k' is of type int;.*one row is \{'k': \[5\]\}"),
        ({"k": "ab"}, r"the left column 'k' is of type str;.*one row is \{'k': \['ab'\]\}"),
        ({"k": (value for value in [1])}, "the left column 'k' is of type generator;.* make a list of it"),
        (pl.DataFrame, "could not be read as Arrow columns"),
        ({"k": pd.DataFrame({"a": [1]})}, "could not be read as Arrow columns"),
        (pl.LazyFrame({"k": [1]}), r"of type LazyFrame; expected .*; collect\(\) it first"),
        (object(), r"of type object; expected .*; wrap it in pyarrow.table"),
    ],
    ids=["number", "text", "generator", "a frame's class", "frame as a column", "lazy", "object"],
)
def test_what_cannot_be_pushed_is_told(batch: Any, said: str) -> None:
    with pytest.raises(sj.SchemaError, match=said):
        keyed().push(left=batch)


@pytest.mark.parametrize("collecting", [False, True])
def test_a_column_of_nulls_alone_has_the_known_type(collecting: bool) -> None:
    """A frame of a feed may have no value in some column, and then no type for it."""
    join = keyed(how="left")
    push = join.collect(rows=1000).push if collecting else join.push
    push(left=pd.DataFrame({"k": [1, 2], "name": ["a", "b"]}))
    push(left=pd.DataFrame({"k": [3, 4], "name": [None, None]}), right=table(OTHER))
    push(left={"k": [None], "name": ["e"]})
    push(left={"k": [], "name": []})
    if collecting:
        push.__self__.flush()
    assert join.stats().left.rows_in == 5
    left = [(row["k_l"], row["name"]) for row in join.finish().to_table().to_pylist()]
    assert sorted(left, key=str) == [(4, None), (None, "e")]
    join.check()


@pytest.mark.parametrize("first", ["pandas", "polars", "pyarrow", "wide", "view"])
def test_text_is_text_however_it_is_laid_out(first: str) -> None:
    """Producers differ in how they lay text and bytes out; a stream may have several."""
    rows = {"k": [1, 2, 3], "name": ["a", None, "b" * 40], "raw": [b"x", b"y" * 40, None]}
    plain = pa.table(rows)
    wide = pa.schema([("k", pa.int64()), ("name", pa.large_string()), ("raw", pa.large_binary())])
    view = pa.schema([("k", pa.int64()), ("name", pa.string_view()), ("raw", pa.binary_view())])
    given = {
        "pandas": pd.DataFrame(rows),
        "polars": pl.DataFrame(rows),
        "pyarrow": plain,
        "wide": plain.cast(wide),
        "view": plain.cast(view),
    }
    join = sj.Join("l.name = r.name", window=sj.Rows(1000))
    kinds = pa.table(given[first]).schema.types
    join.push(left=given.pop(first))
    for more in given.values():
        assert join.push(left=more).num_rows == 0
    out = join.push(right={"name": ["a", "b" * 40]}).to_table()
    assert out.num_rows == 2 * 5
    assert out.schema.types[:3] == kinds
    assert Counter(out["raw"].to_pylist()) == {b"x": 5, None: 5}
    with pytest.raises(sj.SchemaError, match=r"\(raw was [a-z_]+, is string\)"):
        join.push(left=pa.table({"k": [1], "name": ["a"], "raw": ["text"]}))
    with pytest.raises(sj.SchemaError, match="another order"):
        join.push(left=plain.select(["name", "k", "raw"]))
    with pytest.raises(sj.SchemaError, match="another order"):  # NULLs alone are no difference
        join.push(left={"name": [None], "k": [1], "raw": [None]})
    join.check()


def test_nulls_alone_in_a_column_without_nulls_are_refused() -> None:
    join = keyed()
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("name", pa.string())])
    join.push(left=pa.table({"k": [1], "name": ["a"]}, schema=schema))
    with pytest.raises(sj.SchemaError, match="declared not null"):
        join.push(left={"k": [None], "name": ["a"]})


# -- what comes out ---------------------------------------------------------------------------------------


def test_polars_and_other_consumers_read_matches() -> None:
    matches = keyed().push(left=table(ROWS), right=table(OTHER))
    frame = pl.DataFrame(matches)
    assert frame.columns == ["k_l", "name", "k_r", "score"]
    assert frame.height == 3
    structs = pl.from_arrow(matches)  # Polars 1 makes a frame of a stream, Polars 2 a series of structs
    assert len(structs) == 3
    assert (structs.struct.unnest() if isinstance(structs, pl.Series) else structs).columns == frame.columns
    assert pa.table(matches).num_rows == 3
    assert pa.RecordBatchReader.from_stream(matches).read_all().num_rows == 3
    assert duckdb.sql("SELECT count(*) FROM matches").fetchall() == [(3,)]
    assert sum(batch.num_rows for batch in matches) == 3


def test_an_empty_result_has_its_columns() -> None:
    matches = keyed().push(left=table(ROWS), right=table(OTHER).slice(0, 0))
    assert matches.num_rows == 0
    assert matches.to_table().schema.names == ["k_l", "name", "k_r", "score"]
    assert pl.DataFrame(matches).columns == ["k_l", "name", "k_r", "score"]
    assert list(matches) == []
    assert [len(side) for side in matches.indices()] == [0, 0]


def test_pieces_of_iteration_are_bounded() -> None:
    join = sj.Join("TRUE", window=sj.Rows(1000))
    many = {"x": np.arange(1000)}
    join.push(left=many)
    matches = join.push(right={"x": np.arange(400)})
    sizes = [piece.num_rows for piece in matches]
    assert sum(sizes) == matches.num_rows == 400_000
    assert max(sizes) <= 65_536
    assert min(sizes) > 0
    found = np.concatenate([piece["x_l"].to_numpy() * 400 + piece["x_r"].to_numpy() for piece in matches])
    assert np.array_equal(np.sort(found), np.arange(400_000))


def test_column_names_and_suffixes() -> None:
    left = {"k": [1], "a": [1], "b": [2]}
    right = {"b": [3], "k": [1], "c": [4]}
    plain = keyed().push(left=left, right=right).to_table()
    assert plain.schema.names == ["k_l", "a", "b_l", "b_r", "k_r", "c"]
    assert plain.to_pylist() == [{"k_l": 1, "a": 1, "b_l": 2, "b_r": 3, "k_r": 1, "c": 4}]
    other = keyed(suffixes=("", ".right")).push(left=left, right=right).to_table()
    assert other.schema.names == ["k", "a", "b", "b.right", "k.right", "c"]
    for how in ("semi", "anti"):
        assert keyed(how=how).push(left=left, right=right).to_table().schema.names == ["k", "a", "b"]


def test_suffixes_that_meet_another_column_are_refused() -> None:
    join = keyed()
    with pytest.raises(sj.SchemaError):
        join.push(left={"k": [1], "k_r": [1]}, right={"k": [1]})


def test_nullability_is_that_of_the_input() -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    data = pa.table({"k": [1], "v": [2]}, schema=schema)
    out = keyed().push(left=data, right=data).to_table().schema
    assert [field.nullable for field in out] == [False, True, False, True]
    padded = keyed(how="left").push(left=data, right=data).to_table().schema
    assert [field.nullable for field in padded][:2] == [False, True]
    assert [field.nullable for field in padded][2:] == [True, True], "a padded side may be NULL"


# -- payloads survive -------------------------------------------------------------------------------------

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 123456)
PAYLOADS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, None, False]),
    "float16": (pa.float16(), [np.float16(1.5), None, np.float16("nan")]),
    "decimal128": (pa.decimal128(38, 10), [decimal.Decimal("1.5"), None, decimal.Decimal("-9.25")]),
    "decimal256": (pa.decimal256(76, 2), [decimal.Decimal("1.50"), None, decimal.Decimal("9" * 70)]),
    "date64": (pa.date64(), [date(2024, 1, 1), None, date(1900, 1, 1)]),
    "time32": (pa.time32("s"), [time(1, 2, 3), None, time(0)]),
    "time64": (pa.time64("us"), [time(1, 2, 3, 4), None, time(0)]),
    "timestamp": (pa.timestamp("us", "Asia/Tokyo"), [MOMENT.replace(tzinfo=UTC), None, MOMENT.replace(tzinfo=UTC)]),
    "duration": (pa.duration("ms"), [timedelta(seconds=1), None, timedelta(days=-1)]),
    "large_string": (pa.large_string(), ["x", None, "ü" * 100]),
    "string_view": (pa.string_view(), ["x", None, "longer than twelve bytes"]),
    "fixed binary": (pa.binary(3), [b"abc", None, b"\x00\x00\x00"]),
    "list": (pa.list_(pa.int8()), [[1, None], None, []]),
    "large list": (pa.large_list(pa.string()), [["a"], None, []]),
    "fixed list": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, None]]),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y"]),
    "list of dictionary": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["x", "y"], None, []]),
}  # fmt: skip


def payload(name: str) -> pa.Array:
    kind, values = PAYLOADS[name]
    if pa.types.is_nested(kind) and name == "list of dictionary":
        flat = pa.array(["x", "y"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        return pa.ListArray.from_arrays(pa.array([0, None, 2, 2], pa.int32()), flat)
    return pa.array(values, type=kind)


@pytest.mark.parametrize("name", PAYLOADS)
def test_payload_columns_survive(name: str) -> None:
    data = pa.table({"k": [1, 2, 3], "p": payload(name)})
    join = keyed(how="full", tuning=sj.Tuning(subwindow_rows=2, chunk_rows=2))
    join.push(left=data)
    matches = join.push(right=pa.concat_tables([data.slice(1), data.slice(0, 1)]))
    lefts, rights = matches.indices()
    out = matches.to_table()
    assert out.schema.field("p_l").type == out.schema.field("p_r").type == data.schema.field("p").type
    values = data["p"].to_pylist()
    order = [1, 2, 0]
    assert repr(out["p_l"].to_pylist()) == repr([values[i] for i in lefts])
    assert repr(out["p_r"].to_pylist()) == repr([values[order[j]] for j in rights])
    rest = join.push(left=pa.table({"k": [9, 9, 9], "p": payload(name)}))
    assert rest.num_rows == 0
    last = join.finish().to_table()
    assert last.num_rows == 3
    assert last["p_r"].null_count == 3


@pytest.mark.parametrize("name", ["string", "dictionary"])
def test_dictionaries_of_every_push_differ(name: str) -> None:
    """A dictionary is how values are stored, not what they are: keys and payload follow the values."""

    def batch(*values: str | None) -> pa.Table:
        return pa.table({"k": pa.array(values).dictionary_encode(), "n": [len(v or "") for v in values]})

    join = sj.Join("l.k = r.k", window=sj.Rows(100), how="left")
    join.push(left=batch("a", "b", None))
    join.push(left=batch("ccc", "a"))
    other = batch("ccc", "b", "a", "zz")
    matches = join.push(
        right=other if name == "dictionary" else other.set_column(0, "k", other["k"].cast(pa.string()))
    )
    assert Counter(pairs_of(matches)) == Counter({(3, 0): 1, (1, 1): 1, (0, 2): 1, (4, 2): 1})
    rows = matches.to_table()
    assert rows["k_l"].to_pylist() == rows["k_r"].to_pylist()
    assert pa.types.is_dictionary(rows.schema.field("k_l").type)
    assert join.finish().to_table()["k_l"].to_pylist() == [None]


def test_a_dictionary_is_compared_by_value_in_order_too() -> None:
    left = pa.table({"k": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["z", "a", "m"]))})
    right = pa.table({"k": ["b", "n"]})
    found = sj.Join("l.k < r.k", window=sj.Rows(10)).push(left=left, right=right)
    assert Counter(pairs_of(found)) == Counter({(1, 0): 1, (1, 1): 1, (2, 1): 1})


def test_a_dictionary_with_null_among_its_values() -> None:
    odd = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1]), pa.array(["a", None]))
    found = keyed(how="left").push(left=pa.table({"k": odd}), right={"k": ["a"]})
    assert pairs_of(found) == [(0, 0)]


def few_at_a_time(values: list[str | None]) -> pa.Table:
    """Values of a dictionary that is counted with eight bits, as pandas counts categories."""
    return pa.table({"k": pa.array(values).dictionary_encode().cast(SMALL), "id": list(range(len(values)))})


SMALL = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
def test_a_window_has_more_values_than_the_index_of_a_dictionary_counts(how: str) -> None:
    join = sj.Join("l.k = r.k", window=sj.Rows(1000), how=how)
    words: list[str | None] = [f"v{n}" for n in range(400)]
    words[7] = None
    found = [join.push(left=few_at_a_time(words[at : at + 80])) for at in range(0, 400, 80)]
    found.append(join.push(right={"k": [f"v{n}" for n in range(100, 500)]}))
    found.append(join.finish())
    batches = [batch for matches in found for batch in matches]
    column = "k" if how in ("semi", "anti") else "k_l"
    assert {batch.schema.field(column).type for batch in batches} == {SMALL}
    assert all(len(batch[column].dictionary) <= 128 for batch in batches)
    got = Counter(value for batch in batches for value in batch[column].to_pylist())
    matched, alone = words[100:], words[:100]
    expected = {"inner": matched, "full": [*words, *[None] * 100], "semi": matched, "anti": alone}[how]
    assert got == Counter(expected)
    tables = pa.concat_tables([matches.to_table() for matches in found if matches])
    assert Counter(tables[column].to_pylist()) == got
    assert sum(matches.num_rows for matches in found) == len(expected)


def test_late_and_saved_rows_keep_a_small_dictionary(tmp_path: Path) -> None:
    join = sj.Join("l.k = r.k", window=sj.Time(10, on="id"), late="keep")
    join.advance(left=10_000, right=10_000)
    for at in range(0, 300, 100):
        join.push(left=few_at_a_time([f"v{at + n}" for n in range(100)]))
    path = tmp_path / "saved"
    join.save(path)
    for one in (join, sj.Join.load(path)):
        late, _ = one.late()
        assert late["k"].type == SMALL
        assert late["k"].to_pylist() == [f"v{n}" for n in range(300)]


# -- shapes of batches ------------------------------------------------------------------------------------


def test_zero_rows_make_the_schema_known() -> None:
    join = keyed()
    join.push(left=table(ROWS).slice(0, 0), right=table(OTHER).slice(0, 0))
    with pytest.raises(sj.SchemaError):
        join.push(left={"k": ["text"]})
    assert join.push(left=table(ROWS), right=table(OTHER)).num_rows == 3


def test_a_bad_column_is_told_when_the_schema_is_known_before_rows_are_spent() -> None:
    join = sj.Join("l.k = r.nothere", window=sj.Rows(10))
    join.push(left=table(ROWS).slice(0, 0))
    with pytest.raises(sj.ConditionError):
        join.push(right=table(OTHER).slice(0, 0))


def test_zero_columns_with_rows() -> None:
    """A batch may have rows and no columns; a condition that needs none joins them."""
    bare = pa.table({"x": [1, 2, 3]}).select([])
    assert bare.num_rows == 3
    join = sj.Join("TRUE", window=sj.Rows(2))
    join.push(left=bare)
    matches = join.push(right=pa.table({"y": [1]}))
    assert matches.num_rows == 2
    assert matches.to_table().schema.names == ["y"]
    both = sj.Join("TRUE", window=sj.Rows(2)).push(left=bare, right=bare)
    assert both.num_rows == 6
    assert sum(piece.num_rows for piece in both) == 6


def test_zero_columns_and_zero_rows() -> None:
    nothing = pa.table({})
    matches = sj.Join("TRUE", window=sj.Rows(2)).push(left=nothing, right=nothing)
    assert matches.num_rows == 0
    assert matches.to_table().num_columns == 0


def test_slices_show_only_their_rows() -> None:
    whole = pa.table(
        {"k": list(range(100)), "s": [str(i) for i in range(100)], "b": [i % 2 == 0 for i in range(100)]}
    )
    join = keyed(tuning=sj.Tuning(subwindow_rows=8, chunk_rows=16))
    for start in range(3, 90, 13):
        join.push(left=whole.slice(start, 13))
    matches = join.push(right=whole.slice(5, 50))
    out = matches.to_table()
    lefts, rights = matches.indices()
    assert out.num_rows == 50
    assert out["s_l"].to_pylist() == [str(i + 3) for i in lefts] == [str(j + 5) for j in rights]
    assert out["b_l"].to_pylist() == [(i + 3) % 2 == 0 for i in lefts]


def test_columns_chunked_unlike_each_other() -> None:
    data = pa.table(
        {"k": pa.chunked_array([[1], [2, 3], [], [4]]), "v": pa.chunked_array([["a", "b", "c"], ["d"]])}
    )
    matches = keyed().push(left=data, right=data)
    out = matches.to_table()
    assert sorted(zip(out["k_l"].to_pylist(), out["v_r"].to_pylist(), strict=True)) == [
        (1, "a"), (2, "b"), (3, "c"), (4, "d"),
    ]  # fmt: skip


def test_arrays_changed_after_the_push_do_not_change_results() -> None:
    keys, payload = np.array([1, 2, 3]), np.array([10, 20, 30])
    join = keyed()
    join.push(left={"k": keys, "p": payload})
    keys[:] = 0
    payload[:] = 0
    first = join.push(right={"k": keys})
    assert first.num_rows == 0
    matches = join.push(right={"k": np.array([3, 1])})
    assert sorted(matches.to_table()["p"].to_pylist()) == [10, 30]


def test_arrays_changed_between_the_push_and_reading_do_not_change_results() -> None:
    join = keyed()
    join.push(left={"k": np.array([1, 2, 3])})
    keys, payload = np.array([2, 3]), np.array([20, 30])
    matches = join.push(right={"k": keys, "p": payload})
    keys[:] = 9
    payload[:] = 9
    assert sorted(matches.to_table()["p"].to_pylist()) == [20, 30]


def test_a_buffer_under_a_dataframe_changed_after_the_push() -> None:
    values = np.array([1, 2, 3])
    frame = pd.DataFrame({"k": values}, copy=False)
    join = keyed()
    join.push(left=frame)
    values[:] = 7
    frame.loc[:, "k"] = 7
    assert join.push(right={"k": [1, 2, 3, 7]}).num_rows == 3


# -- schemas that change ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        pa.table({"k": pa.array([1], pa.int32()), "name": ["a"]}),
        pa.table({"k": ["1"], "name": ["a"]}),
        pa.table({"k": [1]}),
        pa.table({"k": [1], "name": ["a"], "more": [1]}),
        pa.table({"k": [1], "Name": ["a"]}),
        pa.table({"k": [1], "name": pa.array(["a"]).dictionary_encode()}),
    ],
    ids=lambda data: str(data.schema).replace("\n", " "),
)
def test_a_schema_that_changes_is_refused(changed: pa.Table) -> None:
    join = keyed(how="full")
    join.push(left=table(ROWS))
    before = join.stats()
    with pytest.raises(sj.SchemaError):
        join.push(left=changed)
    with pytest.raises(sj.SchemaError):
        join.push(left=changed, right=table(OTHER))
    assert join.stats() == before
    join.check()
    assert Counter(pairs_of(join.push(right=table(OTHER)))) == EXPECTED


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k"])
    with pytest.raises(sj.SchemaError):
        keyed().push(left=twice)


def test_late_rows_come_back_whole() -> None:
    join = sj.Join("l.k = r.k", window=sj.Time(5, on="ts"), late="keep")
    data = pa.table({"k": [1, 2], "ts": [100, 100], "p": [[1], [2, 3]]})
    join.push(left=data, right=data)
    stale = pa.table({"k": [7, 8, 9], "ts": [1, 100, 3], "p": [[7], None, []]})
    join.push(left=stale)
    kept, none = join.late()
    assert_same_rows(kept, stale.take([0, 2]))
    assert none.num_rows == 0
    assert none.schema.names == ["k", "ts", "p"]


@pytest.mark.parametrize("rows", [1, 7, 5000])
@pytest.mark.parametrize("late_reader", [False, True])
def test_rows_are_gathered_from_however_many_batches_they_came_in(rows: int, late_reader: bool) -> None:
    """Large batches stay apart until somebody reads rows; what is read is the same, now and in old results."""
    pushes, window = 70, 40 * rows
    key = np.arange(pushes * rows)
    text = pa.array([f"row {k % 11}" if k % 5 else None for k in key])
    left = pa.table({"k": key, "word": text.dictionary_encode(), "text": text})
    join = sj.Join("l.k = r.k", window=sj.Rows(window))
    kept = []
    for at in range(0, len(key), rows):
        # Dictionaries of their own, so that they differ from batch to batch.
        batch = left.slice(at, rows).set_column(1, "word", text.slice(at, rows).dictionary_encode())
        join.push(left=batch)
        asked = key[max(0, at + rows - window) : at + rows : max(1, rows // 3)][::-1]
        matches = join.push(right={"k": asked})
        assert matches.num_rows == len(asked)
        if not late_reader:
            assert_same_rows(matches.to_table().select([0, 1, 2]), expected(left, matches))
        kept.append(matches)
    for matches in kept[::9]:
        assert_same_rows(matches.to_table().select([0, 1, 2]), expected(left, matches))
    join.check()


def expected(left: pa.Table, matches: sj.Matches) -> pa.Table:
    """The left columns by the left row numbers."""
    rows = left.take(pa.array(matches.indices()[0]))
    return rows.rename_columns(["k_l", *rows.column_names[1:]])


KINDS_OF_COLUMN = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.time32("s")),
    *(pa.time64("us"), pa.timestamp("us", "UTC"), pa.duration("ms"), pa.decimal128(12, 2), pa.string()),
    *(pa.binary(3), pa.list_(pa.int32()), pa.null(), pa.month_day_nano_interval(), pa.large_string()),
]


@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
@pytest.mark.parametrize("nulls", ["none", "some", "in some batches"])
def test_columns_of_every_kind_come_out_as_they_came_in(how: str, nulls: str) -> None:
    """Some are gathered by a kernel, others by Arrow; from one batch or several, from slices, before and after others."""
    rng = np.random.default_rng(len(how) + len(nulls))
    rows, sides = 600, []
    for side in range(2):
        columns = {"k": pa.array(rng.permutation(rows))}
        for number, kind in enumerate(KINDS_OF_COLUMN):
            columns[f"{'ab'[side]}{number}"] = column_of(kind, rng, rows, nulls)
        sides.append(pa.table(columns))
    join = sj.Join("abs(l.k - r.k) <= 1", window=sj.Rows(rows), how=how)
    parts, at = [], 0
    while at < rows:
        some = int(rng.integers(1, 90))
        for side, table in enumerate(sides):
            [batch] = table.combine_chunks().to_batches()
            parts.append(join.push(**{("left", "right")[side]: batch.slice(at, some)}))
        at += some
    parts.append(join.finish())
    for part in filter(None, parts):
        table, numbers = part.to_table(), part.indices()
        assert table.num_rows == part.num_rows
        names = iter(table.column_names)
        for side, whole in enumerate(sides if how not in ("semi", "anti") else sides[:1]):
            wanted = whole.take(pa.array(numbers[side], mask=numbers[side] < 0))
            for name in wanted.column_names:
                assert table.column(next(names)).to_pylist() == wanted.column(name).to_pylist(), name


def column_of(kind: pa.DataType, rng: np.random.Generator, rows: int, nulls: str) -> pa.Array:
    """Values of a kind; some of them NULL, all over or in a stretch only."""
    numbers = rng.integers(0, 100, rows)
    gone = {
        "none": np.zeros(rows, bool),
        "some": rng.random(rows) < 0.1,
        "in some batches": np.arange(rows) < 150,
    }
    values: list[Any] = numbers.tolist()
    if pa.types.is_floating(kind):
        values = [np.float16(value / 4) if kind == pa.float16() else value / 4 for value in values]
    elif pa.types.is_boolean(kind):
        values = [value > 50 for value in values]
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = [f"text {value}" for value in values]
    elif pa.types.is_fixed_size_binary(kind):
        values = [b"%03d" % value for value in values]
    elif pa.types.is_list(kind):
        values = [[value] * (value % 3) for value in values]
    elif pa.types.is_null(kind):
        values = [None] * rows
    elif pa.types.is_date64(kind):
        values = [value * 86_400_000 for value in values]
    elif kind == pa.month_day_nano_interval():
        values = [(value, value, value) for value in values]
    elif pa.types.is_decimal(kind):
        values = [decimal.Decimal(value) / 4 for value in values]
    return pa.array([None if g else v for v, g in zip(values, gone[nulls], strict=True)], kind)
