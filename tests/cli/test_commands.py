"""``demo``, ``explain`` and ``bench``."""

import json

import pytest

import slidejoin as sj
from cli.feeds import BAND, TIMED
from slidejoin.cli import bench as bench_module


def test_demo_report(slidejoin):
    result = slidejoin("demo", "--seconds", "0.5", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["matches"] == report["stats"]["matches"] > 0
    assert report["rows"] == report["stats"]["left"]["rows_in"] + report["stats"]["right"]["rows_in"]
    assert report["rows_per_second"] > 0
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    for row in report["sample"]:
        assert abs(row["price_l"] - row["price_r"]) <= 0.0101
        assert row["qty"] <= row["size"]


def test_demo_for_a_person(slidejoin):
    result = slidejoin("demo", "--seconds", "0.3")
    assert result.exit_code == 0, result.stderr
    for word in ("throughput", "latency", "state", "matches", "watermark", "rows in", "evicted"):
        assert word in result.stdout


def test_explain_without_inputs(slidejoin):
    result = slidejoin("explain", *TIMED)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == sj.Join(BAND, window=sj.Time("10 seconds", on="ts")).explain().strip()


def test_explain_with_inputs_knows_the_types(slidejoin, files):
    result = slidejoin("explain", *TIMED, *files.args)
    assert result.exit_code == 0, result.stderr
    assert "r.price" in result.stdout
    report = json.loads(slidejoin("explain", *TIMED, *files.args, "--json").stdout)
    assert report == {"condition": BAND, "explain": result.stdout.rstrip("\n")}


def test_explain_refusals(refused, files):
    assert "expected both inputs" in refused("explain", *TIMED, "--left", files.left)
    assert "nowhere" in refused("explain", *TIMED, "--left", "nowhere", "--right", files.right)
    assert "--window is missing" in refused("explain", "--on", BAND)
    refused("explain", "--on", "l.a <", "--rows", "5")
    refused("explain", "--on", "l.price < r.nothing", "--rows", "5", *files.args)


PROGRAM = """
import json, pathlib, sys
print("measuring", *sys.argv[1:])
results = pathlib.Path("bench/results")
results.mkdir(exist_ok=True)
(results / "all.json").write_text(json.dumps({"rows_per_second": 5}))
sys.exit({"good": 0, "odd": 2}.get(sys.argv[1], 3))
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A source checkout with a benchmark, and the package in its place."""
    package = tmp_path / "src" / "slidejoin" / "__init__.py"
    monkeypatch.setattr(bench_module.slidejoin, "__file__", str(package))
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__main__.py").write_text(PROGRAM)


@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 1), ("odd", 2)])
def test_bench(slidejoin, checkout, capfd, name, code):
    assert slidejoin("bench", name, "--quick").exit_code == code
    assert capfd.readouterr().out == f"measuring {name} --quick\n"


def test_bench_report(slidejoin, checkout, capfd):
    report = slidejoin("bench", "good", "--json").stdout
    assert capfd.readouterr().err == "measuring good\n"
    assert json.loads(report) == {"exit_code": 0, "results": {"all": {"rows_per_second": 5}}}


def test_bench_without_a_checkout(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_module.slidejoin, "__file__", str(tmp_path / "a" / "b" / "__init__.py"))
    assert "source checkout" in refused("bench")
