"""Crews: tasks shared by threads."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import numpy as np
import pytest

from slidejoin import kernels
from slidejoin.index.entries import Entries
from slidejoin.pools import Crew

kernels.ready()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("tasks", [0, 1, 2, 40])
def test_answers_are_in_order(threads: int, tasks: int) -> None:
    crew = Crew(threads)
    crew.wake()
    assert crew.each([partial(pow, number, 2) for number in range(tasks)]) == [n * n for n in range(tasks)]


def test_several_threads_take_part() -> None:
    meeting = threading.Barrier(3)
    seen = Crew(3).each([lambda: (meeting.wait(10), threading.get_ident())[1]] * 3)
    assert len(set(seen)) == 3


def test_a_failure_is_raised_when_what_was_begun_has_ended() -> None:
    ended = threading.Event()
    both = threading.Barrier(2)

    def fails() -> None:
        both.wait(10)
        raise KeyError("on purpose")

    def lasts() -> None:
        both.wait(10)
        time.sleep(0.05)
        ended.set()

    with pytest.raises(KeyError, match="on purpose"):
        Crew(2).each([fails, lasts])
    assert ended.is_set()


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_is_begun_after_a_failure(threads: int) -> None:
    begun = []

    def fails() -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        Crew(threads).each([fails] * threads + [partial(begun.append, 1)] * 50)
    assert not begun


def test_crews_of_several_callers() -> None:
    crew = Crew(2)
    answers: list[list[int]] = []
    callers = [
        threading.Thread(
            target=lambda: answers.extend(crew.each([partial(list, [n])] * 20) for n in range(20))
        )
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(answers) == 80
    assert all(answer == [[answer[0][0]]] * 20 for answer in answers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    crew = Crew(2)
    crew.each([int, int])
    child = os.fork()
    if child == 0:
        os._exit(0 if crew.each([int, int]) == [0, 0] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_errand_is_run_once_beside_chores_or_without_any() -> None:
    crew = Crew(2)
    run: list[str] = []

    def merge_twice() -> str:
        crew.wake()
        for _ in range(2):
            merge_something(crew)
        return "merged"

    assert crew.meanwhile(lambda: run.append("alone"), lambda: len(run)) == 0
    assert crew.meanwhile(lambda: run.append("beside"), merge_twice) == "merged"
    assert run == ["alone", "beside"]


def test_an_errand_that_fails_leaves_the_chores_done() -> None:
    crew = Crew(2)
    crew.wake()
    with pytest.raises(ZeroDivisionError):
        crew.meanwhile(lambda: divmod(1, 0) and None, lambda: merge_something(crew))
    merge_something(crew)


def test_an_errand_is_dropped_with_what_it_was_for() -> None:
    crew = Crew(2)
    run: list[int] = []
    with pytest.raises(KeyError):
        crew.meanwhile(lambda: run.append(1), lambda: {}["nothing"])
    merge_something(crew)
    assert run == []


def merge_something(crew: Crew) -> None:
    """Chores that are worth sharing."""
    keys, ids = np.arange(40_000), np.arange(40_000, dtype=np.int32)
    merged = Entries(keys, ids).merged(Entries(keys, ids), crew)
    assert np.array_equal(merged.keys, np.repeat(keys, 2))
