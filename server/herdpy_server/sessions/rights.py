"""Whether a session's role may do what a statement needs. Below ``binding``, over ``herdpy_sql.rights``.

A statement's needs are judged once for a plan's catalog and a role's standing; what was found permitted is
noted with the statement. Rights are part of the catalog and a standing goes when any role changes, so a note
is valid as long as both are the very same objects: a REVOKE is felt by the next statement, prepared or not.
Superusers have no standing to be judged, and pay one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_server.sessions.standing import Standing, everything
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.rights.acl import held
from herdpy_sql.rights.held import DATABASE, Subject, acl_of, owner_of, subject_of
from herdpy_sql.rights.need import OWNER, SUPERUSER, Need
from herdpy_sql.rights.needs import needs, needs_of_table

if TYPE_CHECKING:
    from herdpy_server.sessions.plans import Prepared
    from herdpy_server.sessions.prepared import PreparedStatement
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.objects import CatalogObject

MAX_PERMITS = 64
"""Roles for which a statement remembers that it is permitted."""

CONNECT = Need(DATABASE, "c")
"""To come into the database at all."""

StandingOf = Callable[[str], Standing]
"""Gives a role's standing by its key."""


def permit(
    prepared: Prepared | PreparedStatement,
    catalog: Catalog,
    standing: Standing,
    others: StandingOf,
    database: str,
) -> None:
    """See to it that a role may run a statement that was planned with this catalog.

    Raises:
        SqlError: 42501 it may not, 42P01 it may not even see what is named.
    """
    if prepared.permits.get(standing) is catalog:
        return
    statement = prepared.statement
    if statement is not None:
        judge(needs(statement, catalog), catalog, standing, others, database)
    if len(prepared.permits) >= MAX_PERMITS:
        prepared.permits.clear()
    prepared.permits[standing] = catalog


def judge(
    wanted: list[Need], catalog: Catalog, standing: Standing, others: StandingOf, database: str
) -> None:
    """See to it that a role has what is needed. SqlError as :func:`permit`."""
    for need in wanted:
        who = standing if need.by is None else everything() if need.by == SYSTEM else others(need.by)
        if not who.is_superuser:
            _check(need, catalog, who, database)


def judge_table(
    catalog: Catalog,
    found: Table | CatalogObject,
    letter: str,
    standing: Standing,
    others: StandingOf,
    database: str,
) -> None:
    """See to it that a role may do one thing with a table, without a session. SqlError as :func:`permit`."""
    if not standing.is_superuser:
        judge([CONNECT, *needs_of_table(catalog, found, letter)], catalog, standing, others, database)


def judge_some(catalog: Catalog, letters: str, standing: Standing, others: StandingOf, database: str) -> None:
    """See to it that a role has one of these privileges on some table, whichever. SqlError 42501."""
    if standing.is_superuser:
        return
    judge([CONNECT], catalog, standing, others, database)
    if not any(may(catalog, subject_of(one), letters, standing) for one in catalog.tables.values()):
        raise SqlError("42501", f"permission denied for all tables of database {database}")


def may(catalog: Catalog, subject: Subject, letters: str, standing: Standing) -> bool:
    """Whether a role has one of these privileges."""
    if standing.is_superuser:
        return True
    return bool(set(held(acl_of(catalog, subject), standing.keys)) & set(letters))


def owns(catalog: Catalog, subject: Subject, standing: Standing) -> bool:
    """Whether a role is the owner, or has its rights."""
    return standing.is_superuser or owner_of(catalog, subject) in standing.keys


def _check(need: Need, catalog: Catalog, who: Standing, database: str) -> None:
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
