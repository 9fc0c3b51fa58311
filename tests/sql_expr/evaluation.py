"""Evaluating SQL text with the expression layer alone, for the tests of this area."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import sqlglot

from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import Params, Scope, bind, compile_expr, settle, sql_type
from herdpy_sql.expr.nodes import Expr, foreign_reason
from herdpy_sql.parse.parser import HerdPostgres
from herdpy_sql.types import SqlType
from herdpy_sql.values import from_text, to_text

CLOCK = Clock(1_700_000_000_000_000, 1_700_000_001_000_000)


class Columns(Scope):
    """A scope of named, typed columns; rows are in the order of the names."""

    def __init__(self, types: dict[str, SqlType] | None = None) -> None:
        super().__init__()
        columns = self.listed("", [(name, one, None) for name, one in (types or {}).items()])
        self.add([columns])
        self.star.append(columns)


def parse(text: str) -> Any:
    """The node of one expression."""
    return sqlglot.parse_one("SELECT " + text, dialect=HerdPostgres).expressions[0]


def type_named(name: str) -> SqlType:
    """The type that a cast to ``name`` has."""
    return sql_type(parse(f"cast(null as {name})").args["to"])


def bound(text: str, columns: Columns | None = None, params: Params | None = None) -> Expr:
    """The typed tree of one expression, as a select list has it."""
    params = Params() if params is None else params
    return settle(bind(parse(text), columns or Columns(), params), params)


def answer(
    text: str, columns: Columns | None = None, row: Sequence[Any] = (), clock: Clock = CLOCK
) -> tuple[str, str | None]:
    """(type, text of the value), ("error", SQLSTATE) or ("not own", reason)."""
    try:
        expr = bound(text, columns)
        if reason := foreign_reason(expr):
            return "not own", reason
        value = compile_expr(expr)(tuple(row), (), clock)
        return str(SqlType(expr.type.base)), None if value is None else to_text(expr.type)(value)
    except SqlError as error:
        return "error", error.sqlstate


def datums(types: dict[str, SqlType], texts: dict[str, str | None]) -> tuple[Any, ...]:
    """A row of datums from the texts of its values."""
    return tuple(None if texts[name] is None else from_text(one)(texts[name]) for name, one in types.items())


assert sys.getrecursionlimit() >= 1000
