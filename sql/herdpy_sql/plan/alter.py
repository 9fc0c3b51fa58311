"""ALTER INDEX, REINDEX, VACUUM and ANALYZE: commands to plans; ALTER TABLE is ``alter_table``'s."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.catalog import Index
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.alter_table import AlterNothing, ReindexPlan, RenameIndexPlan
from herdpy_sql.execute.define import duplicate
from herdpy_sql.plan.alter_table import plan_alter
from herdpy_sql.plan.analyze import AnalyzePlan
from herdpy_sql.plan.commands import Vacuum
from herdpy_sql.plan.names import checked_name
from herdpy_sql.plan.remarks import absent_relation, with_remarks
from herdpy_sql.plan.scope import find_table

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse import Command

COMMANDS = frozenset({"ALTER TABLE", "ALTER INDEX", "REINDEX", "VACUUM", "ANALYZE"})


def plan(command: Command, catalog: Catalog) -> Plan:
    """The plan of a command in COMMANDS. SqlError 42P01, 42703, 42P16, 42P07 and others."""
    if command.name == "ALTER TABLE":
        return plan_alter(command, catalog)
    if command.name == "ALTER INDEX":
        return _alter_index(command, catalog)
    if command.name == "REINDEX":
        return _reindex(command, catalog)
    tables = [find_table(catalog, schema, name) for schema, name in command.names]
    if command.name == "VACUUM" and not {"ANALYZE", "ANALYSE"} & set(command.options):
        return Vacuum(command.name)
    chosen = tables or sorted(_own(catalog), key=lambda table: table.id)
    return Vacuum(command.name, tuple(map(AnalyzePlan, chosen)))


def _own(catalog: Catalog) -> list[Table]:
    """The tables that are no other session's."""
    return [table for table in catalog.tables.values() if not catalog.is_others(table.schema)]


def _alter_index(command: Command, catalog: Catalog) -> Plan:
    (named,) = command.names
    try:
        table, index = _find_index(catalog, *named)
    except SqlError as error:
        if error.sqlstate == "42P01" and "IF EXISTS" in command.options:
            return with_remarks(AlterNothing("ALTER INDEX"), [absent_relation(catalog, "relation", *named)])
        raise
    if not command.argument:
        return AlterNothing("ALTER INDEX")
    name = checked_name(command.argument)
    if catalog.is_taken(table.schema, name):
        raise duplicate(name)
    if index is None:
        return RenameIndexPlan(table, replace(table, key_name=name), name)
    indexes = tuple(replace(one, name=name) if one is index else one for one in table.indexes)
    return RenameIndexPlan(table, replace(table, indexes=indexes), name)


def _find_index(catalog: Catalog, schema: str | None, name: str) -> tuple[Table, Index | None]:
    """An index and its table; None for the index that is the table's key."""
    index = catalog.find(schema, name)
    if isinstance(index, Index):
        return catalog.tables[index.table_id], index
    owner = catalog.table_of_key(schema, name)
    if owner is not None:
        return owner, None
    raise SqlError("42P01", f'relation "{name}" does not exist')


def _reindex(command: Command, catalog: Catalog) -> Plan:
    if command.argument == "INDEX":
        (named,) = command.names
        table, index = _find_index(catalog, *named)
        return ReindexPlan(((table, index),) if index is not None else ())
    if command.argument == "TABLE":
        (named,) = command.names
        tables = [find_table(catalog, *named)]
    else:
        wanted = command.names[0][1] if command.argument == "SCHEMA" else None
        tables = [one for one in _own(catalog) if wanted is None or one.schema == wanted]
    return ReindexPlan(tuple((table, index) for table in tables for index in table.indexes))
