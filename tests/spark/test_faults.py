"""Processes killed in the middle of micro-batches: the sink holds exactly the oracle's rows.

Each test lays traps (see ``fault_driver``), starts the query in a process of its own and starts it again as often
as its driver is killed. Time-outs end everything that the process has started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pyspark
import pytest

from spark.streams import SECOND, Feed, oracle, time_window

pytestmark = pytest.mark.xdist_group("spark")

TESTS = Path(__file__).resolve().parents[1]
SECONDS = 600  # for one run; it takes about ten where nothing else runs, a lost executor a minute, and more beside other work
KILLED = -9


def start(master: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Run the query until it ends, of itself or killed: its exit code, and what it said."""
    (folder / "scratch").mkdir(exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark.fault_driver", master, str(folder)],
            env={**inherited, "PYTHONPATH": str(TESTS), "SPARK_LOCAL_DIRS": str(folder / "scratch"), **environment},
            stdout=said,
            stderr=said,
            cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS)
        finally:
            end_session(process.pid)
            process.wait()
        said.seek(0)
        return code, said.read()[-4000:]


def end_session(leader: int) -> None:
    """Kill what is left of a session: Python workers have process groups of their own, but not sessions."""
    left = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader:
                process.kill()
                left.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    psutil.wait_procs(left, 10)


def laid(folder: Path, traps: dict[str, str], seed: int) -> Feed:
    """The streams' files and the traps."""
    feed = Feed(seed, batches=6)
    feed.write(folder)
    (folder / "traps").mkdir()
    for point, victim in traps.items():
        (folder / "traps" / point).write_text(victim)
    return feed


def check(folder: Path, feed: Feed) -> None:
    """Every trap was sprung, and the sink holds the oracle's rows."""
    assert [trap.name for trap in (folder / "traps").iterdir()] == ["driver"]
    found = Counter(tuple(row) for row in json.loads((folder / "found.json").read_text()))
    wanted = Counter(oracle(feed, "band", time_window(6, 4)[1], "full", 2 * SECOND))
    assert found == wanted
    assert sum(wanted.values()) > 100  # otherwise there was nothing to lose


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    traps = dict.fromkeys(("arriving-1", "done-2", "leaving-4"), "driver")
    feed = laid(tmp_path, traps, seed=69)
    for _ in traps:
        code, said = start("local[2]", tmp_path)
        assert code == KILLED, said
    code, said = start("local[2]", tmp_path)
    assert code == 0, said
    check(tmp_path, feed)


def test_python_workers_are_killed(tmp_path: Path) -> None:
    traps = dict.fromkeys(("leaving-0", "arriving-2", "done-3", "leaving-4"), "workers")
    feed = laid(tmp_path, traps, seed=64)
    code, said = start("local[2,4]", tmp_path)  # a task may fail four times; local[2] gives up at once
    assert code == 0, said
    check(tmp_path, feed)


def test_executors_are_killed(tmp_path: Path) -> None:
    feed = laid(tmp_path, dict.fromkeys(("leaving-1", "done-3"), "executor"), seed=73)
    # A cluster in one's own processes writes its logs below SPARK_HOME, which is where packages are.
    home = tmp_path / "home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    code, said = start("local-cluster[2,1,1024]", tmp_path, SPARK_HOME=str(home))
    assert code == 0, said
    check(tmp_path, feed)
