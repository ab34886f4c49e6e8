"""A parsed condition, before any schema is known."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slidejoin.condition import algebra
from slidejoin.condition.bind import Binder
from slidejoin.condition.branch import BoundCondition
from slidejoin.condition.parse import parse_text, refusal
from slidejoin.errors import ConditionError


@dataclass(frozen=True, slots=True)
class Condition:
    """The text, the two stream names in it, and its algebra."""

    text: str
    aliases: tuple[str, str]
    tree: algebra.Node

    def columns(self, side: int) -> frozenset[str]:
        """Names of the columns of one side (0 left, 1 right) as written in the text."""
        return frozenset(
            node.name
            for node in algebra.walk(self.tree)
            if isinstance(node, algebra.Column) and node.side == side
        )

    def require(self, side: int, schema: pa.Schema) -> None:
        """ConditionError if a side lacks a column of the condition; the other side need not be known yet."""
        nothing = pa.schema([])
        binder = Binder(self.aliases, (schema, nothing) if side == 0 else (nothing, schema))
        for node in algebra.walk(self.tree):
            if isinstance(node, algebra.Column) and node.side == side:
                binder.bind(node)

    def bind(self, left: pa.Schema, right: pa.Schema) -> BoundCondition:
        """Give the columns their types; ConditionError for unknown columns or types SQL would not compare."""
        binder = Binder(self.aliases, (left, right))
        try:
            expression = binder.condition(self.tree)
            return BoundCondition(self.text, expression, (left, right))
        except RecursionError as error:
            raise refusal(
                "condition nests too deeply {at}; expected a flatter one; compute parts before the join", 0
            ) from error

    def describe(self) -> str:
        """The parts of the condition that are joined by AND, and which streams each one reads."""
        parts = self.tree.parts if isinstance(self.tree, algebra.All) else (self.tree,)
        starts = [part.position for part in parts]
        lines = [f"condition    {' '.join(self.text.split())}"]
        for number, part in enumerate(parts):
            sides = {node.side for node in algebra.walk(part) if isinstance(node, algebra.Column)}
            role = {0: "constant", 1: "one stream", 2: "both streams"}[len(sides)]
            if len(sides) == 1:
                role = f"{('left', 'right')[next(iter(sides))]} filter"
            names = sorted({f"{self.aliases[n.side]}.{n.name}" for n in algebra.walk(part)
                            if isinstance(n, algebra.Column)})  # fmt: skip
            lines.append(
                f"{role:<12} part {number + 1} at position {starts[number]}: {', '.join(names) or 'no columns'}"
            )
        return "\n".join(lines)


def parse(text: str, aliases: tuple[str, str] = ("l", "r")) -> Condition:
    """Read a condition. O(length); raises ConditionError with the position of what is wrong.

    >>> parse("l.x < r.y").columns(1)
    frozenset({'y'})
    """
    if not isinstance(text, str):
        raise ConditionError(
            f"condition is a {type(text).__name__}; expected text; for example 'l.x < r.y'", 0
        )
    if aliases[0].lower() == aliases[1].lower():
        raise ConditionError(
            f"aliases {aliases[0]!r} and {aliases[1]!r} are the same; expected two names; for example ('l', 'r')",
            0,
        )
    return Condition(text, (aliases[0], aliases[1]), parse_text(text, (aliases[0], aliases[1])))
