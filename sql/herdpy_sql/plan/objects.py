"""Statements about schemas, sequences, views and comments: to the module that plans them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.plan import comments, define_view, schemas, sequences

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.execute.base import Plan
    from herdpy_sql.parse.object_commands import ObjectCommand


def plan(command: ObjectCommand, catalog: Catalog, planned: define_view.Planned) -> Plan:
    """The plan of such a statement; ``planned`` plans a query."""
    kind = command.name.split()[-1]
    if kind == "SEQUENCE":
        return sequences.plan(command, catalog)
    if kind == "SCHEMA":
        return schemas.plan(command, catalog)
    if kind == "VIEW":
        return define_view.plan(command, catalog, planned)
    return comments.plan(command, catalog)
