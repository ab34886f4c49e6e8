"""Threads that share the work of a join; one pool per number of threads serves all joins of a process.

Kernels run without the interpreter, so threads are enough. There are two ways to share: tasks of Python, and
chores, which need no interpreter at all (kernels/chores.py). A helper that has just worked, or was told that work is
coming, watches for it instead of sleeping: waking an idle core takes a tenth of a millisecond or several, as long as
probing a few thousand rows. Where others need the cores, watching would take them away, and who has taken a chore may
wait for a core with it; when that is noticed, callers work alone for a while.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from slidejoin.forks import forks
from slidejoin.kernels import config
from slidejoin.kernels.chores import (
    AHEAD,
    AWAKE,
    MOST_ASIDE,
    SHARED,
    Chores,
    all_done,
    finish,
    finish_aside,
    is_done,
    new_board,
    put_aside,
    put_up,
    serve,
)

Answer = TypeVar("Answer")
Board = NDArray[np.int64]

PATIENCE = 2_000_000  # nanoseconds that a helper looks for work before it sleeps
ALONE_FOR = (0.002, 0.16)  # seconds without helpers when there were no cores for them: at first, and at most
SHARE = 8192  # rows, probes or pairs that are worth another thread
PIECES = 4  # of shared work to a thread, of half a SHARE or more


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew:
    """The calling thread and ``threads - 1`` others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._errand: Callable[[], None] | None = None

    def pieces(self, rows: int) -> int:
        """In how many pieces to cut work: more than threads, as one of them may come later than the others."""
        if self.threads == 1 or rows < 2 * SHARE:
            return 1
        return min(PIECES * self.threads, 2 * rows // SHARE)

    def wake(self) -> None:
        """Work is coming in a moment."""
        if self.threads > 1:
            self._helpers.wake()

    def share(self, chores: Chores) -> None:
        """Do chores that are independent of each other, with the threads that are awake."""
        if self.threads == 1 or len(chores) < 2 or config.DISABLE_JIT:
            chores.perform()
        else:
            self._helpers.share(chores, self._run_errand)

    def meanwhile(self, errand: Callable[[], None], work: Callable[[], Answer]) -> Answer:
        """What ``work`` answers; the caller runs the errand while others begin with the first chores that it shares.

        The interpreter then works beside them. If there were no such chores, it is run at the end.
        """
        self._errand = errand
        try:
            answer = work()
            self._run_errand()
        finally:
            self._errand = None
        return answer

    def _run_errand(self) -> None:
        errand, self._errand = self._errand, None
        if errand is not None:
            errand()

    def aside(self, chores: Chores, after: Ahead | None = None) -> Aside | None:
        """Have chores done in order by another thread while the caller goes on; None if they are done already.

        ``after``: they read what these write, and are begun when these are settled.
        """
        few = 0 < len(chores) <= MOST_ASIDE
        if few and self._watched:
            if after is not None and not after.settled:
                return after.follow(Aside(chores, after))
            begun = self._helpers.begin(Aside(chores))
            if begun is not None:
                return begun
        if after is not None:
            after.settle()
        chores.perform()
        return None

    @property
    def idle(self) -> bool:
        """Whether others watch, and have nothing to do that somebody is going to need soon."""
        return self._watched and self._helpers.may_begin(Ahead)

    def ahead(self, chores: Chores) -> Ahead | None:
        """Have chores, independent of each other, begun by others while the caller goes on; None if nobody does."""
        return self._helpers.begin(Ahead(chores)) if self._watched else None

    @property
    def _watched(self) -> bool:
        return self.threads > 1 and not config.DISABLE_JIT and self._helpers.awake

    def each(self, tasks: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Do all tasks, whoever is free the next; the answers in the order of the tasks.

        The caller waits for tasks, not for threads: if it is done before another one has woken up, it goes on.
        After a failure no task is begun; those under way end before it is raised.
        """
        helpers = min(self.threads, len(tasks)) - 1
        if helpers < 1:
            return [task() for task in tasks]
        shared = _Shared(tasks)
        try:
            for _ in range(helpers):
                self._helpers.post(shared.help_out)
        finally:
            shared.finish()
        return shared.outcome()

    @property
    def _helpers(self) -> _Helpers:
        return _helpers(self.threads - 1)


ALONE = Crew(1)


class _Shared(Generic[Answer]):
    """Tasks that several threads take from.

    The caller may be interrupted anywhere, so what it waits for is not counted by itself: as many threads must have left
    as have come in. Who comes in after a failure begins nothing.
    """

    def __init__(self, tasks: Sequence[Callable[[], Answer]]) -> None:
        self._answers: list[Answer | None] = [None] * len(tasks)
        self._waiting = deque(enumerate(tasks))
        self._failures: list[BaseException] = []
        self._came: list[None] = []
        self._left: list[None] = []
        self._leaving: SimpleQueue[None] = SimpleQueue()  # wakes the caller; what counts is who has left

    def _work(self) -> None:
        """Take tasks while there are some."""
        while not self._failures:
            try:
                number, task = self._waiting.popleft()
            except IndexError:
                return
            self._answers[number] = task()

    def help_out(self) -> None:
        self._came.append(None)
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by the calling thread
            self._failures.append(error)
        self._left.append(None)
        self._leaving.put(None)

    def finish(self) -> None:
        """Take part, then wait for those who came to help, whatever interrupts."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised when the others have ended
            self._failures += [error]
        while True:
            try:
                while len(self._left) < len(self._came):
                    self._leaving.get()
                return
            except BaseException as error:  # noqa: BLE001 - interrupted: first let the others end
                self._failures += [error]

    def outcome(self) -> list[Answer]:
        if self._failures:
            raise self._failures[0]
        return cast(list[Answer], self._answers)


class Unfinished:
    """Chores that another thread may be doing; what they write is not to be read before ``settle()``."""

    def __init__(self, chores: Chores) -> None:
        self._chores = chores  # holds the arrays
        self._forks = forks()
        self._helpers: _Helpers | None = None
        self.settled = False

    def begin(self, helpers: _Helpers) -> None:
        """From here on the arrays are written, so somebody must be holding this."""
        self._helpers = helpers
        self._put_on(helpers.board, self._chores)

    def settle(self) -> None:
        """Help until they are done. From then on what they have read may change."""
        if self.settled:
            return
        helpers = self._helpers
        if helpers is None or forks() != self._forks:
            # Nobody has begun, or the thread that had is not there after a fork; beginning anew does no harm.
            self._chores.perform()
        elif helpers.holds(self):
            self._finish_on(helpers.board)
        self.settled = True
        self._chores.release()

    @property
    def done(self) -> bool:
        """Whether the board is free of them."""
        return self._helpers is None or self._done_on(self._helpers.board)

    def _put_on(self, board: Board, chores: Chores) -> None:
        raise NotImplementedError

    def _done_on(self, board: Board) -> bool:
        raise NotImplementedError

    def _finish_on(self, board: Board) -> None:
        raise NotImplementedError


class Ahead(Unfinished):
    """Independent chores, which the caller is going to need soon."""

    _follower: Aside | None = None

    def follow(self, aside: Aside) -> Aside:
        """Begin others when these are settled, which they are not yet."""
        self._follower = aside
        return aside

    def settle(self) -> None:
        super().settle()
        follower, self._follower = self._follower, None
        if follower is not None and self._helpers is not None and forks() == self._forks:
            self._helpers.begin(follower)

    def _put_on(self, board: Board, chores: Chores) -> None:
        self._table = chores.table  # the board has but its place
        put_up(board, AHEAD, self._table)

    def _done_on(self, board: Board) -> bool:
        return bool(all_done(board, AHEAD))

    def _finish_on(self, board: Board) -> None:
        finish(board, AHEAD)


class Aside(Unfinished):
    """Chores that are done in order, some time; ``after`` others, if they read what those write."""

    _number = -1  # of a table that there never is

    def __init__(self, chores: Chores, after: Ahead | None = None) -> None:
        super().__init__(chores)
        self._after = after

    def settle(self) -> None:
        after, self._after = self._after, None
        if after is not None:
            after.settle()
        super().settle()

    def _put_on(self, board: Board, chores: Chores) -> None:
        self._number = put_aside(board, chores.table)

    def _done_on(self, board: Board) -> bool:
        return bool(is_done(board, self._number))

    def _finish_on(self, board: Board) -> None:
        finish_aside(board, self._number)


AnyUnfinished = TypeVar("AnyUnfinished", bound=Unfinished)


class _Helpers:
    """Threads that do what is posted or put up on their board."""

    def __init__(self, threads: int) -> None:
        self._watching = min(threads, cores() - 1)  # more would only take the cores from those that work
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._posted = np.zeros(1, dtype=np.int64)
        self.board = new_board()
        self._words = self.board.data  # the same; NumPy takes longer to read one
        self._alone_until, self._alone_for = 0.0, ALONE_FOR[0]
        self._sharing = Lock()
        self._beginning = Lock()
        # Of each kind the last one put on the board: held until it is done, whatever becomes of the join that it is of.
        self._unfinished: dict[type[Unfinished], Unfinished] = {}
        for number in range(threads):
            Thread(target=self._serve, name=f"slidejoin-{number}", daemon=True).start()

    @property
    def awake(self) -> bool:
        """Whether the board is being watched."""
        return self._words[AWAKE] >= self._watching > 0

    def wake(self) -> None:
        missing = self._watching - self._words[AWAKE]
        if missing > 0 and time.monotonic() >= self._alone_until:
            for _ in range(missing):
                self.post(_nothing)

    def post(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        self._posted[0] += 1

    def share(self, chores: Chores, errand: Callable[[], None]) -> None:
        if not self.awake or not self._sharing.acquire(blocking=False):
            chores.perform()  # nobody is there, or another join has the board
            return
        crowded, table = False, chores.table
        try:
            try:  # an interruption from here on finds the chores done: helpers write into their arrays
                put_up(self.board, SHARED, table)
                errand()
            finally:
                crowded = finish(self.board, SHARED)
        finally:
            self._sharing.release()
        if crowded:
            self._leave_alone()

    def _leave_alone(self) -> None:
        """There are fewer cores than threads just now: helping costs more than it gains.

        Twice as long as the last time if that was not long ago: a moment's delay is another thing than a busy machine.
        """
        now = time.monotonic()
        least, most = ALONE_FOR
        again = now - self._alone_until < 4 * self._alone_for
        self._alone_for = min(2 * self._alone_for, most) if again else least
        self._alone_until = now + self._alone_for
        self._posted[0] += 1  # whoever watches stops

    def may_begin(self, kind: type[Unfinished]) -> bool:
        """Whether nothing of a kind is on the board."""
        held = self._unfinished.get(kind)
        return held is None or held.settled or held.done

    def begin(self, unfinished: AnyUnfinished) -> AnyUnfinished | None:
        """Put chores on the board; None if they are busy with others of the kind."""
        with self._beginning:
            if not self.may_begin(type(unfinished)):
                return None
            self._unfinished[type(unfinished)] = unfinished
            unfinished.begin(self)
        return unfinished

    def holds(self, unfinished: Unfinished) -> bool:
        return self._unfinished.get(type(unfinished)) is unfinished

    def _serve(self) -> None:
        while True:
            seen = int(self._posted[0])
            try:
                job = self._jobs.get_nowait()
            except Empty:
                if self.board[AWAKE] < self._watching and time.monotonic() >= self._alone_until:
                    if serve(self.board, self._posted, seen, PATIENCE):
                        self._leave_alone()
                    if self._posted[0] != seen:
                        continue
                job = self._jobs.get()
            job()


def _nothing() -> None:
    """Being awake is all."""


@lru_cache(maxsize=8)
def _helpers(threads: int) -> _Helpers:
    return _Helpers(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not survive a fork
