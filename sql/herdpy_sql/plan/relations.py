"""Relations in memory in FROM of an own plan: the rows of stages before a statement, and unnest() of arrays.

``relation_of`` says what an item of FROM is in memory, ``access_to`` how a step reads it. Below ``steps``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.bind import nodes as q
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.execute.relations import RelationRows, RowsOf, rows_of_stage, unnested_rows
from herdpy_sql.expr import columns_used, compile_expr
from herdpy_sql.expr.compile import is_plain
from herdpy_sql.expr.nodes import SetOf, foreign_reason
from herdpy_sql.expr.scope import TableRelation
from herdpy_sql.given import given
from herdpy_sql.plan.access import AccessPath, PathReach, sargs_of
from herdpy_sql.plan.text import expr_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.given import Given


@dataclass(frozen=True)
class MemoryRelation:
    """A relation in memory: its columns as those of a table, what gives its rows, what EXPLAIN calls it."""

    item: TableRelation
    rows: RowsOf
    title: str


def relation_of(item: q.Item, stages: Mapping[str, Given]) -> MemoryRelation | None:
    """What an item of FROM is in memory; None: it is not, or own plans do not make its rows."""
    if isinstance(item, q.TableScan):
        if not any(item.table is one.table for one in stages.values()):
            return None
        return MemoryRelation(item.relation, rows_of_stage(item.table.id), f"CTE Scan on {item.table.name}")
    return _unnested(item) if isinstance(item, q.Rows) else None


def _unnested(item: q.Rows) -> MemoryRelation | None:
    """unnest() of arrays that depend on no other item."""
    arrays: list[Expr] = []
    for call in item.calls:
        if not isinstance(call.expr, SetOf) or call.expr.name != "unnest":
            return None
        arrays += call.expr.args
    if any(foreign_reason(one) or any(columns_used(one)) for one in arrays):
        return None
    relation = item.relation
    columns = [OutputColumn(name, expr.type) for name, expr in relation.columns]
    made = TableRelation(
        relation.name,
        relation.base,
        relation.width,
        relation.select,
        list(relation.named),
        table=given(0, relation.name, columns, ()).table,
    )
    rows = unnested_rows([compile_expr(one) for one in arrays], numbered=item.numbered)
    return MemoryRelation(made, rows, f"Function Scan on {relation.name}")


def access_to(
    relation: MemoryRelation,
    conditions: Sequence[Expr],
    known: Callable[[int], bool],
    renumber: Callable[[Expr], Expr],
) -> AccessPath:
    """How a relation is read: by the values that its columns equal, or all of it."""
    item, equals, texts, used = relation.item, [], [], set()
    for sarg in sargs_of(item, conditions, known):
        value = sarg.values[0]
        types = (value.type, item.table.columns[sarg.position].type)
        if sarg.op != "=" or not all(is_plain(one.base) for one in types):
            continue
        equals.append((sarg.position, compile_expr(renumber(value))))
        texts.append(expr_text(conditions[sarg.number], qualified=True))
        used.add(sarg.number)
    source = RelationRows(item.table, relation.rows, relation.title, tuple(equals), " AND ".join(texts))
    reach = PathReach.SOME if equals else PathReach.ALL
    return AccessPath(source, reach, frozenset(used), bound=2 * len(equals))
