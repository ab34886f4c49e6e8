"""Refuse hostile text before a parser sees it.

One linear scan counts tokens and nesting. A recursive-descent parser spends about a dozen Python frames on
each level, so the limits keep it far from the interpreter's recursion limit and every refusal under 0.1 s.
"""

from __future__ import annotations

import re

from slidejoin.errors import ConditionError

MAX_LENGTH = 64 * 1024  # characters; hand-written conditions have hundreds, generated ones thousands
MAX_TOKENS = 4000
MAX_NESTING = 60  # the parser needs 12 frames a level and Python grants about 1000

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<open>[(\[{]) | (?P<close>[)\]}])
      | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d[\w.]*|\.\d\w*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_PREFIX_WORDS = frozenset({"NOT", "PRIOR", "INTERVAL", "EXISTS", "DISTINCT"})
_PREFIX_SIGNS = frozenset("-+~@!")


def check(text: str) -> None:
    """Raise ConditionError if the text is too long, has too many tokens, nests too deeply or is not printable."""
    if len(text) > MAX_LENGTH:
        raise ConditionError(
            f"condition has {len(text):,} characters; expected at most {MAX_LENGTH:,}; "
            "put long value lists into a column of the stream",
            MAX_LENGTH,
        )
    tokens = depth = run = dots = 0
    before = ""
    for match in _TOKEN.finditer(text):
        group = match.lastgroup
        if group == "skip":
            continue
        tokens += 1
        if tokens > MAX_TOKENS:
            raise ConditionError(
                f"condition has more than {MAX_TOKENS:,} tokens at position {match.start()}; expected fewer; "
                "put long value lists into a column of the stream",
                match.start(),
            )
        word = match.group().upper() if group == "word" else ""
        sign = match.group() if group == "other" else ""
        if sign and not sign.isprintable():
            raise ConditionError(
                f"condition holds the control character {sign!r} at position {match.start()}; expected printable text; "
                "remove it",
                match.start(),
            )
        prefix = word in _PREFIX_WORDS or (sign in _PREFIX_SIGNS and sign != "")
        run = run + 1 if prefix else 0
        dots = dots + 1 if sign == "." else dots if before == "." else 0
        before = sign
        if group == "open" or word == "CASE":
            depth += 1
        elif group == "close" or word == "END":
            depth = max(0, depth - 1)
        if depth > MAX_NESTING or run > MAX_NESTING or dots > MAX_NESTING:
            raise ConditionError(
                f"condition nests deeper than {MAX_NESTING} levels at position {match.start()}; "
                "expected a flatter one; remove redundant parentheses and repeated signs",
                match.start(),
            )
    if tokens == 0:
        raise ConditionError(
            "condition is empty; expected an SQL condition; for example 'abs(l.x - r.x) <= 10'", 0
        )


def unclosed(text: str) -> int:
    """Where a quote or comment opens that never closes; the end of the text if none does."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "other" and (match.group() in "'\"" or text.startswith("/*", match.start())):
            return match.start()
    return len(text)
