"""What one join on Spark was asked for, as text that tasks can read.

Design      the driver checks everything once and writes it down as JSON; packers and workers read it
            back and keep what follows from it (bound condition, time scale, router) for the life of their
            process. The same text, less what may change freely, is the fingerprint in the state: a
            checkpoint of another join is refused by comparing the two, field by field.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from slidejoin.condition import BoundCondition, parse
from slidejoin.errors import SchemaError
from slidejoin.intake import gatherable
from slidejoin.matches import Output
from slidejoin.plan import require
from slidejoin.settings import Settings
from slidejoin.spark.route import Router, router_of
from slidejoin.window.spec import SIDES, Rows, Time, column_of
from slidejoin.window.timeline import Timeline

HOME = ("__slidejoin_home_l", "__slidejoin_home_r")  # hidden columns of full joins
LATE = "late"  # the column that late="keep" adds
UNSTATED = {"spread": 1}  # what a fingerprint means that does not say: the option is younger than checkpoints


@dataclass(frozen=True, eq=False)
class Query:
    """A join on Spark: settings, both schemas, how rows find workers, and the cache's budget."""

    settings: Settings
    schemas: tuple[pa.Schema, pa.Schema]
    workers: int
    routing: str  # never "auto" once the driver has decided
    budget: int  # bytes that a process may hold in caches
    spread: int = 1  # workers that share a key or a cell

    def text(self) -> str:
        """All of it, as JSON."""
        return json.dumps(
            {
                "settings": self.settings.to_json(),
                "schemas": [base64.b64encode(schema.serialize()).decode() for schema in self.schemas],
                "workers": self.workers,
                "routing": self.routing,
                "budget": self.budget,
                "spread": self.spread,
            }
        )

    @staticmethod
    @lru_cache(maxsize=64)
    def read(text: str) -> Query:
        """The query of a text; the same object for the same text, so that a process derives things once."""
        stored = json.loads(text)
        left, right = (
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))) for schema in stored["schemas"]
        )
        # A task has one core of Spark's; more threads would take those of other tasks.
        settings = replace(Settings.from_json(stored["settings"]), threads=1)
        return Query(
            settings, (left, right), stored["workers"], stored["routing"], stored["budget"], stored["spread"]
        )

    # -- what follows from it --------------------------------------------------------------------------

    @cached_property
    def bound(self) -> BoundCondition:
        """The condition with its columns' types."""
        return parse(self.settings.condition, self.settings.aliases).bind(*self.schemas)

    @cached_property
    def timeline(self) -> Timeline | None:
        """The common scale of event times; None for count windows."""
        left, right = self.settings.windows
        if not isinstance(left, Time) or not isinstance(right, Time):
            return None
        return Timeline.build((left, right), list(self.schemas), self.settings.lateness)

    @cached_property
    def router(self) -> Router:
        return router_of(self.routing, self.bound, self.settings, self.schemas, self.workers, self.spread)

    @property
    def flagged(self) -> bool:
        """Whether rows carry a hidden mark that says where they are at home.

        A full join may hold a row at several workers; only its home speaks for it.
        """
        copied = self.spread > 1 or self.routing != "hash"
        return self.settings.how == "full" and copied and self.workers > 1

    def held(self, side: int) -> pa.Schema:
        """The columns that a worker holds."""
        schema = self.schemas[side]
        return schema.append(pa.field(HOME[side], pa.bool_())) if self.flagged else schema

    @cached_property
    def keeps_late(self) -> bool:
        return self.settings.timed and self.settings.late == "keep"

    @cached_property
    def result(self) -> pa.Schema:
        """The columns that come out, ``late`` among them where late rows are kept."""
        schema = Output(*self.schemas, self.settings.how, self.settings.suffixes).schema
        if not self.keeps_late:
            return schema
        if LATE in schema.names:
            raise SchemaError(
                f"the result already has a column {LATE!r}, which late='keep' would add; expected none; rename it "
                "before the join"
            )
        # A late row has nothing on the other side, whatever the input promised.
        return pa.schema([field.with_nullable(True) for field in schema]).append(
            pa.field(LATE, pa.bool_(), nullable=False)
        )

    def time_column(self, side: int) -> str:
        """The event-time column of one side."""
        assert self.timeline is not None
        column = self.timeline.columns[side]
        assert column is not None
        return column.name

    def check(self) -> None:
        """Everything that can be found wrong before a row is read."""
        for side, schema in enumerate(self.schemas):
            window = self.settings.windows[side]
            name = column_of(window.on, side) if isinstance(window, Time) else None
            if isinstance(window, Rows) and window.by is not None:
                name = column_of(window.by, side)
            if name is not None and name not in schema.names:
                role = "for the event time" if isinstance(window, Time) else "to order by"
                raise SchemaError(
                    f"the {SIDES[side]} DataFrame has no column {name!r} {role}; expected one of {schema.names}; "
                    f"set {'Time(..., on=...)' if isinstance(window, Time) else 'Rows(..., by=...)'} to one of them"
                )
            gatherable(schema, side)
            taken = [name for name in schema.names if name in HOME]
            if taken:
                raise SchemaError(
                    f"the {SIDES[side]} column {taken[0]!r} has a name of slidejoin's own; expected another; rename it"
                )
        require(self.bound, self.settings.index)
        assert self.result is not None
        assert self.timeline is not None or not self.settings.timed

    # -- what state must agree with --------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must have been written with."""
        stored = self.settings.to_json()
        kept = {name: stored[name] for name in ("condition", "how", "windows", "lateness", "late", "aliases")}
        columns = {
            f"{name} columns": [f"{field.name}: {field.type}" for field in schema]
            for name, schema in zip(SIDES, self.schemas, strict=True)
        }
        routed = {"routing": self.routing, "partitions": self.workers, "spread": self.spread}
        stated = kept | columns | routed
        return {name: value for name, value in stated.items() if (name, value) not in UNSTATED.items()}
