"""A mistake on the command line ends with exit code 2 and a message that says what to do."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from cli.feeds import BAND, TIMED, write


def test_no_arguments_show_the_commands(slidejoin):
    result = slidejoin()
    for command in ("demo", "run", "explain", "bench"):
        assert command in result.output


def test_version(slidejoin):
    assert slidejoin("--version").stdout.startswith("slidejoin ")


@pytest.mark.parametrize("command", ["demo", "run", "explain", "bench"])
def test_help(slidejoin, command):
    result = slidejoin(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.output


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"--left": "nowhere.parquet"}, "'nowhere.parquet' does not exist"),
        ({"--right": "nowhere"}, "--right 'nowhere' does not exist"),
        ({"--out": "no/such/folder/out.csv"}, "does not exist"),
        ({"--out": "."}, "is a folder"),
        ({"--out": "out.xlsx"}, "cannot tell the format of 'out.xlsx'"),
        ({"--out": "out.csv.gz"}, "compressed"),
        ({"--left": "-", "--right": "-"}, "both '-'"),
        ({"--window": None}, "--window is missing"),
        ({"--time": None}, "--time is missing"),
        ({"--rows": "5"}, "one kind of window"),
        ({"--by": "ts"}, "--by goes with --rows"),
        ({"--window": "ten minutes"}, "ten minutes"),
        ({"--window": "1 month"}, "month"),
        ({"--window": "1 s, 2 s, 3 s"}, "3 parts"),
        ({"--window": "10"}, "duration"),
        ({"--lateness": "-1 second"}, "lateness"),
        ({"--time": "when"}, "when"),
        ({"--time": "price"}, "price"),
        ({"--on": "l.price <= r.cost"}, "cost"),
        ({"--on": "l.price <= "}, "condition"),
        ({"--on": "price <= 3"}, "price"),
        ({"--on": "l.ts <= r.price"}, "price"),
        ({"--index": "magic"}, "magic"),
        ({"--flow": "magic"}, "magic"),
        ({"--engine": "spark"}, "slidejoin.spark"),
        ({"--how": "outer"}, "outer"),
        ({"--order": "random"}, "random"),
        ({"--batch-rows": "0"}, "--batch-rows"),
        ({"--threads": "0"}, "--threads"),
        ({"--left-type": "ts=timestamp"}, "unknown"),
        ({"--left-type": "ts"}, "COLUMN=TYPE"),
        ({"--left-type": "ts=timestamp[us]"}, "parquet input"),
    ],
    ids=lambda value: (
        " ".join(f"{name} {given}" for name, given in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_refusals(refused, files, tmp_path, monkeypatch, given, says):
    monkeypatch.chdir(tmp_path)
    options = {"--left": files.left, "--right": files.right, "--on": BAND, "--window": "10 seconds"}
    options |= {"--time": "ts", "--out": "out.parquet"} | given
    message = refused("run", *(word for pair in options.items() if pair[1] is not None for word in pair))
    assert says in " ".join(message.split())
    assert list(tmp_path.iterdir()) == []


def test_the_result_does_not_replace_an_input(refused, files):
    before = Path(files.left).read_bytes()
    assert "--left" in refused("run", *files.args, *TIMED, "--out", files.left)
    assert Path(files.left).read_bytes() == before


def test_the_result_does_not_go_into_a_folder_that_is_read(refused, files, tmp_path):
    write(files.trades, tmp_path / "in" / "deep" / "1.parquet")
    arguments = ["--left", tmp_path / "in", "--right", files.right, *TIMED]
    for out in (tmp_path / "in" / "out.parquet", tmp_path / "in" / "deep" / "out.parquet"):
        assert "into --left" in refused("run", *arguments, "--out", out)


@pytest.mark.parametrize("option", ["--left", "--right", "--on", "--out"])
def test_required_options(refused, files, option):
    words = ["--left", files.left, "--right", files.right, "--on", BAND, "--out", "out.csv"]
    at = words.index(option)
    assert option in refused("run", *words[:at], *words[at + 2 :])


@pytest.mark.parametrize("rows", ["many", "0", "-1", "1.5"])
def test_row_counts(refused, files, tmp_path, rows):
    refused("run", *files.args, "--on", BAND, f"--rows={rows}", "--out", tmp_path / "out.csv")


def test_the_message_points_into_the_condition(refused, files, tmp_path):
    message = refused(
        *["run", *files.args, "--on", "l.price <= r.cost", "--window", "1 s", "--time", "ts"],
        *["--out", tmp_path / "out.csv"],
    )
    line, caret = message.splitlines()[1:3]
    assert line.strip() == "l.price <= r.cost"
    assert line[caret.index("^") :].startswith("r.cost")


def test_folder_of_several_formats(refused, files, tmp_path):
    write(files.trades, tmp_path / "in" / "1.parquet")
    write(files.trades, tmp_path / "in" / "2.csv")
    arguments = ["--left", tmp_path / "in", "--right", files.right, *TIMED, "--out", tmp_path / "out.csv"]
    assert "several formats" in refused("run", *arguments)


def test_folder_of_several_schemas(slidejoin, files, tmp_path):
    write(files.trades, tmp_path / "in" / "1.parquet")
    write(files.trades.rename_columns(["ts", "trade", "cost"]), tmp_path / "in" / "2.parquet")
    arguments = ["--left", tmp_path / "in", "--right", files.right, *TIMED, "--out", tmp_path / "out.csv"]
    result = slidejoin("run", *arguments)
    assert result.exit_code == 1
    assert "2.parquet has columns" in result.stderr


def test_empty_folder(refused, files, tmp_path):
    (tmp_path / "in").mkdir()
    arguments = ["--left", tmp_path / "in", "--right", files.right, *TIMED, "--out", tmp_path / "out.csv"]
    assert "without files" in refused("run", *arguments)


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson", "arrow"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff garbage \n\n{]"])
def test_unreadable_input(slidejoin, files, tmp_path, ending, content):
    left = tmp_path / f"left.{ending}"
    left.write_bytes(content)
    out = tmp_path / "out.csv"
    result = slidejoin("run", "--left", left, "--right", files.right, *TIMED, "--out", out)
    assert result.exit_code == 1
    assert "error: cannot read" in result.stderr
    assert not out.exists()


def test_parquet_cannot_be_piped(refused, files, tmp_path):
    arguments = ["--left", "-", "--left-format", "parquet", "--right", files.right, *TIMED]
    assert "pipe" in refused("run", *arguments, "--out", tmp_path / "out.csv", stdin=files.left.read_bytes())


def test_csv_cannot_hold_nested_columns(refused, files, tmp_path):
    nested = files.trades.append_column("tags", pa.array([["x"]] * 400))
    left = write(nested, tmp_path / "left.parquet")
    message = refused("run", "--left", left, "--right", files.right, *TIMED, "--out", tmp_path / "out.csv")
    assert "'tags' is nested" in message
    assert not (tmp_path / "out.csv").exists()


def test_a_header_with_one_name_twice(refused, tmp_path):
    left = tmp_path / "left.csv"
    left.write_text("a,a\n1,2\n")
    arguments = ["--left", left, "--right", left, "--on", "l.a = r.a", "--rows", "5"]
    assert "several columns named 'a'" in refused("run", *arguments, "--out", tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({"--on": "l.price <= r.price AND l.price <= r.cost"}, "ConditionError", "r.cost"),
        ({"--left": "nowhere.parquet"}, "UsageError", "does not exist"),
        ({"--window": "1 month"}, "WindowError", "month"),
        ({"--time": "price"}, "SchemaError", "price"),
        ({"--how": "outer"}, "UsageError", "'outer'"),
        ({"--magic": "5"}, "UsageError", "--magic"),
        ({"--on": None}, "UsageError", "--on"),
    ],
    ids=str,
)
def test_errors_for_machines(slidejoin, files, tmp_path, given, kind, says):
    options = {"--left": files.left, "--right": files.right, "--on": BAND, "--window": "10 seconds"}
    options |= {"--time": "ts", "--out": tmp_path / "out.parquet"} | given
    words = (word for pair in options.items() if pair[1] is not None for word in pair)
    result = slidejoin("run", *words, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    error = json.loads(result.stderr)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, 2)
    assert says in error["message"]
    if kind == "ConditionError":
        assert options["--on"][error["position"] :] == "r.cost"


def test_failures_for_machines(slidejoin, files, tmp_path):
    left = tmp_path / "left.parquet"
    left.write_bytes(b"PAR1 and nothing else")
    arguments = [
        "run",
        "--left",
        left,
        "--right",
        files.right,
        *TIMED,
        "--out",
        tmp_path / "out.csv",
        "--json",
    ]
    result = slidejoin(*arguments)
    assert result.exit_code == 1
    error = json.loads(result.stderr)["error"]
    assert (error["kind"], error["exit_code"]) == ("InputError", 1)


def test_options_of_a_command_that_does_not_exist(slidejoin):
    assert json.loads(slidejoin("dance", "--json").stderr)["error"]["exit_code"] == 2
    assert slidejoin("dance").exit_code == 2
