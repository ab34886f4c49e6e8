"""Conditions: SQL text in, access paths and predicates out.

    text -> guard -> parse -> algebra -> bind -> typed -> normalise -> branch -> paths, predicate

``parse`` needs no schema; ``Condition.bind`` needs both. What can be indexed is found here and nowhere else.
Files in reading order: guard, parse, algebra; types, bind, typed; evaluate, columns, sql_engine; normalise,
branch, paths, access, floats, ordinals.

    >>> import pyarrow as pa
    >>> schema = pa.schema({"x": pa.int64()})
    >>> bound = parse("abs(l.x - r.x) <= 10").bind(schema, schema)
    >>> bound.branches[0].paths(1)[0].bounds_text
    'l.x - 10 <= r.x <= l.x + 10'
"""

from __future__ import annotations

from slidejoin.condition.access import Keys
from slidejoin.condition.branch import BoundCondition, Branch
from slidejoin.condition.condition import Condition, parse
from slidejoin.condition.paths import AccessPath, EqualityPath, Intervals, JointPath
from slidejoin.condition.predicate import Predicate
from slidejoin.condition.watch import Ends, Watch

__all__ = [
    "AccessPath",
    "BoundCondition",
    "Branch",
    "Condition",
    "Ends",
    "EqualityPath",
    "Intervals",
    "JointPath",
    "Keys",
    "Predicate",
    "Watch",
    "parse",
]
