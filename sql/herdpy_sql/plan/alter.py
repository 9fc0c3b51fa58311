"""ALTER TABLE ... ADD PRIMARY KEY or UNIQUE, REPLICA IDENTITY, VACUUM and ANALYZE: commands to plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy.codec.kinds import Kind
from herdpy_sql.catalog import Index, KeyPart
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter import AddKeyPlan, AddUniquePlan, IdentityPlan
from herdpy_sql.execute.base import Outcome
from herdpy_sql.execute.base import Plan as BasePlan
from herdpy_sql.execute.define import duplicate
from herdpy_sql.plan.commands import Vacuum
from herdpy_sql.plan.names import FreshNames, checked_name
from herdpy_sql.plan.scope import find_table

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan, Row
    from herdpy_sql.parse import Command
    from herdpy_sql.storage import Clock, View

COMMANDS = frozenset({"ALTER TABLE", "VACUUM", "ANALYZE"})


def plan(command: Command, catalog: Catalog) -> Plan:
    """The plan of a command in COMMANDS. SqlError 42P01, 42703, 42P16, 42P07."""
    if command.name != "ALTER TABLE":
        for schema, name in command.names:
            find_table(catalog, schema, name)
        return Vacuum(command.name)
    return _alter(command, catalog)


def _alter(command: Command, catalog: Catalog) -> Plan:
    (schema, name), *listed = command.names
    try:
        table = find_table(catalog, schema, name)
    except SqlError as error:
        if error.sqlstate == "42P01" and "IF EXISTS" in command.options:
            return NothingToAlter()
        raise
    kind = command.options[0]
    if kind.startswith("REPLICA IDENTITY"):
        return IdentityPlan(table, full=kind.endswith("FULL"))
    columns = [column for _, column in listed]
    positions = _positions(table, columns)
    names = FreshNames(table.name, catalog)
    primary = kind == "PRIMARY KEY"
    if command.argument:
        label = checked_name(command.argument)
        if label in names.taken - {table.key_name if table.has_hidden_key else ""}:
            raise duplicate(label)
    elif primary:
        names.taken.discard(table.key_name if table.has_hidden_key else "")
        label = names.new([], "pkey")
    else:
        label = names.new(columns, "key")
    parts = tuple(KeyPart(position) for position in positions)
    if not primary:
        return AddUniquePlan(table, Index(0, label, table.id, parts, unique=True, constraint=True))
    if not table.has_hidden_key:
        raise SqlError("42P16", f'multiple primary keys for table "{table.name}" are not allowed')
    return AddKeyPlan(table, parts, label)


def _positions(table: Table, columns: list[str]) -> list[int]:
    found = []
    for i, column in enumerate(columns):
        position = table.positions.get(column)
        if position is None or table.columns[position].hidden:
            raise SqlError("42703", f'column "{column}" named in key does not exist', column=column)
        if column in columns[:i]:
            raise SqlError("42701", f'column "{column}" appears twice in a key constraint', column=column)
        if table.columns[position].type.kind is Kind.JSON:
            raise SqlError(
                "42704",
                "data type json has no default operator class for an index",
                column=column,
                datatype="json",
            )
        found.append(position)
    return found


class NothingToAlter(BasePlan):
    """ALTER TABLE IF EXISTS of a table that does not."""

    tag = "ALTER TABLE"

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        return Outcome(None, 0)
