"""Text has no types: what is inferred, what can be asked for, what a later surprise says."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from cli.feeds import read, write
from slidejoin.cli import readers

COUNT = ["--on", "l.a <= r.b", "--rows", "100"]


@pytest.fixture
def right(tmp_path):
    return write(pa.table({"b": [1.0, 2.0, 3.0]}), tmp_path / "right.parquet")


def left_column(slidejoin, tmp_path, right, text, *more, ending="csv"):
    left = tmp_path / f"left.{ending}"
    left.write_text(text)
    out = tmp_path / "out.parquet"
    result = slidejoin("run", "--left", left, "--right", right, *COUNT, "--out", out, *more)
    assert result.exit_code == 0, result.stderr
    return read(out)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2026-01-05 09:30:00", "2026-01-05 09:30:01"], pa.timestamp("us")),
        (["2026-01-05T09:30:00Z", "2026-01-05T09:30:01Z"], pa.timestamp("us", "UTC")),
        (["2026-01-05", "2026-01-06"], pa.date32()),
        (["", ""], pa.string()),
        (["x", "y"], pa.string()),
        (["true", "false"], pa.bool_()),
        (["1", "2"], pa.int64()),
    ],
)
def test_csv_types(slidejoin, tmp_path, right, values, kind):
    text = "a,x\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))
    assert left_column(slidejoin, tmp_path, right, text).schema.field("x").type == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2026-01-05 09:30:00", "2026-01-05 09:30:01"], pa.timestamp("us")),
        (["2026-01-05T09:30:00.25", "2026-01-05T09:30:01"], pa.timestamp("us")),
        (["2026-01-05T09:30:00.25Z", "2026-01-05T09:30:01.125Z"], pa.timestamp("us", "UTC")),
        (["2026-01-05T09:30:00.123456789", None], pa.timestamp("ns")),
        ([None, None], pa.string()),
        ([{"y": [1, 2]}, None], pa.struct({"y": pa.list_(pa.int64())})),
    ],
)
def test_ndjson_types(slidejoin, tmp_path, right, values, kind):
    text = "".join(json.dumps({"a": n, "x": value}) + "\n" for n, value in enumerate(values))
    assert left_column(slidejoin, tmp_path, right, text, ending="ndjson").schema.field("x").type == kind


def test_asked_types_win(slidejoin, tmp_path, right):
    more = ["--left-type", "a=decimal(9,2)", "--left-type", "x=timestamp[ns, UTC]", "--left-type", "y=string"]
    got = left_column(slidejoin, tmp_path, right, "a,x,y\n1.25,2026-01-05 09:30:00Z,7\n", *more)
    assert got.schema.field("a").type == pa.decimal128(9, 2)
    assert got.schema.field("x").type == pa.timestamp("ns", "UTC")
    assert got["a"].to_pylist() == [Decimal("1.25")] * 2
    assert got["y"].to_pylist() == ["7"] * 2


def test_fractions_after_the_sample_still_fit(slidejoin, tmp_path, right, monkeypatch):
    monkeypatch.setattr(readers, "SAMPLE", 64)
    times = [f"2026-01-05 09:30:{second:02}" for second in range(20)] + ["2026-01-05 09:30:20.125"]
    text = "a,x\n" + "".join(f"1,{time}\n" for time in times)
    got = left_column(slidejoin, tmp_path, right, text)
    assert got.num_rows == 21 * 3


def test_a_type_that_does_not_last(slidejoin, tmp_path, right, monkeypatch):
    monkeypatch.setattr(readers, "SAMPLE", 64)
    left = tmp_path / "left.csv"
    left.write_text("a\n" + "1\n" * 100 + "1.5\n")
    out = tmp_path / "out.parquet"
    arguments = ["--left", left, "--right", right, *COUNT, "--out", out]
    result = slidejoin("run", *arguments)
    assert result.exit_code == 1
    assert "left.csv" in result.stderr
    assert "--left-type" in result.stderr
    assert list(tmp_path.glob("*out.parquet*")) == []
    assert slidejoin("run", *arguments, "--left-type", "a=double").exit_code == 0
    assert read(out).num_rows == 100 * 3 + 2


def test_folder_keeps_the_first_files_types(slidejoin, tmp_path, right):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("a,x\n1.5,2026-01-05 09:30:00\n")
    (folder / "2.csv").write_text("a,x\n2,\n")
    out = tmp_path / "out.parquet"
    assert slidejoin("run", "--left", folder, "--right", right, *COUNT, "--out", out).exit_code == 0
    assert read(out).schema.field("a").type == pa.float64()
    assert read(out).num_rows == 4


def test_missing_json_fields_are_null(slidejoin, tmp_path, right):
    text = '{"a": 1, "x": 5}\n{"a": 2}\n'
    got = left_column(slidejoin, tmp_path, right, text, ending="ndjson")
    assert sorted(got["x"].to_pylist(), key=str) == [5, 5, 5, None, None]


def test_a_type_for_no_column(refused, tmp_path, right):
    left = tmp_path / "left.csv"
    left.write_text("a\n1\n")
    arguments = ["--left", left, "--right", right, *COUNT, "--out", tmp_path / "out.csv"]
    assert "'z', which" in refused("run", *arguments, "--left-type", "z=double")


def test_a_later_file_without_a_column(slidejoin, tmp_path, right):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("a,x\n1,2\n")
    (folder / "2.csv").write_text("a\n2\n")
    result = slidejoin("run", "--left", folder, "--right", right, *COUNT, "--out", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert "2.csv has columns" in result.stderr


def test_long_and_unended_lines(slidejoin, tmp_path, right, monkeypatch):
    """Lines longer than a block, and a last line without its end."""
    monkeypatch.setattr(readers, "SAMPLE", 16)
    words = ["x" * length for length in (1, 50, 3, 100)]
    csv = "a,x\n" + "\n".join(f"1,{word}" for word in words)
    got = left_column(slidejoin, tmp_path, right, csv)
    assert sorted(set(got["x"].to_pylist())) == sorted(words)
    ndjson = "\n".join(json.dumps({"a": 1, "x": word}) for word in words)
    got = left_column(slidejoin, tmp_path, right, ndjson, ending="ndjson")
    assert sorted(set(got["x"].to_pylist())) == sorted(words)


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet", "arrow"])
def test_a_header_without_rows(slidejoin, tmp_path, right, ending):
    left = tmp_path / "left.csv"
    left.write_text("a,x\n")
    out = tmp_path / f"out.{ending}"
    result = slidejoin("run", "--left", left, "--right", right, *COUNT, "--how", "full", "--out", out)
    assert result.exit_code == 0, result.stderr
    got = read(out)
    assert got["b"].to_pylist() == [1.0, 2.0, 3.0]
    assert ending == "ndjson" or got.column_names == ["a", "x", "b"]


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--on", "l.z <= r.b", "--rows", "5"], "l.z"),
        (["--on", "l.a <= r.b", "--window", "5", "--time", "z"], "set --time to one of them"),
    ],
)
def test_a_header_without_rows_has_names(refused, tmp_path, right, more, what):
    left = tmp_path / "left.csv"
    left.write_text("a,x\n")
    assert what in refused("run", "--left", left, "--right", right, *more, "--out", tmp_path / "out.csv")
