"""Statements that read a moment of the past: AS OF SYSTEM TIME.

The query of such a statement is planned with the definitions of that moment (``Catalog.past``), what it
writes to with the present ones. The plan says so (``Plan.reads_past``); whoever runs it has the rows of that
moment. What cannot be read or done so is refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.plan.sequences import takes_from_sequences
from herdpy_sql.plan.writable import CHANGES, changes_data

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan


def past_of(catalog: Catalog) -> Catalog:
    """The definitions of the moment. SqlError 0A000 where whoever plans does not know of any."""
    if catalog.past is None:
        raise SqlError("0A000", "AS OF SYSTEM TIME is not supported here")
    return catalog.past


def check(tree: exp.Expression) -> None:
    """SqlError 0A000 or 25006 for a statement with AS OF SYSTEM TIME that does more than to read by it."""
    if isinstance(tree, exp.Update | exp.Delete | exp.Merge) or changes_data(tree):
        raise SqlError("25006", "rows of the past cannot be changed: AS OF SYSTEM TIME only reads")
    if not isinstance(tree, exp.Query | exp.Insert | exp.Create):
        raise SqlError("0A000", "AS OF SYSTEM TIME is not supported here")
    query = tree if isinstance(tree, exp.Query) else tree.args.get("expression")
    if not isinstance(query, exp.Query):
        raise SqlError("0A000", "AS OF SYSTEM TIME is part of a query")
    if query.find(*CHANGES) is not None:
        raise SqlError("25006", "rows of the past cannot be changed: AS OF SYSTEM TIME only reads")
    if query.find(exp.Lock) is not None:
        raise SqlError("0A000", "FOR UPDATE and FOR SHARE are not allowed with AS OF SYSTEM TIME")
    if takes_from_sequences(tree):
        raise SqlError("25006", "a query AS OF SYSTEM TIME cannot call nextval, setval, currval or pg_notify")
    for name in ("conflict", "returning"):
        part = tree.args.get(name)
        if part is not None and part.find(exp.Query) is not None:
            raise SqlError("0A000", f"a query in {name.upper()} does not go with AS OF SYSTEM TIME")


def asking_first(plan: Plan) -> Plan:
    """The plan of a query whose rows a statement of the present takes. SqlError 0A000 if the
    columnar engine does not give them."""
    if plan.source is None:
        raise SqlError(
            "0A000", "INSERT and CREATE TABLE AS cannot take the rows of this query AS OF SYSTEM TIME"
        )
    return plan


def of_the_past(plan: Plan) -> Plan:
    """The plan, which reads the past: no short way is for it."""
    plan.reads_past, plan.brief = True, False
    return plan
