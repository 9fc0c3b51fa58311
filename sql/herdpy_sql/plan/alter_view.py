"""ALTER VIEW: another name, for itself or for a column, or another schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import duplicate
from herdpy_sql.execute.objects import DefinePlan
from herdpy_sql.objects import ViewDefinition
from herdpy_sql.plan.namespace import checked_name, object_of, target_schema
from herdpy_sql.plan.remarks import absent_relation, with_remarks
from herdpy_sql.plan.view_renames import renamed_views

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.parse.object_commands import ObjectCommand
    from herdpy_sql.storage import View


def alter_view(command: ObjectCommand, catalog: Catalog) -> Plan:
    """The plan of ALTER VIEW. SqlError 42P01, 42703, 42701, 42P07."""
    ((schema, name),) = command.names
    one = object_of(catalog, "view", schema, name)
    if one is None:
        if "IF EXISTS" in command.options:
            skipped = absent_relation(catalog, "relation", schema, name)
            return with_remarks(DefinePlan(command.name, name, None), [skipped])
        raise SqlError("42P01", f'relation "{f"{schema}.{name}" if schema else name}" does not exist')
    definition = one.definition
    assert isinstance(definition, ViewDefinition)
    if command.action == "OWNER":
        return DefinePlan(command.name, name, None)
    readers: list[CatalogObject] = []
    if command.action == "RENAME COLUMN":
        before, after = command.words
        names = [column for column, _type in definition.columns]
        if before not in names:
            raise SqlError("42703", f'column "{before}" does not exist')
        if after in names:
            raise SqlError("42701", f'column "{after}" of relation "{name}" already exists')
        columns = tuple((after if n == before else n, kind) for n, kind in definition.columns)
        moved = replace(one, definition=changed(definition, columns=columns))
        readers = renamed_views(catalog, one, names, before, after)
    elif command.action == "RENAME":
        moved = replace(one, name=checked_name(command.words[0]))
    else:
        moved = replace(one, schema=target_schema(catalog, command.words[0], one.name))
    if (moved.schema, moved.name) != (one.schema, one.name) and catalog.is_taken(moved.schema, moved.name):
        raise duplicate(moved.name)

    def put(view: View) -> None:
        for changed_view in (moved, *readers):
            view.put_object(changed_view)

    return DefinePlan(command.name, name, put)
