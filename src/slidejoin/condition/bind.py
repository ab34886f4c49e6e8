"""Binding: columns get their types, literals adapt to their neighbours, what SQL would not compare is refused.

A numeric literal is exact next to integers and decimals and the nearest double next to floats. A string literal
next to a date, time or timestamp is read as one. Every refusal names the position and both types.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from slidejoin.condition import algebra, moments, sql_engine, typed
from slidejoin.condition.evaluate import Frame, evaluate, sql_literal, sql_type
from slidejoin.condition.parse import refusal
from slidejoin.condition.typed import Expr
from slidejoin.condition.types import BOOL, FLOAT, NUMERIC, Type, exact_type, from_arrow
from slidejoin.errors import ConditionError

_TEMPORAL = frozenset({"date", "timestamp"})
_DOUBLE_FUNCTIONS = frozenset({
    "sqrt", "cbrt", "ln", "log", "log2", "log10", "exp", "pow", "sin", "cos",
    "tan", "cot", "asin", "acos", "atan", "atan2", "degrees", "radians",
})  # fmt: skip
_CAST_HINT = {
    "string": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "decimal": "DECIMAL(18, 4)", "timestamp": "TIMESTAMP",
    "date": "DATE", "bool": "BOOLEAN", "time": "TIME", "binary": "BLOB",
}  # fmt: skip


class Binder:
    """Types one condition against two schemas."""

    def __init__(self, aliases: tuple[str, str], schemas: tuple[pa.Schema, pa.Schema]) -> None:
        self.aliases = aliases
        self.schemas = schemas
        self.columns: dict[tuple[int, str], Expr] = {}

    def condition(self, node: algebra.Node) -> Expr:
        """A whole condition: must be a truth value."""
        return self.truth(node)

    def truth(self, node: algebra.Node) -> Expr:
        """An operand of AND, OR, NOT, WHEN or the condition itself."""
        bound = self.bind(node)
        if bound.type.kind == "null":
            return typed.Const(BOOL, 0, "NULL", None)
        if bound.type.kind != "bool":
            raise refusal(
                f"condition uses {bound.text} ({bound.type.name}) as a truth value {{at}}; "
                "expected a comparison or a boolean column; compare it with something",
                node.position,
            )
        return _fold(bound)

    def bind(self, node: algebra.Node) -> Expr:
        """Any expression."""
        bound: Expr = getattr(self, _RULES[type(node)])(node)
        return bound

    def _number(self, node: algebra.Number) -> Expr:
        return typed.linear([], node.value, "int", literal=True)

    def _span(self, node: algebra.Span) -> Expr:
        return typed.linear([], node.nanoseconds, "duration")

    def _typed_moment(self, node: algebra.Moment) -> Expr:
        return self._moment(node.text, node.kind, node.position)

    def _all(self, node: algebra.All) -> Expr:
        return typed.conjunction([self.truth(part) for part in node.parts])

    def _any(self, node: algebra.AnyOf) -> Expr:
        return typed.disjunction([self.truth(part) for part in node.parts])

    def _not(self, node: algebra.Negation) -> Expr:
        return typed.negation(self.truth(node.operand))

    def _text(self, node: algebra.Text) -> Expr:
        return typed.bytes_literal(node.value.encode("utf-8", "surrogatepass"))

    def _truth_literal(self, node: algebra.Truth) -> Expr:
        if node.value is None:
            return typed.null_literal()
        return typed.Const(BOOL, 0, str(node.value).upper(), node.value)

    def _compare(self, node: algebra.Compare) -> Expr:
        text_at = next(
            (x.position for x in (node.left, node.right) if isinstance(x, algebra.Text)), node.position
        )
        a, b = self._adapt(self.bind(node.left), self.bind(node.right), text_at)
        return self.compare(node.operator, a, b, node.position)

    def _is_null(self, node: algebra.IsNull) -> Expr:
        bound = self.bind(node.operand)
        return typed.Const(BOOL, 0, "TRUE", True) if bound.type.kind == "null" else typed.is_null(bound)

    def _member(self, node: algebra.Member) -> Expr:
        subject = self.bind(node.operand)
        return typed.disjunction(
            [self.compare("=", subject, self.bind(item), item.position) for item in node.items]
        )

    def _case(self, node: algebra.Case) -> Expr:
        tests = [self.truth(test) for test, _ in node.whens]
        values = [self.bind(value) for _, value in node.whens] + [self.bind(node.otherwise)]
        kind, values = self._unify(values, "CASE or coalesce", node.position)
        pairs = tuple(zip(tests, values[:-1], strict=True))
        text = "CASE " + " ".join(f"WHEN {t.text} THEN {v.text}" for t, v in pairs)
        return typed.Case(
            kind, _sides(tests + values), f"{text} ELSE {values[-1].text} END", pairs, values[-1]
        )

    def _extreme(self, node: algebra.Extreme) -> Expr:
        name = "greatest" if node.greatest else "least"
        kind, values = self._unify([self.bind(part) for part in node.parts], name, node.position)
        text = f"{name}({', '.join(v.text for v in values)})"
        return typed.Extreme(kind, _sides(values), text, node.greatest, tuple(values))

    def _checked_arithmetic(self, node: algebra.Arithmetic) -> Expr:
        try:
            return self._arithmetic(node)
        except typed.TooLargeError as error:
            raise refusal("condition computes a constant of more than a thousand digits {at}; expected a smaller "
                          "one; simplify it", node.position) from error  # fmt: skip

    # ---- leaves

    def _column(self, node: algebra.Column) -> Expr:
        schema = self.schemas[node.side]
        alias = self.aliases[node.side]
        names = schema.names
        name = node.name
        if name not in names:
            similar = [n for n in names if n.lower() == name.lower()]
            if len(similar) == 1 and not node.quoted:
                name = similar[0]
            elif len(similar) > 1:
                raise refusal(
                    f"condition names {alias}.{name} {{at}}, which fits {', '.join(similar)}; "
                    f'expected one column; quote the name: {alias}."{similar[0]}"',
                    node.position,
                )
            else:
                shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") or "no columns"
                raise refusal(
                    f"condition names {alias}.{name} {{at}}, which the {('left', 'right')[node.side]} stream lacks; "
                    f"expected one of: {shown}; check the spelling",
                    node.position,
                )
        if names.count(name) > 1:
            raise refusal(
                f"condition names {alias}.{name} {{at}}, which occurs {names.count(name)} times in the stream; "
                "expected unique column names; rename one",
                node.position,
            )
        key = (node.side, name)
        if key not in self.columns:
            arrow = schema.field(name).type
            shown = f"{_identifier(alias)}.{_identifier(name)}"
            self.columns[key] = typed.Col(from_arrow(arrow), 1 << node.side, shown, node.side, name, arrow)
        return self.columns[key]

    def _moment(self, text: str, kind: str, position: int, other: Type | None = None) -> Expr:
        """A temporal literal; ``other`` is the column type an untyped string stands next to."""
        if kind == "time":
            clock = moments.parse_clock(text)
            if clock is None:
                raise self._bad_moment(text, "a time such as 12:30:00", position)
            return typed.linear([], Fraction(clock), "time")
        stamp = moments.parse_stamp(text)
        if stamp is None:
            raise self._bad_moment(text, "a date or time such as 2024-01-31 or 2024-01-31 12:30:00", position)
        instant, zoned = stamp
        if kind == "date" and other is None and instant % moments.DAY:
            raise self._bad_moment(text, "a date such as 2024-01-31", position)
        wanted = kind == "timestamptz"
        if wanted and not zoned:
            raise refusal(
                f"condition holds the time {text!r} without a zone {{at}}; expected one, as the other side has "
                f"one; add an offset, for example '2024-01-31 12:30:00+00:00'",
                position,
            )
        if zoned and not wanted:
            raise refusal(
                f"condition holds the time {text!r} with a zone {{at}}; expected none, as the other side has none; "
                "drop the zone",
                position,
            )
        return typed.linear([], Fraction(instant), "timestamp" if kind == "timestamptz" else kind, zoned)

    def _bad_moment(self, text: str, expected: str, position: int) -> ConditionError:
        return refusal(
            f"condition holds {text!r} {{at}} next to a date or time; expected {expected}; "
            "check the spelling",
            position,
        )

    def _adapt(self, a: Expr, b: Expr, position: int) -> tuple[Expr, Expr]:
        """Read a string literal as the temporal type of its neighbour."""
        for first, second, swap in ((a, b, False), (b, a, True)):
            if isinstance(first, typed.BytesLit) and second.type.kind in ("date", "timestamp", "time"):
                kind = second.type.kind
                if kind == "timestamp" and second.type.zoned:
                    kind = "timestamptz"
                read = self._moment(first.value.decode("utf-8", "replace"), kind, position, second.type)
                return (a, read) if swap else (read, b)
        return a, b

    # ---- arithmetic

    def _negate(self, node: algebra.Negate) -> Expr:
        x = self.bind(node.operand)
        if x.type.kind == "null":
            return x
        if x.type.kind == "float":
            if isinstance(x, typed.FloatLit):
                return typed.float_literal(-x.value)
            return typed.FloatNeg(FLOAT, x.sides, f"-{typed.wrap(x)}", x)
        if x.type.kind in ("int", "decimal", "duration"):
            terms, constant = typed.as_terms(x)
            literal = isinstance(x, typed.Linear) and x.literal
            return typed.linear([(a, -c) for a, c in terms], -constant, x.type.kind, literal=literal)
        raise refusal(
            f"condition negates {x.text} ({x.type.name}) {{at}}; expected a number or a duration; "
            "remove the sign",
            node.position,
        )

    def _absolute(self, node: algebra.Absolute) -> Expr:
        x = self.bind(node.operand)
        if x.type.kind == "null":
            return x
        if x.type.kind == "float":
            return typed.Absolute(FLOAT, x.sides, f"abs({x.text})", x)
        if x.type.kind in ("int", "decimal", "duration"):
            if isinstance(x, typed.Linear) and not x.terms:
                return typed.linear([], abs(x.constant), x.type.kind, literal=x.literal)
            low, high = x.type.low, x.type.high
            top = None if low is None or high is None else max(abs(low), abs(high))
            kind = exact_type(x.type.kind, x.type.unit, None if top is None else 0, top)
            return typed.Absolute(kind, x.sides, f"abs({x.text})", x)
        raise refusal(
            f"condition takes abs of {x.text} ({x.type.name}) {{at}}; expected a number or a duration; "
            + (
                f"take the distance of two times, for example abs({x.text} - ...) <= INTERVAL '5 minutes'"
                if x.type.kind in _TEMPORAL
                else f"cast it, for example CAST({x.text} AS DOUBLE)"
            ),
            node.position,
        )

    def _arithmetic(self, node: algebra.Arithmetic) -> Expr:
        operator, position = node.operator, node.position
        a, b = self._adapt(self.bind(node.left), self.bind(node.right), position)
        if a.type.kind == "null" or b.type.kind == "null":
            other = b if a.type.kind == "null" else a
            return typed.null_literal(other.type)
        numbers = a.type.kind in NUMERIC and b.type.kind in NUMERIC
        if numbers and (operator == "/" or "float" in (a.type.kind, b.type.kind)):
            return self._float_operation(operator, self.as_float(a, position), self.as_float(b, position))
        if operator in "+-":
            kind = _sum_kind(operator, a.type, b.type)
            if kind is not None:
                return self._sum(operator, a, b, kind)
        elif operator == "*" and _exact_factor(a.type, b.type):
            return self._product(a, b)
        elif operator == "/" and a.type.kind == "duration" and isinstance(b, typed.Linear) and not b.terms:
            if b.type.kind in ("int", "decimal") and b.constant:
                return self._product(a, typed.linear([], 1 / b.constant, "int", literal=True))
        elif operator == "%" and numbers:
            unit = typed.fraction_gcd([a.type.unit, b.type.unit])
            scales = (int(a.type.unit / unit), int(b.type.unit / unit))
            bounds = [None if v is None else abs(v) * scales[1] for v in (b.type.low, b.type.high)]
            top = None if None in bounds else max(v for v in bounds if v is not None)
            kind_ = exact_type("int", unit, None if top is None else -top, top)
            text = f"{typed.wrap(a)} % {typed.wrap(b)}"
            return typed.Remainder(kind_, a.sides | b.sides, text, a, b, scales)
        if {a.type.zoned, b.type.zoned} == {True, False} and {a.type.kind, b.type.kind} <= _TEMPORAL:
            raise self._zones(a, b, position)
        hint = "write an INTERVAL, for example INTERVAL '5 minutes'" if (
            {a.type.kind, b.type.kind} & {"date", "timestamp", "duration", "time"}
        ) else (
            f"cast both sides, for example CAST({a.text} AS DOUBLE)" if a.type.kind == b.type.kind
            else f"cast one side, for example CAST({a.text} AS {_CAST_HINT.get(b.type.kind, 'DOUBLE')})"
        )  # fmt: skip
        raise refusal(
            f"condition computes {a.text} ({a.type.name}) {operator} {b.text} ({b.type.name}) {{at}}; "
            f"expected types that SQL can combine; {hint}",
            position,
        )

    def _sum(self, operator: str, a: Expr, b: Expr, kind: str) -> Expr:
        (terms, constant), (others, offset) = typed.as_terms(a), typed.as_terms(b)
        sign = 1 if operator == "+" else -1
        literal = all(isinstance(x, typed.Linear) and x.literal for x in (a, b))
        zoned = kind == "timestamp" and (a.type.zoned or b.type.zoned)
        everything = terms + [(x, sign * c) for x, c in others]
        return typed.linear(everything, constant + sign * offset, kind, zoned, literal)

    def _product(self, a: Expr, b: Expr) -> Expr:
        kind = "duration" if "duration" in (a.type.kind, b.type.kind) else "int"
        for x, y in ((a, b), (b, a)):
            if isinstance(x, typed.Linear) and not x.terms:
                terms, constant = typed.as_terms(y)
                k = x.constant
                literal = x.literal and isinstance(y, typed.Linear) and y.literal
                return typed.linear([(t, c * k) for t, c in terms], constant * k, kind, literal=literal)
        bounds = (a.type.low, a.type.high, b.type.low, b.type.high)
        low = high = None
        if None not in bounds:
            corners = [p * q for p in bounds[:2] for q in bounds[2:]]  # type: ignore[operator]
            low, high = min(corners), max(corners)
        text = f"{typed.wrap(a)} * {typed.wrap(b)}"
        result = exact_type(kind, a.type.unit * b.type.unit, low, high)
        return typed.Product(result, a.sides | b.sides, text, a, b)

    def as_float(self, x: Expr, position: int) -> Expr:
        """A numeric expression in double arithmetic."""
        if x.type.kind == "float":
            return x
        if isinstance(x, typed.Linear) and not x.terms:
            try:
                return typed.float_literal(float(x.constant))
            except OverflowError as error:
                raise refusal(
                    "condition uses a number beyond the range of doubles next to a float {at}; "
                    "expected at most 1.8e308; write a smaller one",
                    position,
                ) from error
        return typed.ToFloat(FLOAT, x.sides, x.text, x)

    def _float_operation(self, operator: str, a: Expr, b: Expr) -> Expr:
        if isinstance(b, typed.FloatLit) and b.value == 0 and operator in "/%":
            return typed.null_literal(FLOAT)
        if isinstance(a, typed.FloatLit) and isinstance(b, typed.FloatLit):
            with np.errstate(all="ignore"):
                x, y = np.float64(a.value), np.float64(b.value)
                operations = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
                return typed.float_literal(float(operations[operator](x, y)))
        text = f"{_operand(a, operator, False)} {operator} {_operand(b, operator, True)}"
        return typed.FloatOp(FLOAT, a.sides | b.sides, text, operator, a, b)

    # ---- comparisons

    def compare(self, operator: str, a: Expr, b: Expr, position: int) -> Expr:
        """A comparison of two expressions, or a ConditionError if SQL would not compare them."""
        a, b = self._adapt(a, b, position)
        if a.type.kind == "null" or b.type.kind == "null":
            return typed.Const(BOOL, 0, "NULL", None)
        kinds = {a.type.kind, b.type.kind}
        if kinds <= NUMERIC:
            if "float" not in kinds:
                return typed.compare(operator, a, b, "exact")
            a, b = self._literal_as_float(a), self._literal_as_float(b)
            return typed.compare(operator, a, b, "float" if a.type.kind == b.type.kind else "mixed")
        if kinds <= _TEMPORAL:
            if a.type.zoned != b.type.zoned:
                raise self._zones(a, b, position)
            return typed.compare(operator, a, b, "exact")
        if kinds in ({"bool"}, {"duration"}, {"time"}):
            return typed.compare(operator, a, b, "exact")
        if kinds == {"binary", "string"}:
            a, b = (typed.bytes_literal(x.value, y.type) if isinstance(x, typed.BytesLit) else x
                    for x, y in ((a, b), (b, a)))  # fmt: skip
        if a.type.kind == b.type.kind and a.type.kind in ("string", "binary"):
            return typed.compare(operator, a, b, "bytes")
        hint = f"cast one side, for example CAST({a.text} AS {_CAST_HINT.get(b.type.kind, 'VARCHAR')})"
        if kinds & _TEMPORAL and kinds & NUMERIC:
            hint = "write a date or a time, for example DATE '2026-01-31', or push both as numbers"
        if "duration" in kinds and kinds & NUMERIC:
            hint = "write an INTERVAL, for example INTERVAL '5 minutes'"
        if "other" in kinds:
            hint = "take plain columns out of nested ones before the join"
        raise refusal(
            f"condition compares {a.text} ({a.type.name}) with {b.text} ({b.type.name}) {{at}}; "
            f"expected two types that SQL compares; {hint}",
            position,
        )

    def _literal_as_float(self, x: Expr) -> Expr:
        if isinstance(x, typed.Linear) and not x.terms and x.literal:
            try:
                nearest = float(x.constant)
            except OverflowError:
                return x
            if x.constant.denominator != 1 or Fraction(nearest) == x.constant:
                return typed.float_literal(nearest)
        return x

    def _zones(self, a: Expr, b: Expr, position: int) -> ConditionError:
        return refusal(
            f"condition combines {a.text} ({a.type.name}) with {b.text} ({b.type.name}) {{at}}, one with a time zone "
            "and one without; expected both or neither; cast one before the join, for example with "
            "AT TIME ZONE 'UTC'",
            position,
        )

    # ---- choices and functions

    def _unify(self, values: list[Expr], what: str, position: int) -> tuple[Type, list[Expr]]:
        """One type for the outcomes of CASE, COALESCE, greatest, least."""
        kinds = {value.type.kind for value in values} - {"null"}
        if not kinds:
            return values[0].type, values
        temporal = next((v for v in values if v.type.kind in ("date", "timestamp", "time")), None)
        if temporal is not None and "string" in kinds:
            values = [self._adapt(value, temporal, position)[0] for value in values]
            kinds = {value.type.kind for value in values} - {"null"}
        if "float" in kinds and kinds <= NUMERIC:
            kind = FLOAT
            values = [v if v.type.kind == "null" else self.as_float(v, position) for v in values]
        elif kinds <= {"int", "decimal"} or kinds <= _TEMPORAL or (
            len(kinds) == 1 and kinds <= {"bool", "duration", "time"}
        ):  # fmt: skip
            present = [value for value in values if value.type.kind != "null"]
            if len({value.type.zoned for value in present}) > 1:
                raise self._zones(
                    present[0], next(v for v in present if v.type.zoned != present[0].type.zoned), position
                )
            unit = typed.fraction_gcd([value.type.unit for value in present])
            lows, highs = [], []
            for value in present:
                k = int(value.type.unit / unit)
                lows.append(None if value.type.low is None else value.type.low * k)
                highs.append(None if value.type.high is None else value.type.high * k)
            low = None if None in lows else min(v for v in lows if v is not None)
            high = None if None in highs else max(v for v in highs if v is not None)
            name = present[0].type.kind if len(kinds) == 1 else "timestamp" if kinds <= _TEMPORAL else "int"
            kind = exact_type(name, unit, low, high, present[0].type.zoned)
        elif len(kinds) == 1 and kinds <= {"string", "binary"}:
            kind = next(value.type for value in values if value.type.kind != "null")
        else:
            names = ", ".join(f"{value.text} ({value.type.name})" for value in values[:4])
            raise refusal(
                f"condition mixes {names} in {what} {{at}}; expected outcomes of one type; cast them",
                position,
            )
        return kind, [typed.null_literal(kind) if v.type.kind == "null" else v for v in values]

    def _call(self, node: algebra.Call) -> Expr:
        arguments = [self.bind(argument) for argument in node.arguments]
        if node.name == "cast DOUBLE" and arguments[0].type.kind in ("int", "decimal"):
            return self.as_float(arguments[0], node.position)
        if node.name in ("floor", "ceil") and len(arguments) == 1 and arguments[0].type.kind == "int":
            return arguments[0]
        if node.name in _DOUBLE_FUNCTIONS:
            arguments = [
                self.as_float(x, node.position) if x.type.kind in NUMERIC and sql_literal(x) is None else x
                for x in arguments
            ]
        types: list[pa.DataType] = []
        names: list[str] = []
        for argument in arguments:
            literal = sql_literal(argument)
            if literal is None:
                travels = sql_type(argument.type)
                if travels is None:
                    raise refusal(
                        f"condition holds {_written(node, arguments)} {{at}}, with {argument.text} "
                        f"({argument.type.name}); expected a number, text, boolean, date or timestamp; convert it before the join",
                        node.position,
                    )
                literal = f"c{len(types)}"
                types.append(travels)
            names.append(literal)
        try:
            arrow = sql_engine.result_type(node.template.format(*names), types)
        except ValueError as error:
            shown = ", ".join(f"{x.text} ({x.type.name})" for x in arguments)
            raise refusal(
                f"condition holds {_written(node, arguments)} {{at}}, with {shown}; expected types that it takes; "
                f"the SQL engine says: {error}",
                node.position,
            ) from error
        text = _written(node, arguments)
        return typed.Call(from_arrow(arrow), _sides(arguments), text, node.template, tuple(arguments), arrow)


_RULES: dict[type[algebra.Node], str] = {
    algebra.Column: "_column", algebra.Number: "_number", algebra.Text: "_text", algebra.Truth: "_truth_literal",
    algebra.Moment: "_typed_moment", algebra.Span: "_span", algebra.Negate: "_negate", algebra.Absolute: "_absolute",
    algebra.Arithmetic: "_checked_arithmetic", algebra.Compare: "_compare", algebra.All: "_all",
    algebra.AnyOf: "_any", algebra.Negation: "_not", algebra.IsNull: "_is_null", algebra.Member: "_member",
    algebra.Case: "_case", algebra.Extreme: "_extreme", algebra.Call: "_call",
}  # fmt: skip


def _identifier(name: str) -> str:
    """A name as SQL writes it, quoted where it must be."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def _written(node: algebra.Call, arguments: list[Expr]) -> str:
    """A call as SQL, for people."""
    return node.template.format(*(x.text for x in arguments)).replace("TRY_CAST(", "CAST(")


def _sides(nodes: list[Expr]) -> int:
    sides = 0
    for node in nodes:
        sides |= node.sides
    return sides


def _operand(node: Expr, operator: str, right: bool) -> str:
    if isinstance(node, typed.FloatOp):
        inner, outer = node.operator in "+-", operator in "+-"
        if (inner and not outer) or (right and not (outer and not inner)):
            return f"({node.text})"
        return node.text
    return typed.wrap(node.operand if isinstance(node, typed.ToFloat) else node)


def _sum_kind(operator: str, a: Type, b: Type) -> str | None:
    """The kind of a + b or a - b of exact values; None if SQL has no such sum."""
    if {a.kind, b.kind} <= {"int", "decimal"}:
        return "int"
    if a.kind == "duration" and b.kind == "duration":
        return "duration"
    if a.kind in _TEMPORAL and b.kind == "duration":
        return "timestamp"
    if operator == "+" and a.kind == "duration" and b.kind in _TEMPORAL:
        return "timestamp"
    both_temporal = {a.kind, b.kind} <= _TEMPORAL or a.kind == b.kind == "time"
    if operator == "-" and a.zoned == b.zoned and both_temporal:
        return "duration"
    return None


def _exact_factor(a: Type, b: Type) -> bool:
    kinds = {a.kind, b.kind}
    return kinds <= {"int", "decimal"} or ("duration" in kinds and len(kinds - {"int", "decimal"}) == 1 and (
        a.kind != b.kind))  # fmt: skip


def _fold(node: Expr) -> Expr:
    """Replace a truth value without columns by its constant."""
    if node.sides or isinstance(node, typed.Const):
        return node
    empty = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["_"])
    with np.errstate(all="ignore"):
        data, valid = evaluate(node, Frame(empty, empty))
    value = (
        None
        if valid is not None and not np.broadcast_to(valid, (1,))[0]
        else bool(np.broadcast_to(data, (1,))[0])
    )
    return typed.Const(BOOL, 0, "NULL" if value is None else str(value).upper(), value)
