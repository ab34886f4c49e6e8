"""Snapshots: what is loaded goes on as if nothing had happened, and what was harmed is refused."""

from __future__ import annotations

import os
import pickletools
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from duel import Duel, InapplicableError, pairs_of
from generate.cases import Call, Setup, cases
from generate.profiles import examples
from slidejoin import snapshot

CONDITION = "abs(l.x - r.x) <= 2 AND l.tag <> r.tag"


def batch(start: int, count: int = 40) -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table(
        {
            "x": [None if i % 11 == 0 else i * 7 % 50 for i in ids],
            "tag": pa.array([f"t{i % 5}" for i in ids]).dictionary_encode(),
            "ts": pa.array(ids, pa.timestamp("s", "UTC")),
            "payload": [[i, None] if i % 3 else None for i in ids],
        }
    )


def living(how: str = "full", **options: Any) -> sj.Join:
    """A join in the middle of its life, with rows in state, matched and not, some late."""
    join = sj.Join(
        CONDITION,
        window=sj.Time("60 seconds", on="ts"),
        lateness="5 seconds",
        late="keep",
        how=how,
        tuning=sj.Tuning(subwindow_rows=16, chunk_rows=16),
        **options,
    )
    join.push(left=batch(0), right=batch(5))
    join.push(left=batch(40), right=batch(30))
    join.push(left=batch(0, 3))
    return join


def counters(join: sj.Join) -> dict[str, Any]:
    """All counters but the bytes, which depend on how the rows came to be where they are."""
    return {name: value for name, value in join.stats().items() if name != "state_bytes"}


def rest(join: sj.Join) -> list[Any]:
    """All that can be seen of a join from here to its end."""
    seen: list[Any] = [counters(join), [side.to_pylist() for side in join.late()]]
    for matches in (join.push(left=batch(80)), join.push(right=batch(75)), join.finish()):
        table = matches.to_table()
        seen.append(Counter(pairs_of(matches)))
        seen.append((table.schema, Counter(map(repr, table.to_pylist()))))
    return [*seen, counters(join)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "join.snapshot"
    living().save(path)
    return path


def whole(path: Path) -> dict[Path, bytes]:
    """A snapshot's bytes, whether it is one file or a folder of them."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {file: file.read_bytes() for file in files}


# -- as if nothing had happened ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_loaded_join_goes_on_as_the_saved_one(how: str, tmp_path: Path) -> None:
    join = living(how)
    join.save(tmp_path / "s")
    loaded = sj.Join.load(tmp_path / "s")
    loaded.check()
    again = sj.Join.load(tmp_path / "s")
    expected = rest(join)
    assert rest(loaded) == expected
    assert rest(again) == expected, "a snapshot can be loaded many times"


@examples(1)
@given(cases(), st.data(), st.sampled_from(("auto", *sj.indexes())))
def test_snapshots_between_any_calls(case: tuple[Setup, list[Call]], data: st.DataObject, index: str) -> None:
    setup, calls = case
    moments = data.draw(st.sets(st.integers(0, len(calls)), min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        try:
            duel = Duel(setup, index=index)
            for number, call in enumerate(calls):
                if number in moments:
                    duel.save_and_load(path)
                duel.call(call)
        except InapplicableError:
            return
        if len(calls) in moments:
            duel.save_and_load(path)
        duel.finish()
        with pytest.raises(sj.StateError):
            duel.engine.save(path)


def test_a_join_that_has_seen_nothing(tmp_path: Path) -> None:
    sj.Join("l.x = r.x", window=sj.Rows(5), how="left").save(tmp_path / "s")
    join = sj.Join.load(tmp_path / "s")
    assert pairs_of(join.push(left={"x": [1]}, right={"x": [1]})) == [(0, 0)]


def test_a_join_that_knows_one_schema_only(tmp_path: Path) -> None:
    join = sj.Join("l.x = r.x", window=sj.Rows(5))
    join.push(right=pa.table({"x": pa.array([], pa.int32())}))
    join.save(tmp_path / "s")
    loaded = sj.Join.load(tmp_path / "s")
    with pytest.raises(sj.SchemaError):
        loaded.push(right={"x": ["text"]})
    assert pairs_of(loaded.push(left={"x": [1]}, right={"x": pa.array([1], pa.int32())})) == [(0, 0)]


def test_a_side_that_has_shown_names_but_no_types(tmp_path: Path) -> None:
    join = sj.Join("l.k = r.k", window=sj.Rows(1), how="full")
    join.push(left=pa.table({"k": pa.array([], pa.int64()), "z": pa.nulls(0)}))
    join.push(right={"k": [1, 2]})
    join.save(tmp_path / "names")
    loaded = sj.Join.load(tmp_path / "names")
    for one in (join, loaded):
        assert one.push(right={"k": [3]}).to_table().to_pylist() == [{"k_l": None, "z": None, "k_r": 2}]
        assert one.push(left={"k": [3], "z": ["a"]}).to_table().to_pylist() == [
            {"k_l": 3, "z": "a", "k_r": 3}
        ]


@pytest.mark.parametrize("name", ["seq", "__seq", "__position", "__marked", "left", "rows", ""])
def test_columns_of_any_name(name: str, tmp_path: Path) -> None:
    join = sj.Join("l.k = r.k", window=sj.Rows(5), how="full")
    join.push(left=pa.table({"k": [1, 2], name: ["a", "b"]}))
    join.save(tmp_path / "s")
    loaded = sj.Join.load(tmp_path / "s")
    matches = loaded.push(right=pa.table({"k": [2], name: [7]}))
    assert matches.to_table().to_pylist() == [{"k_l": 2, f"{name}_l": "b", "k_r": 2, f"{name}_r": 7}]


@pytest.mark.parametrize(
    "beat", [17, datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1)]
)
def test_a_heartbeat_before_any_row_is_saved(beat: Any, tmp_path: Path) -> None:
    kind = {int: pa.int64(), datetime: pa.timestamp("us"), date: pa.date32()}[type(beat)]
    if getattr(beat, "tzinfo", None):
        kind = pa.timestamp("us", "UTC")
    length = 10 if isinstance(beat, int) else "10 seconds"
    join = sj.Join("TRUE", window=sj.Time(length, on="ts"))
    join.advance(left=beat, right=beat)
    join.save(tmp_path / "s")
    loaded = sj.Join.load(tmp_path / "s")
    loaded.push(left=pa.table({"ts": pa.array([0, beat], kind)}))
    assert loaded.stats()["left"]["late"] == 1


def test_saving_changes_nothing(tmp_path: Path) -> None:
    join, other = living(), living()
    join.save(tmp_path / "s")
    join.save(tmp_path / "s")
    assert rest(join) == rest(other)


def test_path_may_be_text(tmp_path: Path) -> None:
    living().save(str(tmp_path / "s"))
    assert counters(sj.Join.load(str(tmp_path / "s"))) == counters(living())


def test_saving_leaves_nothing_else_behind(tmp_path: Path) -> None:
    for _ in range(3):
        living().save(tmp_path / "s")
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


# -- what was harmed is refused ---------------------------------------------------------------------------


def test_truncated_anywhere(saved: Path, tmp_path: Path) -> None:
    original = whole(saved)
    for file, content in original.items():
        cuts = {0, 1, 7, 8, 9, 15, 16, len(content) - 1, len(content) - 8, len(content) // 2}
        cuts |= set(range(0, len(content), max(1, len(content) // 150)))
        for cut in sorted(cut for cut in cuts if 0 <= cut < len(content)):
            file.write_bytes(content[:cut])
            with pytest.raises(sj.StateError):
                sj.Join.load(saved)
        file.write_bytes(content + b"\x00")
        with pytest.raises(sj.StateError):
            sj.Join.load(saved)
        file.write_bytes(content + content)
        with pytest.raises(sj.StateError):
            sj.Join.load(saved)
        file.write_bytes(content)
    assert counters(sj.Join.load(saved)) == counters(living())


def test_a_flipped_bit_anywhere(saved: Path) -> None:
    seed = random.Random(7)
    for file, content in whole(saved).items():
        places = {*range(min(64, len(content))), *(seed.randrange(len(content)) for _ in range(300))}
        for place in sorted(places):
            harmed = bytearray(content)
            harmed[place] ^= 1 << seed.randrange(8)
            file.write_bytes(bytes(harmed))
            with pytest.raises(sj.StateError):
                sj.Join.load(saved)
        file.write_bytes(content)
    assert counters(sj.Join.load(saved)) == counters(living())


def test_blocks_of_zeros_and_swapped_halves(saved: Path) -> None:
    for file, content in whole(saved).items():
        half = len(content) // 2
        for harmed in (
            bytes(len(content)),
            content[half:] + content[:half],
            content[:half] + bytes(len(content) - half),
        ):
            file.write_bytes(harmed)
            with pytest.raises(sj.StateError):
                sj.Join.load(saved)
        file.write_bytes(content)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"PAR1", b"\x80\x04.", b"slidejoin", b"ARROW1\x00\x00", random.Random(0).randbytes(4096)],
    ids=lambda content: repr(content[:8]),
)
def test_not_a_snapshot(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(sj.StateError):
        sj.Join.load(path)


def test_nothing_there_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(sj.StateError):
        sj.Join.load(tmp_path / "nothing")
    with pytest.raises(sj.StateError):
        sj.Join.load(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "VERSION", snapshot.VERSION + 1)
        living().save(tmp_path / "s")
    with pytest.raises(sj.StateError, match="format"):
        sj.Join.load(tmp_path / "s")


def test_another_condition_is_refused(saved: Path) -> None:
    with pytest.raises(sj.StateError):
        sj.Join.load(saved, condition="l.x = r.x")
    assert counters(sj.Join.load(saved, condition=CONDITION)) == counters(living())


def test_a_file_of_another_join_cannot_stand_in(saved: Path, tmp_path: Path) -> None:
    """A folder snapshot whose parts come from two saves must not load; one file cannot be mixed."""
    other = tmp_path / "other"
    join = living()
    join.push(left=batch(200))
    join.save(other)
    mine, theirs = whole(saved), whole(other)
    if len(mine) == 1:
        return
    for file, content in mine.items():
        twin = other / file.relative_to(saved)
        if twin not in theirs or theirs[twin] == content:
            continue
        file.write_bytes(theirs[twin])
        with pytest.raises(sj.StateError):
            sj.Join.load(saved)
        file.write_bytes(content)


# -- a crash in the middle of a save ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["replace", "fsync", "rename", "write", "open"])
def test_a_save_that_fails_leaves_the_previous(
    name: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = whole(saved)
    join = living()
    join.push(left=batch(90))

    def broken(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, broken)
        try:
            join.save(saved)
        except (OSError, sj.SlidejoinError):
            assert whole(saved) == before, "the previous snapshot is untouched"
    assert counters(sj.Join.load(saved)) in (counters(living()), counters(join))
    join.save(saved)
    assert counters(sj.Join.load(saved)) == counters(join)


def test_killed_in_the_middle_of_saving(tmp_path: Path) -> None:
    """A process that saves without end is killed at random moments; what is there always loads."""
    path = tmp_path / "s"
    script = f"""
        import pyarrow as pa
        import slidejoin as sj
        join = sj.Join("l.x = r.x", window=sj.Rows(200_000))
        number = 0
        while True:
            number += 1
            join.push(left=pa.table({{"x": list(range(number * 1000))}}))
            join.save({str(path)!r})
            print(number, flush=True)
        """
    seed = random.Random(3)
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            first = child.stdout.readline()
            assert first, child.stderr.read().decode()
            time.sleep(seed.uniform(0, 0.15))
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()
        loaded = sj.Join.load(path)
        loaded.check()
        # Every save follows a push of number * 1000 rows: the rows seen are 1000 * (1 + 2 + .. + n).
        rows = loaded.stats()["left"]["rows_in"]
        assert rows in {1000 * n * (n + 1) // 2 for n in range(1, 2000)}


def test_a_snapshot_holds_no_pickle(saved: Path) -> None:
    for content in whole(saved).values():
        with pytest.raises(Exception):  # noqa: B017, PT011 - any complaint will do
            list(pickletools.genops(content))
