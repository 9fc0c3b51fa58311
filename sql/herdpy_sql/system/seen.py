"""Which rows of information_schema a role sees: those of what it owns or has some right to, as in PostgreSQL.

Between ``contents``, whose makers list everything, and the Arrow tables that queries read. Superusers see
all, and pay one look at the roles. pg_catalog hides nothing. Source: the views' definitions in PostgreSQL 15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from herdpy_sql.rights.acl import held
from herdpy_sql.rights.held import Subject, acl_of, owner_of, schema_subject, subject_of
from herdpy_sql.system.role_keys import keys_of
from herdpy_sql.system_relations import INFORMATION, SystemRelation, relations

if TYPE_CHECKING:
    from herdpy_sql.system.contents import Context, Rows

_ANY, _COLUMN, _CHANGES, _OWNER = "arwdDxt", "arwx", "awdDxt", ""

LETTERS = {
    "tables": _ANY,
    "views": _ANY,
    "columns": _COLUMN,
    "key_column_usage": _COLUMN,
    "table_constraints": _CHANGES,
    "referential_constraints": _CHANGES,
    "constraint_column_usage": _OWNER,
    "constraint_table_usage": _OWNER,
    "check_constraints": _OWNER,
    "sequences": "rwU",
    "schemata": "UC",
}
"""By view: one of these privileges lets a role see what is not its own."""


def seen(relation: SystemRelation, context: Context, rows: Rows) -> Rows:
    """The rows of a relation that the current user may see."""
    letters = LETTERS.get(relation.name) if relation.schema == INFORMATION else None
    keys = None if letters is None else keys_of(context, context.state.user)
    if letters is None or keys is None:
        return rows
    return _filtered(relation, context, rows, letters, keys)


def _filtered(
    relation: SystemRelation, context: Context, rows: Rows, letters: str, keys: set[str]
) -> Iterator[Mapping[str, Any]]:
    known: dict[tuple[str, str], tuple[bool, bool]] = {}
    for row in rows:
        name = _name(relation, row)
        if name not in known:
            known[name] = _looks(context, _subject(context, *name), letters, keys)
        is_seen, is_own = known[name]
        if is_seen and relation.name == "views" and not is_own:
            yield {**row, "view_definition": None}
        elif is_seen:
            yield row


def _name(relation: SystemRelation, row: Mapping[str, Any]) -> tuple[str, str]:
    if relation.name == "schemata":
        return "", row["schema_name"]
    prefix = "sequence" if relation.name == "sequences" else "table"
    return row[f"{prefix}_schema"], row[f"{prefix}_name"]


def _subject(context: Context, schema: str, name: str) -> Subject | None:
    """None for what is the system's."""
    if not schema:
        return schema_subject(context.catalog, name) if context.catalog.has_schema(name) else None
    if (schema, name) in relations():
        return None
    return subject_of(context.catalog.relations[schema, name])


def _looks(context: Context, subject: Subject | None, letters: str, keys: set[str]) -> tuple[bool, bool]:
    """(whether a role sees it, whether it is its own)."""
    if subject is None:  # everybody may read what is the system's, and nobody owns it
        return bool(letters), False
    if owner_of(context.catalog, subject) in keys:
        return True, True
    return bool(set(held(acl_of(context.catalog, subject), keys)) & set(letters)), False
