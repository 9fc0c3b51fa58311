"""Columns that PostgreSQL has in every relation: tableoid, which says of which one a row is, and xmin.

Rows of the catalog have no versions of their own, so ``xmin`` and its relatives are constants: whoever
remembers them to ask for what has changed since is shown everything again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.catalog import Table
from herdpy_sql.system.definitions import table_oid
from herdpy_sql.system.rewriter import folded
from herdpy_sql.system_relations import find_relation, relations

if TYPE_CHECKING:
    from herdpy_sql.system.rewriter import Rewriter

_VERSIONS = {"xmin": 2, "xmax": 0, "cmin": 0, "cmax": 0}
"""2 is the number that rows have in PostgreSQL which are older than all transactions."""


def system_column(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """What such a column becomes; None for other columns."""
    name = node.name.lower()
    if name in _VERSIONS:
        return exp.cast(exp.Literal.number(_VERSIONS[name]), "BIGINT")
    if name == "tableoid":
        return exp.cast(exp.Literal.number(_relation_oid(rewriter, node)), "BIGINT")
    return None


def _relation_oid(rewriter: Rewriter, node: Any) -> int:
    """The id of the relation that a column is one of; 0 of what is a query's."""
    wanted = folded(node.args["table"]) if node.args.get("table") else None
    for select in _around(node):
        tables = [one for one in _sources(select) if isinstance(one, exp.Table)]
        for table in tables:
            if wanted is None and len(tables) == 1:
                return _oid(rewriter, table)
            if wanted is not None and table.alias_or_name.lower().rpartition(".")[2] == wanted.lower():
                return _oid(rewriter, table)
    return 0


def _around(node: Any) -> Iterator[exp.Select]:
    select = node.parent_select
    while select is not None:
        yield select
        select = select.parent_select


def _sources(select: exp.Select) -> Iterator[Any]:
    given = select.args.get("from_") or select.args.get("from")
    if given is not None:
        yield given.this
    for join in select.args.get("joins") or ():
        yield join.this


def _oid(rewriter: Rewriter, table: exp.Table) -> int:
    """Of a relation as it stands in a text, whether it has been rewritten already or not."""
    schema = folded(table.args["db"]) if table.args.get("db") else None
    name = folded(table.this) if isinstance(table.this, exp.Identifier) else ""
    if schema is None and "." in name:  # rewritten
        schema, _, name = name.partition(".")
    own = rewriter.catalog.find(schema, name)
    if isinstance(own, Table):
        return table_oid(own)
    found = relations().get((schema, name)) if schema else find_relation(None, name)
    return 0 if found is None else found.oid
