"""The log, the folder and the cache by themselves: checksums, refusals, catching up, letting go."""

from __future__ import annotations

import random
import stat
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.settings import Settings
from slidejoin.spark import cache
from slidejoin.spark.folder import Folder
from slidejoin.spark.log import Log, Manifest, told
from slidejoin.spark.message import decode
from slidejoin.spark.pack import Packing
from slidejoin.spark.query import Query
from spark.model import DictStore

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])
KEY = cache.Key("query", "join", 0)


def query_of(how: str = "left", condition: str = "abs(l.x - r.x) <= 1", length: int = 10) -> Query:
    window = sj.Time(length, on="t")
    settings = Settings.checked(
        condition, window, how, None, "count", "none", "auto", "auto", 1, ("l", "r"), ("_l", "_r"), None
    )
    return Query.read(Query(settings, (SCHEMA, SCHEMA), 1, "split", 1 << 30).text())


def table(rng: random.Random, first: int, rows: int = 20) -> pa.Table:
    return pa.table(
        {
            "t": [first + rng.randint(0, 3) for _ in range(rows)],
            "x": [rng.randint(0, 9) for _ in range(rows)],
        },
        SCHEMA,
    )


class Running:
    """One worker without Spark; ``step`` is a micro-batch."""

    def __init__(self, query: Query, folder: Folder | None = None) -> None:
        self.query, self.folder = query, folder
        self.store = DictStore()
        self.rng = random.Random(3)
        self.now = 0
        cache._kept = OrderedDict()

    def step(self, *, keep: bool = True) -> Log:
        log = Log(self.query, self.store, self.folder)
        messages = []
        for side in (0, 1):
            packing = Packing(self.query, side, 0, self.now)
            messages += [decode(m) for _, m in packing.run(iter(table(self.rng, 3 * self.now).to_batches()))]
        self.now += 1
        replica, self.hit = cache.resume(KEY, self.query, log)
        outcome = replica.shard.take_in(messages)
        replica.record(outcome, log)
        if keep:
            cache.keep(KEY, replica, self.query.budget)
        return log


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_kept", OrderedDict())


def test_an_altered_entry_is_noticed() -> None:
    running = Running(query_of())
    running.step()
    cache._kept.clear()
    key = max(running.store.now)
    body = bytearray(running.store.now[key])
    body[len(body) // 2] ^= 1
    running.store.now[key] = bytes(body)
    with pytest.raises(sj.StateError, match=r"entry .* is missing or altered"):
        running.step()


@pytest.mark.parametrize("key", [1, 0, -1])
def test_what_is_missing_or_altered_is_noticed(key: int) -> None:
    """An entry, the manifest, the match marks of an entry."""
    running = Running(query_of())
    running.step()
    running.step()
    cache._kept.clear()
    body = running.store.now[key]
    running.store.now[key] = body[:-1] + bytes([body[-1] ^ 0xFF])
    with pytest.raises(sj.StateError, match="altered"):
        running.step()
    if key:
        del running.store.now[key]
        with pytest.raises(sj.StateError, match="altered"):
            running.step()


def test_entries_leave_whole() -> None:
    """State stays bounded: what has left the window is deleted from the store and the folder."""
    running = Running(query_of(length=4))
    sizes = []
    for _ in range(12):
        running.step()
        sizes.append(len(running.store.now))
    assert max(sizes[4:]) == min(sizes[4:]) <= 12
    manifest = Manifest.read(running.store.now[0])
    assert {entry.id for entry in manifest.entries} == {key for key in running.store.now if key > 0}
    assert {-entry.id for entry in manifest.entries if entry.marks} == {
        key for key in running.store.now if key < 0
    }


def test_catching_up_reads_only_what_is_missing() -> None:
    running = Running(query_of(length=1000))
    running.step()
    held = OrderedDict(cache._kept)  # a process that stays behind
    cache._kept.clear()
    running.step()
    assert not running.hit
    running.step()
    assert running.hit
    cache._kept = held
    log = running.step()
    assert log.read_entries == 4  # two micro-batches, two sides
    assert len(Manifest.read(running.store.now[0]).entries) == 8


def test_a_shard_that_is_ahead_is_thrown_away() -> None:
    """The micro-batch that it took part in was never committed."""
    running = Running(query_of(length=1000))
    running.step()
    running.store.commit()
    running.step()
    running.store.roll_back()
    replica = cache._kept[KEY]
    assert not replica.fits(Manifest.read(running.store.now[0]))
    log = running.step()
    assert log.read_entries == 2


def test_the_budget_bounds_the_cache() -> None:
    running = Running(query_of())
    running.step()
    replica = cache._kept.pop(KEY)
    for worker in range(5):
        cache.keep(KEY._replace(worker=worker), replica, 2 * replica.nbytes)
    assert [key.worker for key in cache._kept] == [3, 4]
    cache.keep(KEY, replica, 0)
    assert not cache._kept


def test_another_format_is_refused() -> None:
    running = Running(query_of())
    running.step()
    manifest = Manifest.read(running.store.now[0])
    changed = dict(manifest.fingerprint, condition="l.x < r.x", routing="grid")
    with pytest.raises(sj.StateError, match=r"condition was 'l.x < r.x'.*; routing was 'grid', is 'split'"):
        Manifest(1, changed, 1, (None, None), (0, 0), ()).matches(running.query)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (sj.Time("20 minutes", on="t"), "20 minutes on 't'"),
        (sj.Time(7, on=("t", "u")), "7 on ('t', 'u')"),
        (
            (sj.Time("10 minutes", on="t"), sj.Time("1 hour", on="t", slide="1 minute")),
            "10 minutes on 't' of the left, 1 hour, sliding by 1 minute on 't' of the right",
        ),
        (sj.Rows(5), "the last 5 rows"),
        (sj.Rows(5, by="t"), "the last 5 rows by 't'"),
    ],
)
def test_a_refusal_tells_windows_in_words(window: Any, text: str) -> None:
    settings = Settings.checked(
        "l.x < r.x", window, "inner", None, "count", "none", "auto", "auto", 1, ("l", "r"), ("_l", "_r"), None
    )
    assert told("windows", settings.to_json()["windows"]) == text


def test_a_refusal_tells_the_lateness_in_words() -> None:
    was, now = query_of().fingerprint | {"lateness": {"nanoseconds": 5 * 10**9}}, query_of()
    with pytest.raises(sj.StateError, match=r"another join \(lateness was 5 seconds, is None\)"):
        Manifest(1, was, 1, (None, None), (0, 0), ()).matches(now)


def test_the_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIDEJOIN_SPARK_CACHE", str(tmp_path))
    folder = Folder.of("0a-b", 1, 1 << 20)
    assert folder is not None
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    running = Running(query_of(), folder)
    running.step(keep=False)
    files = list(folder.path.iterdir())
    assert files
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    log = running.step(keep=False)
    assert (log.read_entries, log.read_from_state) == (2, 0)
    for file in folder.path.iterdir():  # damaged and missing files: the store has everything
        file.write_bytes(file.read_bytes()[:-8])
    next(folder.path.iterdir()).unlink()
    log = running.step(keep=False)
    assert log.read_from_state == log.read_entries == 4


def test_no_folder_where_it_is_not_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIDEJOIN_SPARK_CACHE", str(tmp_path))
    assert Folder.of(None, 0, 1) is None
    assert Folder.of("../escape", 0, 1) is None
    assert Folder.of("query", 0, 0) is None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    made: Any = Folder.of("query", 0, 1)
    root = made.path.parents[1]
    (root / "linked").symlink_to(elsewhere)
    assert Folder.of("linked", 0, 1) is None


def test_the_folder_keeps_to_its_budget(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 100)
    folder.write("a", b"x" * 80)
    folder.write("b", b"x" * 80)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
