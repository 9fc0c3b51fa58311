"""Who owns what and who may do what with it: owners, aclitems, members of roles, default privileges.

Rows that show owners and privileges are made of this, and what has_..._privilege answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from herdpy_sql.objects import SYSTEM, RightsDefinition
from herdpy_sql.rights.acl import held, split, texts
from herdpy_sql.rights.held import (
    DATABASE,
    EVERYWHERE,
    Subject,
    acl_of,
    granted_acl,
    owner_of,
    schema_subject,
    subject_of,
)
from herdpy_sql.rights.privileges import OF_KIND
from herdpy_sql.system.contents import SCHEMAS, Context, Rows, role_oid, rows_of, schema_oid, user_schemas
from herdpy_sql.system.definitions import indexes_of
from herdpy_sql.system_relations import relations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Table
    from herdpy_sql.objects import CatalogObject


class Owned(NamedTuple):
    """Whose a thing is, and its aclitems; None where nothing was granted."""

    oid: int
    name: str
    acl: list[str] | None


def owned(context: Context, subject: Subject) -> Owned:
    """Of a relation, schema or the database."""
    names = context.role_names()
    owner = owner_of(context.catalog, subject)
    acl = granted_acl(context.catalog, subject)
    shown = None if acl is None else texts(acl, lambda key: names.get(key, key))
    return Owned(role_oid(owner), names.get(owner, owner), shown)


def owned_relation(context: Context, one: Table | CatalogObject) -> Owned:
    """Of a table, view or sequence."""
    return owned(context, subject_of(one))


def owned_schema(context: Context, name: str) -> Owned:
    """Of a schema; those of the system are its own."""
    if name in SCHEMAS and name != "public":
        return Owned(role_oid(SYSTEM), context.role_names().get(SYSTEM, SYSTEM), None)
    return owned(context, schema_subject(context.catalog, name))


def owned_database(context: Context) -> Owned:
    """Of the session's own database."""
    return owned(context, DATABASE)


@rows_of("pg_catalog", "pg_auth_members")
def _members(context: Context) -> Rows:
    for role in context.state.roles():
        for one in role.memberships:
            yield {
                "roleid": role_oid(one.role),
                "member": role_oid(role.key),
                "grantor": role_oid(one.grantor),
                "admin_option": one.admin,
            }


@rows_of("pg_catalog", "pg_default_acl")
def _defaults(context: Context) -> Rows:
    names = context.role_names()
    schemas = {one.id: one.oid for one in context.catalog.objects.values() if one.kind == "schema"}
    for one in context.catalog.objects.values():
        what = one.definition
        kind = {"tables": "r", "sequences": "S", "schemas": "n"}.get(getattr(what, "on", ""), "")
        if isinstance(what, RightsDefinition) and kind:
            where = 0 if what.id == EVERYWHERE else schemas.get(what.id, SCHEMAS["public"])
            yield {
                "oid": one.oid,
                "defaclrole": role_oid(what.owner),
                "defaclnamespace": where,
                "defaclobjtype": kind,
                "defaclacl": texts(what.acl or (), lambda key: names.get(key, key)),
            }


def users_relations(context: Context) -> Iterator[Table | CatalogObject]:
    """Tables, views and sequences of users."""
    yield from context.catalog.tables.values()
    for one in context.catalog.objects.values():
        if one.kind in {"view", "sequence"}:
            yield one


# What has_..._privilege and pg_has_role read.


def things(context: Context) -> Iterator[tuple[str, int, Subject | None, str]]:
    """(group, id, thing, what everybody may do with what is the system's)."""
    for one in users_relations(context):
        yield "relation", one.oid, subject_of(one), ""
    for table in context.catalog.tables.values():
        for index in indexes_of(table):
            yield "relation", index.oid, subject_of(table), ""
    for relation in relations().values():
        yield "relation", relation.oid, None, "r"
    for name in user_schemas(context.catalog):
        oid = schema_oid(context.catalog, name)
        yield "schema", oid, schema_subject(context.catalog, name), ""
    for name, oid in SCHEMAS.items():
        if name != "public":
            yield "schema", oid, None, "U"
    yield "database", context.database_oid(None), DATABASE, ""


def letters_held(context: Context, keys: set[str] | None, subject: Subject | None, system: str) -> str:
    """What a role may, each letter with * after it where it may be passed on."""
    if keys is None:
        return "".join(f"{letter}*" for letter in (OF_KIND[subject.kind] if subject is not None else system))
    if subject is None:
        return system
    acl = acl_of(context.catalog, subject)
    owner = owner_of(context.catalog, subject)
    if owner in keys:
        return "".join(f"{letter}*" for letter in OF_KIND[subject.kind])
    options = "".join(split(one[2])[1] for one in acl if one[0] in keys)
    return "".join(letter + ("*" if letter in options else "") for letter in held(acl, keys))
