"""ORDER BY of the columnar engine: what any query may be sorted by.

Nodes of the syntax tree come in; places in the select list and DuckDB text go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from herdpy_sql.columnar.operators import order_key
from herdpy_sql.columnar.typed import Typed
from herdpy_sql.columnar.typenames import name_of
from herdpy_sql.errors import SqlError


def column_key(alias: str, i: int, column: Typed) -> str:
    """What sorts and groups as column ``i`` of the query called ``alias``."""
    return order_key(replace(column, sql=f"{alias}.c{i}"))


def direction_of(ordered: Any) -> str:
    """An ORDER BY item's direction, NULLs written out: they are last unless DESC or told."""
    desc = bool(ordered.args.get("desc"))
    first = ordered.args.get("nulls_first")
    first = desc if first is None else bool(first)
    return f"{' DESC' if desc else ''} NULLS {'FIRST' if first else 'LAST'}"


def output_place(node: Any, outs: Sequence[Typed], clause: str) -> int | None:
    """The output column that an ordinal or a bare name in ORDER BY or GROUP BY means."""
    if isinstance(node, exp.Literal):
        if node.is_string or not str(node.this).isdigit():
            raise SqlError("42601", f"non-integer constant in {clause}")
        place = int(node.this)
        if not 1 <= place <= len(outs):
            raise SqlError("42P10", f"{clause} position {place} is not in select list")
        return place - 1
    if isinstance(node, exp.Column) and not node.args.get("table") and not isinstance(node.this, exp.Star):
        name = name_of(node.this)
        matches = [i for i, out in enumerate(outs) if out.name == name]
        if len({outs[i].sql for i in matches}) > 1:
            raise SqlError("42702", f'{clause} "{name}" is ambiguous')
        if matches:
            return matches[0]
    return None
