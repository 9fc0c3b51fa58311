"""CREATE TABLE AS and SELECT INTO: a table with the columns of a query, and its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import HIDDEN_KEY, Column, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Outcome, Plan
from herdpy_sql.execute.define import CreateTablePlan
from herdpy_sql.execute.insert import InsertSelectPlan
from herdpy_sql.execute.row_makers import FromQuery
from herdpy_sql.expr import compile_expr
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.plan.names import new_name, on_commit
from herdpy_sql.plan.remarks import skips, with_remarks
from herdpy_sql.plan.rules import rules_of
from herdpy_sql.plan.scope import name_of
from herdpy_sql.types import BIGINT, TEXT, Base

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import OutputColumn, Row
    from herdpy_sql.storage import Clock, View

_KNOWN = {"this", "kind", "exists", "properties", "expression", "on_commit"}


class CreateTableAsPlan(Plan):
    """CREATE TABLE AS; ``table`` has no ids yet. The count is that of the query's rows."""

    tag = "SELECT"

    def __init__(self, table: Table, query: Plan, *, if_not_exists: bool, with_data: bool) -> None:
        self.table = table
        self.query = query
        self.source = query.source
        self.param_types = query.param_types
        self.engine = query.engine
        self.if_not_exists = if_not_exists
        self.with_data = with_data
        if not with_data:
            self.tag = "CREATE TABLE AS"

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        table = self.table
        there = (table.schema, table.name) in view.catalog.relations
        CreateTablePlan(table, if_not_exists=self.if_not_exists).run(view, params, clock)
        if there or not self.with_data:
            return Outcome(None, 0)
        made = view.catalog.relations[table.schema, table.name]
        assert isinstance(made, Table)
        compute = [
            compile_expr(ColumnRef(column.type, i, column.name)) if not column.hidden else _null
            for i, column in enumerate(made.columns)
        ]
        convert = FromQuery(tuple(compute), len(compute) - 1, rules_of(made))
        return InsertSelectPlan(made, self.query, convert).run(view, params, clock, source)

    def explain(self) -> list[str]:
        first, *rest = self.query.explain()
        return [f"Create Table {self.table.name}", f"  -> {first}", *(f"     {line}" for line in rest)]


def _null(row: object, params: object, clock: object) -> None:
    del row, params, clock


def create_table_as(tree: exp.Create, catalog: Catalog, planned: Callable[[exp.Expression], Plan]) -> Plan:
    """The plan of CREATE TABLE ... AS query."""
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            raise SqlError("0A000", f"CREATE TABLE AS: {key.upper()} is not supported")
    listed: list[str] = []
    target = tree.this
    if isinstance(target, exp.Schema):
        if any(isinstance(one, exp.ColumnDef) and one.args.get("kind") for one in target.expressions):
            raise SqlError("42601", 'syntax error at or near "AS"')
        listed = [name_of(one.this if isinstance(one, exp.ColumnDef) else one) for one in target.expressions]
        target = target.this
    properties = tree.args.get("properties")
    given = properties.expressions if properties is not None else []
    data = [one for one in given if isinstance(one, exp.WithDataProperty)]
    temporary = any(isinstance(one, exp.TemporaryProperty) for one in given)
    schema, name = new_name(target, catalog, temporary=temporary)
    query = planned(tree.expression.unnest())
    with_data = not (data and data[0].args.get("no"))
    table = replace(
        _table(schema, name, query.columns or (), listed), on_commit=on_commit(tree, temporary=temporary)
    )
    found = CreateTableAsPlan(table, query, if_not_exists=bool(tree.args.get("exists")), with_data=with_data)
    skipped = skips(found, catalog)
    if skipped:
        found.tag = "CREATE TABLE AS"
    return with_remarks(found, skipped)


def select_into(tree: exp.Select, catalog: Catalog, planned: Callable[[exp.Expression], Plan]) -> Plan:
    """The plan of SELECT ... INTO table."""
    into = tree.args["into"]
    tree.set("into", None)
    schema, name = new_name(into.this, catalog, temporary=bool(into.args.get("temporary")))
    query = planned(tree)
    return CreateTableAsPlan(
        _table(schema, name, query.columns or (), []), query, if_not_exists=False, with_data=True
    )


def _table(schema: str, name: str, found: tuple[OutputColumn, ...], listed: list[str]) -> Table:
    if len(listed) > len(found):
        raise SqlError("42601", "too many column names were specified")
    names = [*listed, *(column.name for column in found[len(listed) :])]
    for i, one in enumerate(names):
        if one in names[:i]:
            raise SqlError("42701", f'column "{one}" specified more than once', column=one)
    columns = [
        Column(one, TEXT if column.type.base is Base.UNKNOWN else column.type)
        for one, column in zip(names, found, strict=True)
    ]
    columns.append(Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True))
    return Table(
        id=0,
        name=name,
        columns=tuple(columns),
        key=(KeyPart(len(columns) - 1),),
        key_name=f"{name}_pkey",
        schema=schema,
    )
