"""The untyped algebra: what a condition says, before the types of its columns are known.

Frozen nodes with their position in the text (0-based, for messages). The parser builds them, the binder reads
them; nothing else of the SQL parser's world passes this line. ``BETWEEN``, ``IS [NOT] DISTINCT FROM`` and
``IS TRUE`` do not occur: the parser spells them out with the nodes below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Node:
    """Base of all nodes."""

    position: int


@dataclass(frozen=True, slots=True)
class Column(Node):
    side: int
    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Number(Node):
    """An exact numeric literal; it becomes a double only next to a floating point expression."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Text(Node):
    value: str


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """TRUE, FALSE or (None) NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Moment(Node):
    """A typed literal: DATE '...', TIME '...', TIMESTAMP '...', TIMESTAMPTZ '...'."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Span(Node):
    """An INTERVAL of fixed length, in nanoseconds."""

    nanoseconds: Fraction


@dataclass(frozen=True, slots=True)
class Negate(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Absolute(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    operator: str  # + - * / %
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compare(Node):
    operator: str  # = <> < <= > >=
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class All(Node):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Node):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Negation(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Member(Node):
    operand: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Case(Node):
    whens: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Extreme(Node):
    """greatest or least; NULL arguments are ignored."""

    greatest: bool
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A whitelisted scalar function; ``template`` is SQL with ``{0}``, ``{1}``, ... for its arguments."""

    name: str
    template: str
    arguments: tuple[Node, ...]


def children(node: Node) -> tuple[Node, ...]:
    """The direct operands of a node."""
    match node:
        case Negate(operand=x) | Absolute(operand=x) | Negation(operand=x) | IsNull(operand=x):
            return (x,)
        case Arithmetic(left=a, right=b) | Compare(left=a, right=b):
            return (a, b)
        case All(parts=parts) | AnyOf(parts=parts) | Extreme(parts=parts) | Call(arguments=parts):
            return parts
        case Member(operand=x, items=items):
            return (x, *items)
        case Case(whens=whens, otherwise=otherwise):
            return (*(part for when in whens for part in when), otherwise)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, without recursion."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
