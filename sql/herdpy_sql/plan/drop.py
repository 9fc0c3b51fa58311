"""DROP TABLE, DROP INDEX and TRUNCATE: names to the tables and indexes that go.

A ``Command`` of the small parser comes in; a plan goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.catalog import PUBLIC, Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.change import TruncatePlan
from herdpy_sql.execute.define import DropIndexPlan, DropTablePlan
from herdpy_sql.objects import CatalogObject
from herdpy_sql.plan.dependents import references_to, refuse_index, refuse_references, truncated
from herdpy_sql.plan.dropping import depended_on, described, gather
from herdpy_sql.plan.remarks import absent_relation, cascaded, notice, with_remarks
from herdpy_sql.plan.scope import find_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan, Remark
    from herdpy_sql.parse import Command


def drop(command: Command, catalog: Catalog) -> Plan:
    """The plan of DROP TABLE, DROP INDEX or TRUNCATE."""
    names = list(dict.fromkeys(command.names))
    if command.name == "TRUNCATE":
        given = tuple(find_table(catalog, schema, name) for schema, name in names)
        chosen = truncated(catalog, given, cascade="CASCADE" in command.options)
        also = [notice(f'truncate cascades to table "{one.name}"') for one in chosen[len(given) :]]
        return with_remarks(TruncatePlan(chosen, restart="RESTART IDENTITY" in command.options), also)
    existing = "IF EXISTS" in command.options
    if command.name == "DROP INDEX":
        skipped: list[Remark] = []
        chosen_indexes = tuple(_indexes(names, catalog, skipped, existing=existing))
        return with_remarks(DropIndexPlan(chosen_indexes), skipped)
    finder: Callable[..., Table] = find_table
    tables, remarks = [], []
    for schema, name in names:
        other = catalog.find(schema, name)
        if isinstance(other, Index):
            raise SqlError("42809", f'"{name}" is not a table', hint="Use DROP INDEX to remove an index.")
        if isinstance(other, CatalogObject):
            hint = f"Use DROP {other.kind.upper()} to remove a {other.kind}."
            raise SqlError("42809", f'"{name}" is not a table', hint=hint)
        try:
            tables.append(finder(catalog, schema, name))
        except SqlError as error:
            if error.sqlstate != "42P01":
                raise
            if not existing:
                raise SqlError("42P01", f'table "{name}" does not exist', table=name) from error
            remarks.append(absent_relation(catalog, "table", schema, name))
    reasons: list[str] = []
    objects: tuple[CatalogObject, ...] = ()
    if catalog.objects and tables:
        dropping = gather(tables, catalog)
        if dropping.reasons and "CASCADE" not in command.options:
            raise depended_on(f"cannot drop {described(tables[0])}", dropping.reasons)
        objects, reasons = tuple(dropping.objects), dropping.reasons
    if "CASCADE" not in command.options:
        refuse_references(catalog, tables)
    references = references_to(catalog, tables)
    reasons = [*(f"constraint {one.name} on table {child.name}" for child, one in references), *reasons]
    detached = tuple((child.id, one.name) for child, one in references)
    return with_remarks(DropTablePlan(tuple(tables), detached, objects), [*remarks, *cascaded(reasons)])


def _indexes(
    names: Sequence[tuple[str | None, str]], catalog: Catalog, skipped: list[Remark], *, existing: bool
) -> Iterable[tuple[Table, Index]]:
    for schema, name in names:
        index = catalog.find(schema, name)
        if not isinstance(index, Index):
            owner = catalog.table_of_key(schema, name)
            if owner is not None:
                raise _required(name, owner)
            if isinstance(index, CatalogObject):
                hint = f"Use DROP {index.kind.upper()} to remove a {index.kind}."
                raise SqlError("42809", f'"{name}" is not an index', hint=hint)
            if index is not None:
                raise SqlError("42809", f'"{name}" is not an index', hint="Use DROP TABLE to remove a table.")
            if existing:
                skipped.append(absent_relation(catalog, "index", schema, name))
                continue
            if schema is not None and not catalog.has_schema(schema):
                raise SqlError("3F000", f'schema "{schema}" does not exist')
            raise SqlError("42704", f'index "{name}" does not exist')
        table = catalog.tables[index.table_id]
        if index.constraint:
            raise _required(name, table)
        if index.unique:
            refuse_index(catalog, table, index)
        yield table, index


def _required(name: str, table: Table) -> SqlError:
    shown = "" if table.schema == PUBLIC else f"{table.schema}."
    return SqlError(
        "2BP01",
        f"cannot drop index {shown}{name} because constraint {name} on {described(table)} requires it",
    )
