"""generate_series in FROM: numbers or times as a relation of the columnar engine.

The call's syntax tree comes in; a subselect over the macro ``pg_series`` goes out.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.common import common_type
from herdpy_sql.columnar.scope import Col, Item, Rel, Scope
from herdpy_sql.columnar.typed import INTEGERS, Typed, duck_type
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, INTEGER, INTERVAL, TIMESTAMP, Base, SqlType


def bind_series(
    binder: Binder, node: Any, own: str | None, listed: list[str], scope: Scope, ordinality: bool = False
) -> Item:
    """generate_series under an alias, WITH ORDINALITY if asked; SqlError 42883 for other functions."""
    if not isinstance(node, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        if isinstance(node, exp.Dot):
            raise SqlError("0A000", f"names of other databases are not supported: {node.sql('postgres')}")
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
        raise SqlError(
            "42883" if isinstance(node, (exp.ReadCSV, exp.ReadParquet, exp.Anonymous)) else "0A000",
            f"function {name} does not exist",
        )
    start, end = binder.bind(node.args["start"], scope), binder.bind(node.args["end"], scope)
    step_node = node.args.get("step")
    step = binder.bind(step_node, scope) if step_node is not None else None
    alias = binder.alias()
    if any(x.base in (Base.DATE, Base.TIMESTAMP, Base.TIMESTAMPTZ) for x in (start, end)):
        type_ = TIMESTAMP if Base.TIMESTAMPTZ not in (start.base, end.base) else SqlType(Base.TIMESTAMPTZ)
        if all(x.base in (Base.DATE,) for x in (start, end)):
            type_ = SqlType(Base.TIMESTAMPTZ)
        start, end = casts.cast(binder, start, type_), casts.cast(binder, end, type_)
        if step is None:
            raise SqlError("42883", f"function generate_series({start.type}, {end.type}) does not exist")
        step = casts.coerce(binder, step, INTERVAL)
        array = type_
    else:
        parts = [start, end] + ([step] if step is not None else [])
        type_ = common_type(parts, "generate_series")
        if type_.base not in INTEGERS:
            if all(p.unknown for p in parts):
                type_ = INTEGER
            else:
                raise SqlError("0A000", f"generate_series over {type_} is not supported")
        parts = [casts.coerce(binder, p, type_) for p in parts]
        start, end = parts[0], parts[1]
        step = parts[2] if len(parts) > 2 else Typed("1", BIGINT)
        array = type_
    rel = Rel(own or "generate_series", alias, [])
    series = f"pg_series({start.sql}, {end.sql}, {step.sql})"
    items = f"CAST(unnest({series}) AS {duck_type(array)}) AS c0"
    first = listed[0] if listed else own or "generate_series"
    rel.columns = [Col(first, f"{alias}.c0", array, position=0, rel=rel)]
    if ordinality:
        items += f", CAST(generate_subscripts({series}, 1) AS BIGINT) AS c1"
        second = listed[1] if len(listed) > 1 else "ordinality"
        rel.columns.append(Col(second, f"{alias}.c1", BIGINT, position=1, rel=rel))
    inner = f"(SELECT {items}) AS {alias}"
    return Item(inner, [rel], list(rel.columns))
