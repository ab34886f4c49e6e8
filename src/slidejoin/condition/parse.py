"""From text to algebra: sqlglot reads the SQL, a whitelist decides what may stay.

Every sqlglot node is either translated here or refused with its position; nothing is passed on unread.
Functions keep the SQL spelling sqlglot gives them, with numbered holes for their arguments.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from slidejoin.condition import algebra, guard
from slidejoin.condition.algebra import Node
from slidejoin.condition.places import Places
from slidejoin.errors import ConditionError

MAX_CHAIN = 200  # operators in one a + b + c ... chain; AND and OR may be longer
MAX_DEPTH = 100  # levels of operators and calls; the parser's own parentheses are limited by the guard
MAX_EXPONENT = 400  # 1e400 is beyond every double; more digits only burn memory

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip


def _words(text: str) -> list[str]:
    return text.split()


# Deterministic scalar functions only. Left out on purpose: random, now and their kin; repeat, lpad and rpad
# (one short call can ask for gigabytes); anything that reads settings, files or sequences.
_FUNCTION_CLASSES = _words("""
    Upper Lower Length Substring Trim Concat DPipe ConcatWs Replace Reverse Left Right StrPosition
    StartsWith EndsWith Contains Like ILike SimilarTo RegexpLike RegexpFullMatch RegexpReplace
    RegexpExtract Levenshtein Round Floor Ceil Trunc Sign Sqrt Cbrt Ln Log Exp Pow Sin Cos Tan Asin Acos
    Atan Atan2 Degrees Radians IntDiv BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Extract TimestampTrunc
    DateTrunc DateDiff TimestampDiff Year Month Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Hour
    Minute Second Quarter Week WeekOfYear LastDay TimeToStr StrToTime TimeToUnix UnixToTime MD5 SHA2
    Unicode Ascii Chr SplitPart IsNan IsInf Initcap JarowinklerSimilarity ByteLength Epoch EpochMs
    BitLength Translate Soundex
""")
_FUNCTIONS = tuple(getattr(exp, name) for name in _FUNCTION_CLASSES if hasattr(exp, name))
_NAMED = frozenset(
    _words("""
    jaccard jaro_similarity jaro_winkler_similarity hamming mismatches damerau_levenshtein ends_with
    suffix prefix contains epoch_ms epoch_us epoch_ns isfinite isinf isnan ltrim rtrim octet_length
    bit_length strlen strip_accents trunc even gcd lcm cot log2 log10 md5 sha256 ord unicode instr
    split_part regexp_full_match regexp_extract regexp_replace dayname monthname millisecond microsecond
    era century decade weekday yearweek isodow isoyear date_part datepart date_diff datediff date_sub
    datesub time_bucket translate reverse nfc_normalize format_bytes bit_count xor
""")
)
_CAST_TYPES = frozenset(
    _words("""
    TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE DECIMAL BOOLEAN
    VARCHAR TEXT CHAR NVARCHAR DATE TIME TIMESTAMP TIMESTAMPTZ TIMESTAMPNTZ TIMESTAMP_S TIMESTAMP_MS
    TIMESTAMP_NS DATETIME VARBINARY BINARY BLOB
""")
)
_MOMENTS = {
    "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp", "TIMESTAMPNTZ": "timestamp", "DATETIME": "timestamp",
    "TIMESTAMPTZ": "timestamptz", "TIMESTAMPLTZ": "timestamptz",
}  # fmt: skip
_SPANS: dict[str, int] = {
    "WEEK": 604_800_000_000_000, "DAY": 86_400_000_000_000, "HOUR": 3_600_000_000_000, "MINUTE": 60_000_000_000,
    "SECOND": 1_000_000_000, "MILLISECOND": 1_000_000, "MICROSECOND": 1_000, "NANOSECOND": 1,
}  # fmt: skip
_SPAN_ALIASES = {
    "W": "WEEK", "D": "DAY", "H": "HOUR", "HR": "HOUR", "M": "MINUTE", "MIN": "MINUTE", "S": "SECOND",
    "SEC": "SECOND", "MS": "MILLISECOND", "MSEC": "MILLISECOND", "US": "MICROSECOND", "USEC": "MICROSECOND",
    "NS": "NANOSECOND",
}  # fmt: skip
_SPAN_TEXT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")


def refusal(message: str, position: int) -> ConditionError:
    """The error to raise; ``{at}`` in the message becomes ``at position N``."""
    return ConditionError(message.replace("{at}", f"at position {position}"), position)


def parse_text(text: str, aliases: tuple[str, str]) -> Node:
    """Translate a condition, or raise ConditionError with the position of what is wrong."""
    guard.check(text)
    trees: list[Any]
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="duckdb") if tree is not None]
        if len(trees) != 1:
            raise refusal(
                f"condition holds {len(trees)} statements {{at}}; expected exactly one condition; "
                "join with AND instead of ';'",
                max(text.find(";"), 0),
            )
        return _Translator(text, aliases).node(trees[0])
    except ParseError as error:
        raise _unreadable(text, error.errors[0] if error.errors else {}) from error
    except SqlglotError as error:
        raise refusal(
            "condition cannot be split into words {at}; expected closed quotes and comments; "
            "close what opens there",
            guard.unclosed(text),
        ) from error
    except RecursionError:
        raise refusal(
            "condition nests too deeply {at}; expected a flatter one; remove redundant parentheses", 0
        ) from None  # a thousand frames of context help nobody


def _unreadable(text: str, detail: dict[str, Any]) -> ConditionError:
    position = _offset(text, detail)
    found = str(detail.get("highlight") or "").strip()
    if found:
        return refusal(
            f"condition cannot be read {{at}}, near {found[:40]!r}; expected an SQL condition; "
            "check operators, quotes and parentheses there",
            position,
        )
    return refusal(
        "condition ends too early {at}; expected the rest of an SQL condition; "
        "check operators, quotes and parentheses",
        position,
    )


def _offset(text: str, detail: dict[str, Any]) -> int:
    line, column = detail.get("line"), detail.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return 0
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    return min(len(text), max(0, start + column - len(str(detail.get("highlight") or ""))))


class _Translator:
    """Walks one sqlglot tree, in the order of the text."""

    def __init__(self, text: str, aliases: tuple[str, str]) -> None:
        self.text = text
        self.aliases = aliases
        self.places = Places(text)
        self.depth = 0

    def node(self, tree: exp.Expression) -> Node:
        while isinstance(tree, exp.Paren):
            tree = tree.this
        position = self.places.of(tree)
        if self.depth > MAX_DEPTH:
            raise refusal(
                "condition nests too deeply {at}; expected a flatter one; compute parts before the join",
                position,
            )
        self.depth += 1
        try:
            return self._translate(tree, position)
        finally:
            self.depth -= 1

    def _translate(self, tree: exp.Expression, position: int) -> Node:
        kind = type(tree)
        if kind in _COMPARISONS:
            return algebra.Compare(
                position, _COMPARISONS[kind], self.node(tree.this), self.node(tree.expression)
            )
        if kind in _ARITHMETIC:
            return self._chain(tree, position)
        rule = _RULES.get(kind)
        if rule is not None:
            translated: Node = getattr(self, rule)(tree, position)
            return translated
        if isinstance(tree, _FUNCTIONS) or (
            isinstance(tree, exp.Anonymous) and str(tree.this).lower() in _NAMED
        ):
            return self._call(tree, position)
        raise self._refusal(tree, position)

    def _connective(self, tree: exp.Expression, position: int) -> Node:
        parts = tuple(self.node(part) for part in _flatten(tree, type(tree)))
        return algebra.All(position, parts) if isinstance(tree, exp.And) else algebra.AnyOf(position, parts)

    def _negate(self, tree: exp.Expression, position: int) -> Node:
        return algebra.Negate(position, self.node(tree.this))

    def _not(self, tree: exp.Expression, position: int) -> Node:
        return algebra.Negation(position, self.node(tree.this))

    def _truth(self, tree: exp.Expression, position: int) -> Node:
        return algebra.Truth(position, bool(tree.this) if isinstance(tree, exp.Boolean) else None)

    def _absolute(self, tree: exp.Expression, position: int) -> Node:
        return algebra.Absolute(position, self.node(tree.this))

    def _distinct(self, tree: exp.Expression, position: int) -> Node:
        same = _same(position, self.node(tree.this), self.node(tree.expression))
        return same if isinstance(tree, exp.NullSafeEQ) else algebra.Negation(position, same)

    def _if(self, tree: exp.Expression, position: int) -> Node:
        otherwise = tree.args.get("false")
        last = self.node(otherwise) if otherwise else algebra.Truth(position, None)
        return algebra.Case(position, ((self.node(tree.this), self.node(tree.args["true"])),), last)

    def _coalesce(self, tree: exp.Expression, position: int) -> Node:
        parts = (self.node(tree.this), *(self.node(part) for part in tree.expressions))
        whens = tuple((algebra.Negation(p.position, algebra.IsNull(p.position, p)), p) for p in parts[:-1])
        return algebra.Case(position, whens, parts[-1]) if whens else parts[0]

    def _nullif(self, tree: exp.Expression, position: int) -> Node:
        first, second = self.node(tree.this), self.node(tree.expression)
        same = algebra.Compare(position, "=", first, second)
        return algebra.Case(position, ((same, algebra.Truth(position, None)),), first)

    def _extreme(self, tree: exp.Expression, position: int) -> Node:
        parts = (self.node(tree.this), *(self.node(part) for part in tree.expressions))
        return algebra.Extreme(position, isinstance(tree, exp.Greatest), parts)

    def _refusal(self, tree: exp.Expression, position: int) -> ConditionError:
        if isinstance(tree, exp.Star):
            return refusal(
                f"condition uses * {{at}}; expected a column such as {self.aliases[0]}.x; name the column",
                position,
            )
        if isinstance(tree, exp.Query | exp.Exists | exp.SubqueryPredicate) and tree.find(exp.Query):
            return refusal(
                "condition holds a subquery {at}; expected columns of the two streams only; "
                "push the other table as a stream or join it beforehand",
                position,
            )
        if isinstance(tree, exp.Placeholder | exp.Parameter):
            return refusal(
                "condition holds a parameter {at}; expected a literal; put the value into the text", position
            )
        if isinstance(tree, exp.AggFunc | exp.Window):
            return refusal(
                f"condition {'has a window function' if tree.key == 'window' else 'aggregates'} {{at}}; "
                "expected an expression of one pair of rows; compute it before or after the join",
                position,
            )
        called = re.match(r"\w+(?=\s*\()", self.text[position:])
        if isinstance(tree, exp.Func) and (called or not tree.args):
            name = f"{called[0]}()" if called else tree.sql_name().lower()
            return refusal(
                f"condition calls {name} {{at}}; expected a deterministic scalar function "
                "such as abs, round, lower or date_trunc; compute it before the join",
                position,
            )
        return refusal(
            f"condition holds {_shown(tree)} {{at}}; expected columns, literals, arithmetic, comparisons, "
            "AND, OR, NOT and scalar functions; rewrite that part, or compute it before the join",
            position,
        )

    def _chain(self, tree: exp.Expression, position: int) -> Node:
        steps: list[tuple[str, exp.Expression]] = []
        while True:
            while isinstance(tree, exp.Paren):
                tree = tree.this
            if type(tree) not in _ARITHMETIC:
                break
            steps.append((_ARITHMETIC[type(tree)], tree.expression))
            tree = tree.this
        if len(steps) > MAX_CHAIN:
            raise refusal(
                f"condition chains {len(steps)} operators {{at}}; expected at most {MAX_CHAIN}; "
                "compute the sum before the join",
                position,
            )
        result = self.node(tree)
        for operator, right in reversed(steps):
            result = algebra.Arithmetic(result.position, operator, result, self.node(right))
        return result

    def _column(self, tree: exp.Column, position: int) -> Node:
        name, table = tree.this, tree.args.get("table")
        if not isinstance(name, exp.Identifier):
            raise self._refusal(name, position)
        left, right = self.aliases
        if table is None:
            raise refusal(
                f"condition names column {name.this!r} without its stream {{at}}; expected {left}.{name.this} or "
                f"{right}.{name.this}; write the alias in front",
                position,
            )
        if tree.args.get("db") is not None:
            raise refusal(
                f"condition names {tree.sql()} {{at}}; expected alias.column with alias {left} or {right}; "
                "take fields out of a struct before the join",
                position,
            )
        for side, alias in enumerate(self.aliases):
            if table.this == alias or (not table.args.get("quoted") and table.this.lower() == alias.lower()):
                return algebra.Column(position, side, name.this, bool(name.args.get("quoted")))
        raise refusal(
            f"condition names stream {table.this!r} {{at}}; expected {left!r} or {right!r}; "
            f"did you mean {left}.{name.this} or {right}.{name.this}?",
            position,
        )

    def _literal(self, tree: exp.Literal, position: int) -> Node:
        if tree.is_string:
            return algebra.Text(position, str(tree.this))
        return algebra.Number(position, _number(str(tree.this), position))

    def _between(self, tree: exp.Between, position: int) -> Node:
        operand = self.node(tree.this)
        low = algebra.Compare(position, ">=", operand, self.node(tree.args["low"]))
        high = algebra.Compare(position, "<=", operand, self.node(tree.args["high"]))
        if tree.args.get("symmetric"):
            raise refusal(
                "condition uses BETWEEN SYMMETRIC {at}; expected BETWEEN; write least() and greatest()",
                position,
            )
        both = algebra.All(position, (low, high))
        return algebra.Negation(position, both) if tree.args.get("negate") else both

    def _member(self, tree: exp.In, position: int) -> Node:
        if tree.args.get("query") is not None or tree.args.get("unnest") is not None or not tree.expressions:
            raise refusal(
                "condition holds IN without a list of values {at}; expected IN (a, b, ...); "
                "name the values, or push another table as a stream",
                position,
            )
        member = algebra.Member(
            position, self.node(tree.this), tuple(self.node(part) for part in tree.expressions)
        )
        return algebra.Negation(position, member) if tree.args.get("negate") else member

    def _is(self, tree: exp.Is, position: int) -> Node:
        operand = self.node(tree.this)
        right = tree.expression
        present = algebra.Negation(position, algebra.IsNull(position, operand))
        if isinstance(right, exp.Null):
            result: Node = algebra.IsNull(position, operand)
        elif isinstance(right, exp.Boolean):
            value = operand if right.this else algebra.Negation(position, operand)
            result = algebra.All(position, (present, value))
        else:
            raise refusal(
                "condition uses IS with something else than NULL, TRUE or FALSE {at}; "
                "expected one of those; use = instead",
                position,
            )
        return algebra.Negation(position, result) if tree.args.get("negate") else result

    def _interval(self, tree: exp.Interval, position: int) -> Node:
        quantity, unit = tree.this, tree.args.get("unit")
        while isinstance(quantity, exp.Paren):
            quantity = quantity.this
        negative = isinstance(quantity, exp.Neg)
        if negative:
            quantity = quantity.this
        if not isinstance(quantity, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
            raise refusal(
                "condition builds an INTERVAL from an expression {at}; expected a literal such as "
                "INTERVAL '5 minutes'; multiply one: l.n * INTERVAL '1 second'",
                position,
            )
        text = str(quantity.this) + (f" {unit.this}" if unit is not None else "")
        total, end = Fraction(0), 0
        for match in _SPAN_TEXT.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            total += Fraction(match.group(1)) * self._span_unit(match.group(2), position)
        if end != len(text) or not text.strip():
            raise refusal(
                f"condition holds INTERVAL {text!r} {{at}}; expected a number and a unit; "
                "for example INTERVAL '5 minutes'",
                position,
            )
        return algebra.Span(position, -total if negative else total)

    def _span_unit(self, name: str, position: int) -> int:
        word = name.upper()
        word = _SPAN_ALIASES.get(word, word)
        word = word if word in _SPANS else word.removesuffix("S")
        word = _SPAN_ALIASES.get(word, word)
        if word in _SPANS:
            return _SPANS[word]
        if word in {"MONTH", "YEAR", "QUARTER", "DECADE", "CENTURY", "MON", "Y", "YR"}:
            raise refusal(
                f"condition holds an INTERVAL of {name.lower()} {{at}}; expected a fixed length (weeks to "
                "nanoseconds), as months and years differ in length; write days",
                position,
            )
        raise refusal(
            f"condition holds an INTERVAL with unit {name!r} {{at}}; expected weeks, days, hours, minutes, seconds, "
            "milliseconds, microseconds or nanoseconds; check the spelling",
            position,
        )

    def _cast(self, tree: exp.Cast, position: int) -> Node:
        target = tree.args["to"]
        kind = target.this.name if isinstance(target, exp.DataType) and hasattr(target.this, "name") else "?"
        if isinstance(tree.this, exp.Literal) and tree.this.is_string and kind in _MOMENTS:
            return algebra.Moment(position, _MOMENTS[kind], str(tree.this.this))
        if isinstance(tree.this, exp.Literal) and tree.this.is_string and kind == "INTERVAL":
            return self._interval(exp.Interval(this=tree.this), position)
        if kind not in _CAST_TYPES:
            raise refusal(
                f"condition casts to {target.sql(dialect='duckdb')} {{at}}; expected a plain type such as BIGINT, "
                "DOUBLE, DECIMAL(10, 2), VARCHAR, DATE or TIMESTAMP; cast before the join",
                position,
            )
        sql = target.sql(dialect="duckdb")
        return algebra.Call(position, f"cast {sql}", f"TRY_CAST({{0}} AS {sql})", (self.node(tree.this),))

    def _case(self, tree: exp.Case, position: int) -> Node:
        subject = self.node(tree.this) if tree.this is not None else None
        whens = []
        for branch in tree.args.get("ifs") or ():
            test = self.node(branch.this)
            if subject is not None:
                test = algebra.Compare(test.position, "=", subject, test)
            whens.append((test, self.node(branch.args["true"])))
        default = tree.args.get("default")
        otherwise = self.node(default) if default is not None else algebra.Truth(position, None)
        return algebra.Case(position, tuple(whens), otherwise)

    def _escape(self, tree: exp.Escape, position: int) -> Node:
        inner = self.node(tree.this)
        negated = isinstance(inner, algebra.Negation)
        call = inner.operand if isinstance(inner, algebra.Negation) else inner
        if not isinstance(call, algebra.Call) or call.name not in ("like", "ilike"):
            raise self._refusal(tree, position)
        holes = len(call.arguments)
        call = algebra.Call(
            position,
            call.name,
            f"{call.template} ESCAPE {{{holes}}}",
            (*call.arguments, self.node(tree.expression)),
        )
        return algebra.Negation(position, call) if negated else call

    def _call(self, tree: exp.Expression, position: int) -> Node:
        shape = type(tree)()
        arguments: list[Node] = []

        def hole(part: object) -> object:
            if not isinstance(part, exp.Expression):
                return part
            if isinstance(part, exp.DataType):
                return part.copy()
            if isinstance(part, exp.Var | exp.Identifier):
                if not re.fullmatch(r"[A-Za-z_]{1,32}", str(part.this)):
                    raise self._refusal(tree, position)
                return part.copy()
            arguments.append(self.node(part))
            return exp.column(f"__{len(arguments) - 1}__")

        negated = bool(tree.args.get("negate"))
        for key, value in tree.args.items():
            if key != "negate":
                shape.set(key, [hole(part) for part in value] if isinstance(value, list) else hole(value))
        template = shape.sql(dialect="duckdb").replace("{", "{{").replace("}", "}}")
        template = re.sub(r"__(\d+)__", r"{\1}", template)
        name = str(tree.this).lower() if isinstance(tree, exp.Anonymous) else type(tree).__name__.lower()
        call = algebra.Call(position, name, template, tuple(arguments))
        return algebra.Negation(position, call) if negated else call


_RULES: dict[type[exp.Expression], str] = {
    exp.And: "_connective", exp.Or: "_connective", exp.Neg: "_negate",
    exp.Not: "_not", exp.Column: "_column", exp.Literal: "_literal",
    exp.Boolean: "_truth", exp.Null: "_truth", exp.Abs: "_absolute",
    exp.Between: "_between", exp.In: "_member", exp.Is: "_is",
    exp.NullSafeEQ: "_distinct", exp.NullSafeNEQ: "_distinct",
    exp.Interval: "_interval", exp.Cast: "_cast", exp.TryCast: "_cast",
    exp.Case: "_case", exp.If: "_if", exp.Coalesce: "_coalesce",
    exp.Nullif: "_nullif", exp.Greatest: "_extreme", exp.Least: "_extreme",
    exp.Escape: "_escape",
}  # fmt: skip


def _flatten(tree: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain of ANDs or of ORs, left to right, without recursion."""
    stack, parts = [tree], []
    while stack:
        current = stack.pop()
        while isinstance(current, exp.Paren):
            current = current.this
        if type(current) is kind:
            stack.append(current.expression)
            stack.append(current.this)
        else:
            parts.append(current)
    return parts


def _same(position: int, left: Node, right: Node) -> Node:
    """``left IS NOT DISTINCT FROM right``, spelled so that it is never NULL."""
    nulls = (algebra.IsNull(position, left), algebra.IsNull(position, right))
    present = tuple(algebra.Negation(position, part) for part in nulls)
    equal = algebra.Compare(position, "=", left, right)
    return algebra.AnyOf(position, (algebra.All(position, (*present, equal)), algebra.All(position, nulls)))


def _shown(tree: exp.Expression) -> str:
    """A part as SQL, cut to what a message can hold."""
    sql = tree.sql(dialect="duckdb")
    return sql if len(sql) <= 60 else sql[:57] + "..."


def _number(text: str, position: int) -> Fraction:
    match = re.fullmatch(r"(\d*\.?\d*)(?:[eE]([+-]?\d+))?", text)
    if not match or not any(c.isdigit() for c in match.group(1)):
        raise refusal(
            f"condition holds the number {text[:40]!r} {{at}}; expected digits such as 12, 0.5 or 1e6; "
            "check the spelling",
            position,
        )
    exponent = match.group(2) or "0"
    if len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT or len(text) > 2 * MAX_EXPONENT:
        raise refusal(
            f"condition holds the number {text[:40]} {{at}}; expected at most {MAX_EXPONENT} digits; "
            "no column type holds such values",
            position,
        )
    if match.group(2) is not None and math.isfinite(float(text)):
        return Fraction(float(text))  # SQL reads digits with an exponent as a double
    return Fraction(text)
