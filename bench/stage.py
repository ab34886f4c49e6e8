"""One process per contender, taking turns: both ends of the conversation.

Contenders must not share a heap, a thread pool or an import, and yet must be measured minutes apart at most, as a
machine's speed drifts. So each lives in a process of its own, idle until it is called, and the program calls them
round by round. Requests and answers are lines of JSON on the process's standard input and output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]


class StageError(RuntimeError):
    """A contender's process ended before it answered; its own message is on stderr."""


class Stage:
    """A process that holds one object, made by ``target`` ("bench.ours:Slidejoin"), and calls its methods."""

    def __init__(self, target: str, *, env: dict[str, str] | None = None, **arguments: Any) -> None:
        self.target = target
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from bench.stage import serve; serve()"],
            cwd=ROOT,
            env={**os.environ, **(env or {}), "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.made = self._ask({"target": target, "arguments": arguments})

    def call(self, method: str, **arguments: Any) -> Any:
        return self._ask({"method": method, "arguments": arguments})

    def _ask(self, request: dict[str, Any]) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = process.wait()
            raise StageError(f"the process of {self.target} ended with code {code}; its message is above")
        return json.loads(answer)

    def rest(self) -> None:
        """Stop all its processes where they are, so that another one has the machine for itself."""
        for process in self._all():  # parents first: who has been stopped starts no other
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def go_on(self) -> None:
        """Let them go on."""
        for process in self._all():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def _all(self) -> list[psutil.Process]:
        mine = psutil.Process(self._process.pid)
        return [mine, *mine.children(recursive=True)]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self.close()


def alone(target: str, *, env: dict[str, str] | None = None, **arguments: Any) -> Any:
    """What a function answers in a fresh process."""
    with Stage(target, env=env, **arguments) as stage:
        return stage.made


def serve() -> None:
    """The process's side: make the object, then answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    subject: Any = None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted program closes our input, and we end
    for line in sys.stdin:
        request = json.loads(line)
        if "target" in request:
            module, _, name = request["target"].partition(":")
            subject = getattr(import_module(module), name)(**request["arguments"])
            answer = subject if isinstance(subject, dict) else None
        else:
            answer = getattr(subject, request["method"])(**request["arguments"])
        try:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        except BrokenPipeError:  # nobody waits for the answer any more
            os._exit(1)
