"""The command as a function and as a process, and two files for it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cli.feeds import feed, write
from slidejoin.cli import app

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Files:
    left: Path
    right: Path
    trades: pa.Table
    quotes: pa.Table

    @property
    def args(self) -> list[str]:
        return ["--left", str(self.left), "--right", str(self.right)]


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("feeds")
    trades, quotes = feed(1, "trade"), feed(2, "quote")
    return Files(
        write(trades, folder / "trades.parquet"), write(quotes, folder / "quotes.parquet"), trades, quotes
    )


@pytest.fixture
def slidejoin():
    """The command in this process: ``slidejoin("run", ...)`` gives exit_code, stdout, stderr."""

    def call(*args, stdin=None):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def refused(slidejoin):
    """The command must end with exit code 2 and a readable message; gives the message."""

    def call(*args, stdin=None):
        result = slidejoin(*args, stdin=stdin)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        assert result.stderr.strip()
        return result.stderr

    return call


@pytest.fixture
def process():
    """The command as a process of its own, for pipes and signals."""

    def start(*args, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "slidejoin.cli", *map(str, args)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            **options,
        )

    return start
