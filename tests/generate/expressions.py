"""Expression trees that render to SQL text and evaluate in Python with SQL's semantics.

A condition under test and its meaning are drawn together, so the oracle never parses anything. Every node has
``sql`` (text, safe to embed: compound nodes bring their own parentheses), ``kind`` (int, dec, float, frac, text,
bytes, bool, date, naive, zoned, span) and ``value(left, right)`` over two mappings of column name to SQL value.

Arithmetic follows the contract: integers and decimals are exact and unbounded, a float operand makes it double,
``/`` is always double, a fractional literal is exact unless it stands next to a float, and NULL goes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import naive

Values = Mapping[str, Any]


class Node:
    kind: str

    @property
    def sql(self) -> str:
        raise NotImplementedError

    @property
    def bare(self) -> str:
        """The text without the outer parentheses, for places where precedence does not need them."""
        return self.sql

    def value(self, left: Values, right: Values) -> Any:
        raise NotImplementedError


def quote(name: str) -> str:
    """An identifier as SQL wants it: bare where it may be, quoted where it must be."""
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


_RESERVED = frozenset({"select", "order", "and", "from", "in", "is", "or", "not", "null", "group", "table"})


@dataclass(frozen=True)
class Column(Node):
    side: int
    name: str
    kind: str
    alias: str

    @property
    def sql(self) -> str:
        return f"{self.alias}.{quote(self.name)}"

    def value(self, left: Values, right: Values) -> Any:
        return (left, right)[self.side][self.name]


@dataclass(frozen=True)
class Literal(Node):
    """``frac`` is a number with a decimal point: exact, or the nearest double next to a float."""

    sql_text: str
    kind: str
    exact: Any

    @property
    def sql(self) -> str:
        return self.sql_text

    def value(self, left: Values, right: Values) -> Any:
        return self.exact


def number(value: int | Fraction) -> Literal:
    if isinstance(value, int):
        return Literal(str(value), "int", value)
    digits = f"{float(value):.4f}"
    assert Fraction(digits) == value, "literals have at most four places"
    return Literal(digits.rstrip("0") if not digits.endswith("0000") else digits[:-3], "frac", value)


def text(value: str) -> Literal:
    return Literal("'" + value.replace("'", "''") + "'", "text", value)


def interval(count: int, unit: str) -> Literal:
    nanos = {"day": 86_400 * 10**9, "hour": 3_600 * 10**9, "minute": 60 * 10**9, "second": 10**9}[unit]
    return Literal(f"INTERVAL '{count}' {unit.upper()}", "span", count * nanos)


def _operands(a: Node, b: Node, left: Values, right: Values) -> tuple[Any, Any]:
    """Both values; a fractional literal next to a float becomes the nearest double."""
    x, y = a.value(left, right), b.value(left, right)
    if a.kind == "frac" and b.kind == "float":
        x = float(x)
    if b.kind == "frac" and a.kind == "float":
        y = float(y)
    return x, y


@dataclass(frozen=True)
class Arithmetic(Node):
    op: str  # + - * /
    a: Node
    b: Node

    @property
    def kind(self) -> str:  # type: ignore[override]
        kinds = {self.a.kind, self.b.kind}
        if kinds & {"naive", "zoned", "date"}:
            return "span" if self.op == "-" and "span" not in kinds else min(kinds - {"span"})
        if kinds == {"span"}:
            return "span"
        if self.op == "/" or "float" in kinds:
            return "float"
        return "int" if kinds == {"int"} else "dec"

    @property
    def sql(self) -> str:
        return f"({self.bare})"

    @property
    def bare(self) -> str:
        return f"{self.a.sql} {self.op} {self.b.sql}"

    def value(self, left: Values, right: Values) -> Any:
        x, y = _operands(self.a, self.b, left, right)
        if x is None or y is None:
            return None
        if self.op == "/":
            return naive.divide(x, y)
        if self.kind == "float":
            x, y = float(x), float(y)
        if self.op == "+":
            return x + y
        return x - y if self.op == "-" else x * y


@dataclass(frozen=True)
class Abs(Node):
    a: Node

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.a.kind

    @property
    def sql(self) -> str:
        return f"abs({self.a.bare})"

    def value(self, left: Values, right: Values) -> Any:
        x = self.a.value(left, right)
        return None if x is None else abs(x)


@dataclass(frozen=True)
class Negative(Node):
    a: Node

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.a.kind

    @property
    def sql(self) -> str:
        return f"(-{self.a.sql})"

    def value(self, left: Values, right: Values) -> Any:
        x = self.a.value(left, right)
        return None if x is None else -x


class Boolean(Node):
    kind = "bool"

    @property
    def sql(self) -> str:
        return f"({self.bare})"


@dataclass(frozen=True)
class Compare(Boolean):
    op: str
    a: Node
    b: Node

    @property
    def bare(self) -> str:
        return f"{self.a.bare} {self.op} {self.b.bare}"

    def value(self, left: Values, right: Values) -> bool | None:
        return naive.holds(self.op, *_operands(self.a, self.b, left, right))


@dataclass(frozen=True)
class Between(Boolean):
    x: Node
    low: Node
    high: Node
    negated: bool = False

    @property
    def bare(self) -> str:
        return f"{self.x.bare} {'NOT ' * self.negated}BETWEEN {self.low.bare} AND {self.high.bare}"

    def value(self, left: Values, right: Values) -> bool | None:
        answer = naive.sql_and(
            naive.holds(">=", *_operands(self.x, self.low, left, right)),
            naive.holds("<=", *_operands(self.x, self.high, left, right)),
        )
        return naive.sql_not(answer) if self.negated else answer


@dataclass(frozen=True)
class In(Boolean):
    x: Node
    items: tuple[Node, ...]
    negated: bool = False

    @property
    def bare(self) -> str:
        return f"{self.x.bare} {'NOT ' * self.negated}IN ({', '.join(item.bare for item in self.items)})"

    def value(self, left: Values, right: Values) -> bool | None:
        answer = naive.sql_or(
            *(naive.holds("=", *_operands(self.x, item, left, right)) for item in self.items)
        )
        return naive.sql_not(answer) if self.negated else answer


@dataclass(frozen=True)
class IsNull(Boolean):
    x: Node
    negated: bool = False

    @property
    def bare(self) -> str:
        return f"{self.x.sql} IS {'NOT ' * self.negated}NULL"

    def value(self, left: Values, right: Values) -> bool:
        return (self.x.value(left, right) is None) != self.negated


@dataclass(frozen=True)
class Distinct(Boolean):
    """IS [NOT] DISTINCT FROM: a comparison for which NULL equals NULL."""

    a: Node
    b: Node
    negated: bool = False

    @property
    def bare(self) -> str:
        return f"{self.a.sql} IS {'NOT ' * self.negated}DISTINCT FROM {self.b.sql}"

    def value(self, left: Values, right: Values) -> bool:
        x, y = _operands(self.a, self.b, left, right)
        same = y is None if x is None else naive.holds("=", x, y) is True
        return same == self.negated


@dataclass(frozen=True)
class Coalesce(Node):
    """The first that is not NULL; both of one kind."""

    a: Node
    b: Node

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.a.kind

    @property
    def sql(self) -> str:
        return f"coalesce({self.a.bare}, {self.b.bare})"

    def value(self, left: Values, right: Values) -> Any:
        x = self.a.value(left, right)
        return self.b.value(left, right) if x is None else x


@dataclass(frozen=True)
class Connective(Boolean):
    op: str  # AND OR
    terms: tuple[Node, ...]

    @property
    def bare(self) -> str:
        # Comparisons bind tighter than AND and OR, so they need no parentheses; connectives get theirs.
        return f" {self.op} ".join(t.sql if isinstance(t, Connective) else t.bare for t in self.terms)

    def value(self, left: Values, right: Values) -> bool | None:
        values = [term.value(left, right) for term in self.terms]
        return naive.sql_and(*values) if self.op == "AND" else naive.sql_or(*values)


@dataclass(frozen=True)
class Not(Boolean):
    x: Node

    @property
    def bare(self) -> str:
        return f"NOT {self.x.sql}"

    def value(self, left: Values, right: Values) -> bool | None:
        return naive.sql_not(self.x.value(left, right))


@dataclass(frozen=True)
class Constant(Boolean):
    sql_text: str
    truth: bool | None

    @property
    def bare(self) -> str:
        return self.sql_text

    @property
    def sql(self) -> str:
        return f"({self.sql_text})"

    def value(self, left: Values, right: Values) -> bool | None:
        return self.truth
