"""LIMIT, OFFSET and FETCH FIRST, WITH TIES too: how many of a query's rows there are.

The clauses' syntax comes in; a ``Limit`` goes out, which finishes the text of the query that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.scope import Scope
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, Base


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound counts as DuckDB text, each empty where the clause is not there.

    Attributes:
        ties: rows that sort as the last one come, too.
    """

    count: str = ""
    offset: str = ""
    ties: bool = False

    @property
    def text(self) -> str:
        """What follows ORDER BY."""
        out = f" LIMIT {self.count}" if self.count and not self.ties else ""
        return out + (f" OFFSET {self.offset}" if self.offset else "")

    def tied(self, keys: Sequence[str]) -> str:
        """The condition that keeps the rows WITH TIES, for QUALIFY; ``keys`` are the items of ORDER BY.

        Raises SqlError 42601 without an order.
        """
        if not self.ties:
            return ""
        if not keys:
            raise SqlError("42601", "WITH TIES cannot be specified without ORDER BY clause")
        last = f"{self.offset} + {self.count}" if self.offset else self.count
        return f" QUALIFY {self.count} > 0 AND rank() OVER (ORDER BY {', '.join(keys)}) <= {last}"


def bind_limit(binder: Binder, node: Any, scope: Scope) -> Limit:
    """The clauses of a query; SqlError 2201W or 2201X for negative constants."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count, ties = "", False
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise SqlError("0A000", "FETCH FIRST ... PERCENT is not supported")
        ties = options is not None and bool(options.args.get("with_ties"))
        count = _rows(binder, limit.args.get("count") or exp.Literal.number(1), scope, "LIMIT")
    elif limit is not None:
        count = _rows(binder, limit.expression, scope, "LIMIT")
    skipped = _rows(binder, offset.expression, scope, "OFFSET") if offset is not None else ""
    return Limit(count, skipped, ties and bool(count))


def _rows(binder: Binder, node: Any, scope: Scope, word: str) -> str:
    if isinstance(node, (exp.Column, exp.Var)) and node.name.lower() == "all":
        return ""
    inner = Scope(scope.number, None)
    x = binder.bind(node, inner)
    if x.null:
        return ""
    if x.literal is not None and not x.unknown:
        if x.literal.startswith("-"):
            state = "2201W" if word == "LIMIT" else "2201X"
            raise SqlError(state, f"{word} must not be negative")
        return x.literal
    if x.base in (Base.NUMERIC, Base.REAL, Base.DOUBLE):
        x = casts.cast(binder, x, BIGINT)
    x = casts.coerce(binder, x, BIGINT)
    return f"(SELECT pg_{word.lower()}_rows({x.sql}))"
