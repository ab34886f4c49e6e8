"""A signal ends the command, also when the exception it raises gets lost on the way."""

import gc
import os
import signal
import subprocess
import sys
import time

import pytest

from slidejoin.cli.interrupts import terminable


class Finaliser:
    """Python prints what a finaliser raises, and goes on."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_lost_in_a_finaliser_comes_again(monkeypatch, number):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_type))
    own = signal.signal(number, signal.default_int_handler)  # a test run in the background may ignore SIGINT
    before = signal.getsignal(number), signal.getsignal(signal.SIGALRM)
    cleaned = []

    def work():
        try:
            Finaliser(number)
            gc.collect()
            time.sleep(30)
        finally:
            time.sleep(0.6)  # longer than it takes to ask again: cleaning up is not cut short
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt), terminable():
        work()
    after = signal.getsignal(number), signal.getsignal(signal.SIGALRM)
    signal.signal(number, own)
    assert after == before
    assert lost == [KeyboardInterrupt]
    assert cleaned
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_cleaning_up_that_hangs_is_interrupted_as_well(monkeypatch):
    monkeypatch.setattr("slidejoin.cli.interrupts.PATIENCE", 0.3)
    began = time.monotonic()

    def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        finally:
            time.sleep(30)

    with pytest.raises(KeyboardInterrupt), terminable():
        work()
    assert time.monotonic() - began < 10


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with terminable():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reader_that_has_stopped_reading(process, tmp_path):
    # 9 million rows of text fill the pipe; nobody empties it, so the command waits inside a write.
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"{name}\n" + "1\n" * 3000)
    running = process(
        *[
            "run",
            "--left",
            tmp_path / "a.csv",
            "--right",
            tmp_path / "b.csv",
            "--on",
            "l.a = r.b",
            "--rows",
            "3000",
        ],
        *["--out", "-", "--out-format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout.read(5) == b'"a","'
    time.sleep(0.3)
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 1
    errors = running.stderr.read().decode()
    running.stdout.close()
    running.stderr.close()
    assert "interrupted" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_interruption_before_the_command_begins(slidejoin, monkeypatch, more):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.core.TyperCommand.make_context", interrupted)
    result = slidejoin("demo", *more)
    assert result.exit_code == 1
    assert "interrupted" in result.stderr
