"""What README, docs/ and examples/ show is what happens.

Python blocks of a page run in order in one namespace; a ``text`` block right after one is what it prints. A block
whose fence names a file shows lines of that file, and does not run.
``console`` blocks run in a shell, in an empty folder that holds examples/; the lines after ``$ command`` are its
output. In shown output ``...`` stands for anything. Links to files must lead somewhere.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(\w*) *([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


@dataclass(frozen=True)
class Block:
    language: str
    file: str  # that it shows lines of; empty for most
    text: str
    line: int
    shown: str | None  # the text block right after it


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(source))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        adjacent = following is not None and not source[fence.end() : following.start()].strip()
        shown = following[3] if adjacent and following[1] == "text" else None
        found.append(Block(fence[1], fence[2], fence[3], source.count("\n", 0, fence.start()) + 2, shown))
    return found


def check(got: str, want: str, where: str) -> None:
    got, want = ("\n".join(line.rstrip() for line in text.strip("\n").split("\n")) for text in (got, want))
    same = doctest.OutputChecker().check_output(want + "\n", got + "\n", doctest.ELLIPSIS)
    assert same, f"{where}\n--- shown\n{want}\n--- happened\n{got}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__docs__"}
    for block in blocks(page):
        if block.language != "python" or block.file:
            continue
        where = f"{name(page)}:{block.line}"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), namespace)
        if block.shown is not None:
            check(printed.getvalue(), block.shown, where)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_of_files(page):
    for block in blocks(page):
        if block.file:
            source = (ROOT / block.file).read_text(encoding="utf-8")
            assert bare(block.text) in bare(source), f"{name(page)}:{block.line}"


def bare(text: str) -> str:
    """Lines without what they are indented by, which depends on where they stand."""
    return "\n".join(line.strip() for line in text.strip().split("\n"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_console_blocks(page, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for block in blocks(page):
        if block.language != "console":
            continue
        for command, shown in commands(block.text):
            finished = shell(command, tmp_path)
            check(finished.stdout, shown, f"{name(page)}:{block.line}: $ {command}")


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block with what is shown after each; a trailing backslash goes on."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = (found[-1][0][:-1] + " " + line.strip(), "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def shell(command: str, folder: Path) -> subprocess.CompletedProcess:
    python = shlex.quote(sys.executable)
    words = f'python() {{ {python} "$@"; }}; slidejoin() {{ {python} -m slidejoin.cli "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,  # a Spark session takes long to start where other tests run beside it
        check=False,
    )


def shown_somewhere(example: Path) -> bool:
    """Whether a page shows what the example prints, which runs it already."""
    return any(
        f"$ python {name(example)}" in block.text
        for page in PAGES
        for block in blocks(page)
        if block.language == "console"
    )


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not shown_somewhere(e)], ids=name)
def test_examples_run(example, tmp_path):
    finished = shell(f"python {shlex.quote(str(example))}", tmp_path)
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(prose) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
