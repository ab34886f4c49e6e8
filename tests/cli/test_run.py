"""``slidejoin run``: every format in and out, pipes, folders, windows, kinds of join."""

import gzip
import io
import json
import subprocess

import pyarrow as pa
import pytest

from cli.feeds import BAND, TIMED, feed, pairs, read, within, write

ENDINGS = ["parquet", "csv", "ndjson", "arrow", "arrows"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_reads_every_format(slidejoin, files, tmp_path, ending):
    left = write(files.trades, tmp_path / f"trades.{ending}")
    right = write(files.quotes, tmp_path / f"quotes.{ending}")
    out = tmp_path / "out.parquet"
    result = slidejoin("run", "--left", left, "--right", right, *TIMED, "--out", out)
    assert result.exit_code == 0, result.stderr
    got = read(out)
    assert pairs(got) == sorted(within(files.trades, files.quotes))
    assert got.schema.names == ["ts_l", "trade", "price_l", "ts_r", "quote", "price_r"]
    assert pa.types.is_timestamp(got.schema.field("ts_l").type)


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson", "arrows"])
def test_writes_every_format(slidejoin, files, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    assert slidejoin("run", *files.args, *TIMED, "--out", out).exit_code == 0
    assert pairs(read(out)) == sorted(within(files.trades, files.quotes))


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 1000])
def test_batch_size_changes_nothing(slidejoin, files, tmp_path, batch_rows):
    out = tmp_path / "out.parquet"
    result = slidejoin("run", *files.args, *TIMED, "--out", out, "--batch-rows", batch_rows, "--json")
    stats = json.loads(result.stdout)["stats"]
    assert pairs(read(out)) == sorted(within(files.trades, files.quotes))
    assert stats["left"]["late"] == stats["right"]["late"] == 0


def test_folder_is_one_stream(slidejoin, files, tmp_path):
    for number in range(4):
        write(files.trades.slice(number * 100, 100), tmp_path / "in" / f"day={number}" / "part.csv")
    (tmp_path / "in" / "_SUCCESS").touch()
    out = tmp_path / "out.csv"
    result = slidejoin("run", "--left", tmp_path / "in", "--right", files.right, *TIMED, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert pairs(read(out)) == sorted(within(files.trades, files.quotes))


def test_compressed_text(slidejoin, files, tmp_path):
    plain = write(files.trades, tmp_path / "trades.csv")
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    out = tmp_path / "out.parquet"
    assert slidejoin("run", "--left", packed, "--right", files.right, *TIMED, "--out", out).exit_code == 0
    assert pairs(read(out)) == sorted(within(files.trades, files.quotes))


@pytest.mark.parametrize("ending", ["csv", "ndjson", "arrows"])
def test_pipe_in_and_out(slidejoin, files, tmp_path, ending):
    kind = {"arrows": []}.get(ending, ["--left-format", ending])
    stdin = write(files.trades, tmp_path / f"trades.{ending}").read_bytes()
    result = slidejoin("run", "--left", "-", "--right", files.right, *TIMED, "--out", "-", *kind, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    got = pa.ipc.open_stream(result.stdout_bytes).read_all()
    assert pairs(got) == sorted(within(files.trades, files.quotes))


def test_pipe_out_as_text(slidejoin, files):
    result = slidejoin("run", *files.args, *TIMED, "--out", "-", "--out-format", "csv")
    assert pairs(pa.csv.read_csv(io.BytesIO(result.stdout_bytes))) == sorted(
        within(files.trades, files.quotes)
    )
    assert "rows to standard output" in result.stderr


def test_a_chain_of_processes(process, files, tmp_path):
    """Two joins in one pipeline, as a shell would start them."""
    first = process(
        "run", *files.args, *TIMED, "--out", "-", "--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out = tmp_path / "out.parquet"
    on = "l.trade = r.trade"
    second = process(
        *["run", "--left", "-", "--right", files.left, "--on", on, "--window", "20 seconds"],
        *["--time", "ts_l,ts", "--lateness", "1 minute", "--out", out, "--json"],
        stdin=first.stdout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first.stdout.close()
    report, errors = second.communicate(timeout=60)
    assert second.returncode == 0, errors
    assert first.wait(60) == 0
    first.stderr.close()
    assert json.loads(report)["rows_out"] == len(within(files.trades, files.quotes)) == read(out).num_rows


@pytest.mark.parametrize(("how", "columns"), [("left", 6), ("full", 6), ("semi", 3), ("anti", 3)])
def test_kinds_of_join(slidejoin, files, tmp_path, how, columns):
    out = tmp_path / "out.parquet"
    assert slidejoin("run", *files.args, *TIMED, "--how", how, "--out", out).exit_code == 0
    expected = within(files.trades, files.quotes)
    matched = {trade for trade, _ in expected}
    got = read(out)
    trades = got["trade"].to_pylist()
    assert got.num_columns == columns
    if how == "semi":
        assert sorted(trades) == sorted(matched)
    elif how == "anti":
        assert sorted(trades) == sorted(set(range(400)) - matched)
    else:
        assert set(filter(lambda trade: trade is not None, trades)) == set(range(400))


def test_windows_of_two_lengths_and_columns(slidejoin, files, tmp_path):
    renamed = write(files.quotes.rename_columns(["seen", "quote", "price"]), tmp_path / "quotes.parquet")
    out = tmp_path / "out.parquet"
    arguments = ["--left", files.left, "--right", renamed, "--on", BAND, "--window", "2 seconds, 20 seconds"]
    assert slidejoin("run", *arguments, "--time", "ts,seen", "--out", out).exit_code == 0
    expected = {
        (a["trade"], b["quote"])
        for a in files.trades.to_pylist()
        for b in files.quotes.to_pylist()
        # the earlier row's window decides
        if -2 <= (a["ts"] - b["ts"]).total_seconds() <= 20 and abs(a["price"] - b["price"]) <= 0.5
    }
    assert pairs(read(out)) == sorted(expected)


def test_integer_time(slidejoin, tmp_path):
    left = write(pa.table({"t": [1, 5, 9], "trade": [0, 1, 2]}), tmp_path / "left.csv")
    right = write(pa.table({"t": [2, 6, 20], "quote": [0, 1, 2]}), tmp_path / "right.csv")
    out = tmp_path / "out.csv"
    arguments = ["--left", left, "--right", right, "--on", "l.trade <= r.quote", "--time", "t"]
    assert slidejoin("run", *arguments, "--window", "3", "--out", out).exit_code == 0
    assert pairs(read(out)) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("batch_rows", [1, 3, 64, 1000])
def test_count_window_merged_by_a_column(slidejoin, tmp_path, batch_rows):
    """Many ties, so that a batch often ends inside a group of equal values."""
    lefts = pa.table({"k": [n // 3 for n in range(200)], "trade": list(range(200))})
    rights = pa.table({"k": [n // 2 for n in range(150)], "quote": list(range(150))})
    left, right = write(lefts, tmp_path / "left.parquet"), write(rights, tmp_path / "right.parquet")
    out = tmp_path / "out.parquet"
    arguments = ["--left", left, "--right", right, "--on", "l.trade <> r.quote", "--rows", "4,6", "--by", "k"]
    assert slidejoin("run", *arguments, "--batch-rows", batch_rows, "--out", out).exit_code == 0
    arrivals = sorted(
        [(k, 0, n) for n, k in enumerate(lefts["k"].to_pylist())]
        + [(k, 1, n) for n, k in enumerate(rights["k"].to_pylist())]
    )
    seen, expected = ([], []), []
    for _, side, row in arrivals:
        partners = seen[1 - side][-(4, 6)[1 - side] :]
        expected += [(row, p) if side == 0 else (p, row) for p in partners if row != p]
        seen[side].append(row)
    assert pairs(read(out)) == sorted(expected)


def test_count_window_in_turns(slidejoin, tmp_path):
    left = write(pa.table({"trade": [0, 1, 2]}), tmp_path / "left.csv")
    right = write(pa.table({"quote": [0, 1, 2, 3]}), tmp_path / "right.csv")
    out = tmp_path / "out.csv"
    arguments = ["--left", left, "--right", right, "--on", "l.trade <= r.quote", "--rows", "1"]
    assert slidejoin("run", *arguments, "--batch-rows", 1, "--out", out).exit_code == 0
    assert pairs(read(out)) == [(0, 0), (1, 1), (2, 2), (2, 3)]


def test_an_input_that_ends_early_does_not_pile_up_the_other(slidejoin, tmp_path):
    left = write(feed(3, "trade", 50).slice(0, 5), tmp_path / "left.parquet")
    right = write(feed(4, "quote", 400), tmp_path / "right.parquet")
    out = tmp_path / "out.parquet"
    arguments = ["--left", left, "--right", right, *TIMED, "--how", "right", "--batch-rows", 10]
    result = slidejoin("run", *arguments, "--out", out, "--json")
    assert json.loads(result.stdout)["stats"]["right"]["late"] == 0
    assert sorted(set(read(out)["quote"].to_pylist())) == list(range(400))


def test_late_rows_are_counted(slidejoin, files, tmp_path):
    shuffled = files.trades.take(pa.array([*range(200, 400), *range(200)]))
    left = write(shuffled, tmp_path / "left.parquet")
    arguments = ["--left", left, "--right", files.right, *TIMED, "--batch-rows", 50]
    out = tmp_path / "out.parquet"
    result = slidejoin("run", *arguments, "--out", out)
    assert result.exit_code == 0
    assert "late" in result.stderr
    counted = slidejoin("run", *arguments, "--out", out, "--json")
    assert json.loads(counted.stdout)["stats"]["left"]["late"] > 0
    raised = slidejoin("run", *arguments, "--late", "raise", "--out", tmp_path / "raised.parquet")
    assert raised.exit_code == 1
    assert not (tmp_path / "raised.parquet").exists()


def test_report_accounts_for_every_row(slidejoin, files, tmp_path):
    out = tmp_path / "out.parquet"
    report = json.loads(slidejoin("run", *files.args, *TIMED, "--out", out, "--json").stdout)
    assert report["rows_in"] == 800
    assert report["rows_out"] == read(out).num_rows
    for side in ("left", "right"):
        counts = report["stats"][side]
        assert counts["rows_in"] == 400 == counts["accepted"] + counts["late"] + counts["null_time"]


def test_empty_inputs_give_an_empty_output_with_its_columns(slidejoin, files, tmp_path):
    left = write(files.trades.slice(0, 0), tmp_path / "left.parquet")
    out = tmp_path / "out.parquet"
    assert slidejoin("run", "--left", left, "--right", files.right, *TIMED, "--out", out).exit_code == 0
    assert read(out).num_rows == 0
    assert read(out).schema.names == ["ts_l", "trade", "price_l", "ts_r", "quote", "price_r"]


def test_strict_order(slidejoin, tmp_path):
    left = write(pa.table({"trade": [0, 1, 2, 3]}), tmp_path / "left.csv")
    right = write(pa.table({"quote": [0, 1]}), tmp_path / "right.csv")
    out = tmp_path / "out.csv"
    arguments = ["--left", left, "--right", right, "--on", "l.trade >= r.quote", "--rows", "10"]
    assert slidejoin("run", *arguments, "--order", "strict", "--out", out).exit_code == 0
    got = read(out)
    found = list(zip(got["trade"].to_pylist(), got["quote"].to_pylist(), strict=True))
    assert found == [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]
