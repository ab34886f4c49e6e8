"""The output is whole or absent, and says in its format what the join said."""

import json
import os
import signal
import subprocess
import time
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from cli.feeds import TIMED, read, write

NEVER_CLASH = ["--on", "l.a = r.b", "--rows", "10"]


def test_failure_leaves_the_old_file(slidejoin, files, tmp_path):
    """The second of two files is broken: found when half of the rows are written."""
    folder = tmp_path / "in"
    write(files.trades, folder / "1.parquet")
    (folder / "2.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    out = tmp_path / "out.parquet"
    out.write_text("the result of yesterday")
    result = slidejoin("run", "--left", folder, "--right", files.right, *TIMED, "--out", out)
    assert result.exit_code in (1, 2)
    assert "2.parquet" in result.stderr
    assert out.read_text() == "the result of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.parquet"]


def test_an_existing_file_is_replaced(slidejoin, files, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_text("the result of yesterday")
    assert slidejoin("run", *files.args, *TIMED, "--out", out).exit_code == 0
    assert read(out).num_rows
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_a_link_stays_a_link(slidejoin, files, tmp_path):
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "target.parquet", tmp_path / "link.parquet"
    link.symlink_to(target)
    assert slidejoin("run", *files.args, *TIMED, "--out", link).exit_code == 0
    assert link.is_symlink()
    assert read(target).num_rows


def test_devices_are_written_to_and_stay(slidejoin, files):
    arguments = ["run", *files.args, *TIMED, "--out-format", "csv"]
    assert slidejoin(*arguments, "--out", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()
    full = slidejoin(*arguments, "--out", "/dev/full")
    assert full.exit_code == 1
    assert "No space left" in full.stderr


def test_a_file_that_cannot_be_made(refused, files, tmp_path):
    (tmp_path / f".out.csv.{os.getpid()}.partial").mkdir()  # in the way
    assert "cannot be written" in refused("run", *files.args, *TIMED, "--out", tmp_path / "out.csv")


def test_interruption_removes_the_partial_file(process, files, tmp_path):
    out = tmp_path / "out.csv"
    running = process(
        *["run", "--left", "-", "--right", files.right, *TIMED, "--left-format", "arrow", "--out", out],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    running.stdin.write(
        write(files.trades, tmp_path / "trades.arrows").read_bytes()[:-8]
    )  # no end-of-stream mark
    running.stdin.flush()
    (tmp_path / "trades.arrows").unlink()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.csv.*.partial")):  # it has begun, and waits for more rows
        assert time.monotonic() < deadline
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    errors = running.stderr.read().decode()
    assert running.wait(60) == 1
    running.stdin.close()
    running.stderr.close()
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_broken_pipe_is_quiet(process, tmp_path):
    many = pa.table({"a": [1] * 3000})
    left = write(many, tmp_path / "left.parquet")
    right = write(many.rename_columns(["b"]), tmp_path / "right.parquet")
    running = process(
        *["run", "--left", left, "--right", right, "--on", "l.a = r.b", "--rows", "3000"],
        *["--out", "-", "--out-format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout.readline() == b'"a","b"\n'
    running.stdout.close()
    complaints = [line for line in running.stderr.read().splitlines() if b"compiling kernels" not in line]
    assert complaints == []
    assert running.wait(60) == 1
    running.stderr.close()


def test_ndjson_values(slidejoin, tmp_path):
    values = {
        "nan": pa.array([float("nan")]),
        "inf": pa.array([float("inf")], pa.float32()),
        "decimal": pa.array([Decimal("1234567890123456.78")]),
        "at": pa.array([1], pa.timestamp("ns")),
        "zoned": pa.array([1], pa.timestamp("ms", "UTC")),
        "day": pa.array([date(2026, 1, 5)]),
        "span": pa.array([timedelta(seconds=90)]),
        "bytes": pa.array([b"\x00\xff"]),
        "word": pa.array(["ü\n"]).dictionary_encode(),
        "nested": pa.array([[{"at": 1}]], pa.list_(pa.struct({"at": pa.timestamp("us")}))),
        "null": pa.array([None], pa.int64()),
        "big": pa.array([2**63 + 1], pa.uint64()),
    }
    left = write(pa.table({"a": [1], **values}), tmp_path / "left.parquet")
    right = write(pa.table({"b": [1]}), tmp_path / "right.parquet")
    out = tmp_path / "out.ndjson"
    result = slidejoin("run", "--left", left, "--right", right, *NEVER_CLASH, "--out", out)
    assert result.exit_code == 0, result.stderr
    (line,) = out.read_text().splitlines()
    assert json.loads(line) == {
        "a": 1,
        "nan": None,
        "inf": None,
        "decimal": "1234567890123456.78",
        "at": "1970-01-01 00:00:00.000000001",
        "zoned": "1970-01-01 00:00:00.001Z",
        "day": "2026-01-05",
        "span": "0:01:30",
        "bytes": "AP8=",
        "word": "ü\n",
        "nested": [{"at": "1970-01-01 00:00:00.000001"}],
        "null": None,
        "big": 2**63 + 1,
        "b": 1,
    }


def test_small_results_make_few_row_groups(slidejoin, files, tmp_path):
    out = tmp_path / "out.parquet"
    assert slidejoin("run", *files.args, *TIMED, "--batch-rows", 10, "--out", out).exit_code == 0
    assert pa.parquet.ParquetFile(out).num_row_groups == 1
