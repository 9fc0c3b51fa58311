"""Whether a session's role may do what a statement needs. Above ``effective_role``, over
``herdpy_sql.rights``.

A statement's needs are judged once for a plan's catalog and an effective role; what was found
permitted is noted with the statement. Rights are part of the catalog and an effective role goes when any
role changes, so a note
is valid as long as both are the very same objects: a REVOKE is felt by the next statement, prepared or not.
Superusers have no rights to be checked, and pay one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_server.roles.effective_role import EffectiveRole, unlimited_role
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.rights.acl import held
from herdpy_sql.rights.held import DATABASE, Subject, acl_of, judging, owner_of, subject_of
from herdpy_sql.rights.need import OWNER, SUPERUSER, Need
from herdpy_sql.rights.needs import needs, needs_of_table

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.parse import Statement


MAX_PERMITS = 64
"""Roles for which a statement remembers that it is permitted."""

CONNECT = Need(DATABASE, "c")
"""To come into the database at all."""

EffectiveRoleOf = Callable[[str], EffectiveRole]
"""Gives an effective role by its key."""


def permit(
    statement: Statement,
    permitted: set[EffectiveRole],
    catalog: Catalog,
    effective_role: EffectiveRole,
    others: EffectiveRoleOf,
    database: str,
) -> None:
    """See to it that a role may run a statement that was planned with this catalog.

    Args:
        permitted: the roles that were found to be permitted; this one is added.

    Raises:
        SqlError: 42501 it may not, 42P01 it may not even see what is named.
    """
    if effective_role in permitted:
        return
    judge(needs(statement, catalog), judging(catalog), effective_role, others, database)
    if len(permitted) >= MAX_PERMITS:
        permitted.clear()
    permitted.add(effective_role)


def judge(
    wanted: list[Need],
    catalog: Catalog,
    effective_role: EffectiveRole,
    others: EffectiveRoleOf,
    database: str,
) -> None:
    """See to it that a role has what is needed. SqlError as :func:`permit`."""
    for need in wanted:
        who = (
            effective_role if need.by is None else unlimited_role() if need.by == SYSTEM else others(need.by)
        )
        if not who.is_superuser:
            _check(need, catalog, who, database)


def judge_table(
    catalog: Catalog,
    found: Table | CatalogObject,
    letter: str,
    effective_role: EffectiveRole,
    others: EffectiveRoleOf,
    database: str,
) -> None:
    """See to it that a role may do one thing with a table, without a session. SqlError as :func:`permit`."""
    if not effective_role.is_superuser:
        judge([CONNECT, *needs_of_table(catalog, found, letter)], catalog, effective_role, others, database)


def judge_some(
    catalog: Catalog, letters: str, effective_role: EffectiveRole, others: EffectiveRoleOf, database: str
) -> None:
    """See to it that a role has one of these privileges on some table, whichever. SqlError 42501."""
    if effective_role.is_superuser:
        return
    judge([CONNECT], catalog, effective_role, others, database)
    if not any(may(catalog, subject_of(one), letters, effective_role) for one in catalog.tables.values()):
        raise SqlError("42501", f"permission denied for all tables of database {database}")


def may(catalog: Catalog, subject: Subject, letters: str, effective_role: EffectiveRole) -> bool:
    """Whether a role has one of these privileges."""
    if effective_role.is_superuser:
        return True
    return bool(set(held(acl_of(catalog, subject), effective_role.keys)) & set(letters))


def owns(catalog: Catalog, subject: Subject, effective_role: EffectiveRole) -> bool:
    """Whether a role is the owner, or has its rights."""
    return effective_role.is_superuser or owner_of(catalog, subject) in effective_role.keys


def _check(need: Need, catalog: Catalog, who: EffectiveRole, database: str) -> None:
    subject = need.subject
    name = subject.name or database
    if need.letters == SUPERUSER:
        raise SqlError("42501", subject.name)
    if need.letters == OWNER:
        if not owns(catalog, subject, who) and not (
            need.instead is not None and owns(catalog, need.instead, who)
        ):
            raise must_own(subject, database)
    elif not may(catalog, subject, need.letters, who):
        if need.hidden and need.letters == "U":
            raise SqlError("42P01", f'relation "{need.hidden}" does not exist')
        raise SqlError("42501", f"permission denied for {subject.kind} {name}")


def must_own(subject: Subject, database: str) -> SqlError:
    """The error for who is not the owner."""
    return SqlError("42501", f"must be owner of {subject.kind} {subject.name or database}")
