"""GRANT, REVOKE, OWNER TO, REASSIGN and DROP OWNED, ALTER DEFAULT PRIVILEGES, CREATE SCHEMA ...
AUTHORIZATION.

Above ``permissions``, below ``sessions``. Rights are part of the catalog: a change is a statement that
defines, in the open transaction or one of its own, and goes through the log as every definition. What is
done is returned as a function of the transaction's view; roles are looked up before it begins, as nobody
but the server knows them. Who is whose member is ``role_changes``'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_server.roles.permissions import may, must_own, owns
from herdpy_server.roles.role import no_role
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import RightsDefinition
from herdpy_sql.rights.acl import PUBLIC, Acl, granted, owned_by, passed_on, revoked, usual, without
from herdpy_sql.rights.held import (
    DATABASE,
    DEFAULTS,
    EVERYWHERE,
    Subject,
    acl_of,
    granted_acl,
    keep,
    made_with,
    owner_of,
    schema_subject,
)
from herdpy_sql.rights.privileges import letters_of
from herdpy_sql.rights.subjects import everything, named

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import RoleSession
    from herdpy_sql.parse.role_commands import RightCommand
    from herdpy_sql.plan import CreateSchemaFor
    from herdpy_sql.storage import View


def right_change(session: RoleSession, command: RightCommand) -> Callable[[View], None]:
    """What a statement about rights does with the definitions, once its transaction runs it.

    Raises:
        SqlError: 42501 the user may not, 42704, 42P01, 3F000 something is not there, 0LP01 a privilege that
            such a thing does not have, 2BP01 what depends on it, 0A000; now or when it runs.
    """
    if command.name == "ALTER DEFAULT PRIVILEGES":
        return _defaults(session, command)
    if command.name in {"REASSIGN OWNED", "DROP OWNED"}:
        return _owned(session, command)
    if command.name in {"GRANT", "REVOKE"}:
        return _granted(session, command)
    return _owner(session, command)


def key_of(session: RoleSession, name: str | None) -> str:
    """The key of a role by name; None is the current one. SqlError 42704."""
    if name is None or name == session.effective_role.name:
        return session.effective_role.key
    role = None if session.roles is None else session.roles.get(name)
    if role is not None:
        return role.ident
    if name == session.identity.user:
        return session.identity.key
    raise no_role(name)


def _grantees(session: RoleSession, command: RightCommand) -> list[str]:
    return [PUBLIC if one == "public" else key_of(session, one) for one in command.members]


# GRANT and REVOKE.


def _granted(session: RoleSession, command: RightCommand) -> Callable[[View], None]:
    grantees = _grantees(session, command)
    if command.granted_by != "" and key_of(session, command.granted_by) != session.effective_role.key:
        raise SqlError("0A000", "grantor must be current user")
    if command.option and PUBLIC in grantees and not command.revokes:
        raise SqlError("0LP01", "grant options can only be granted to roles")
    warned: set[tuple[str, str]] = set()

    def work(view: View) -> None:
        catalog = view.catalog.along(session.settings.path)
        for subject in named(command, catalog, session.identity.database):
            letters = letters_of(command.privileges, subject.kind)
            owner = owner_of(catalog, subject)
            acl = acl_of(catalog, subject)
            grantor, letters = _grantor(session, command, subject, owner, acl, letters, warned)
            for grantee in grantees if letters else ():
                acl = _changed(acl, command, grantee, grantor, letters, owner)
            if letters:
                keep(view, subject, owner, acl)

    return work


def _changed(acl: Acl, command: RightCommand, grantee: str, grantor: str, letters: str, owner: str) -> Acl:
    if not command.revokes:
        return granted(acl, grantee, grantor, letters, option=command.option)
    return revoked(
        acl,
        grantee,
        grantor,
        letters,
        owner,
        option_only=command.option,
        cascade="CASCADE" in command.options,
    )


def _grantor(
    session: RoleSession,
    command: RightCommand,
    subject: Subject,
    owner: str,
    acl: Acl,
    letters: str,
    warned: set[tuple[str, str]],
) -> tuple[str, str]:
    """Who grants or revokes, and what of ``letters`` it can."""
    effective_role = session.effective_role
    if effective_role.is_superuser or owner in effective_role.keys:
        return owner, letters
    best, some = effective_role.key, ""
    for key in (effective_role.key, *sorted(effective_role.keys)):
        found = "".join(one for one in passed_on(acl, key, owner, subject.kind) if one in letters)
        if len(found) > len(some):
            best, some = key, found
    name = subject.name or session.identity.database
    if not some and not may(session.catalog, subject, letters_of((), subject.kind), effective_role):
        raise SqlError("42501", f"permission denied for {subject.kind} {name}")
    if len(some) < len(letters) and (command.privileges or not some):
        state, verb = ("01006", "could be revoked") if command.revokes else ("01007", "were granted")
        which = "not all privileges" if some else "no privileges"
        if (name, which) not in warned:
            warned.add((name, which))
            session.notice("WARNING", state, f'{which} {verb} for "{name}"')
    return best, some


# OWNER TO.


def _owner(session: RoleSession, command: RightCommand) -> Callable[[View], None]:
    (to,) = command.members
    if session.roles is None:
        return lambda _view: None  # there is nobody else: a dump of another database may say so
    key = key_of(session, to)

    def work(view: View) -> None:
        catalog = view.catalog.along(session.settings.path)
        subjects = named(command, catalog, session.identity.database)
        if not subjects:
            session.notice("NOTICE", "00000", f'relation "{command.names[0][1]}" does not exist, skipping')
        for subject in subjects:
            _check_kind(command, subject)
            _check_transfer(session, view, subject, key)
            give(view, subject, key)

    return work


def _check_kind(command: RightCommand, subject: Subject) -> None:
    if command.kind == "TABLE" and subject.kind == "sequence":
        return
    if command.kind in {"VIEW", "SEQUENCE"} and subject.kind != command.kind.lower():
        raise SqlError("42809", f'"{subject.name}" is not a {command.kind.lower()}')


def _check_transfer(session: RoleSession, view: View, subject: Subject, key: str) -> None:
    """SqlError 42501 unless the role owns it and is a member of the new owner, who may make such things."""
    effective_role, catalog, database = session.effective_role, view.catalog, session.identity.database
    if effective_role.is_superuser:
        return
    if not owns(catalog, subject, effective_role):
        raise must_own(subject, database)
    other = session.effective_role_of(key)
    if key not in effective_role.roles:
        raise SqlError("42501", f'must be member of role "{other.name}"')
    if subject.kind in {"table", "view", "sequence", "type"}:
        one = catalog.tables.get(subject.id) or catalog.objects[subject.id]
        where = schema_subject(catalog, one.schema)
        if not may(catalog, where, "C", other):
            raise SqlError("42501", f"permission denied for schema {one.schema}")
    elif subject.kind == "schema" and not may(catalog, DATABASE, "C", effective_role):
        raise SqlError("42501", f"permission denied for database {database}")


def give(view: View, subject: Subject, key: str) -> None:
    """A thing gets another owner, who gets what the one before had."""
    before = owner_of(view.catalog, subject)
    acl = granted_acl(view.catalog, subject)
    keep(view, subject, key, None if acl is None else owned_by(acl, before, key))


# What roles own, all of it.


def _owned(session: RoleSession, command: RightCommand) -> Callable[[View], None]:
    keys = [key_of(session, one) for one in command.roles]
    for key in keys:
        if not session.effective_role.is_superuser and key not in session.effective_role.keys:
            raise SqlError("42501", f"permission denied to {command.name.split()[0].lower()} objects")
    to = key_of(session, command.members[0]) if command.members else ""
    if to and not session.effective_role.is_superuser and to not in session.effective_role.keys:
        raise SqlError("42501", "permission denied to reassign objects")

    def work(view: View) -> None:
        for subject in list(everything(view.catalog)):
            owner = owner_of(view.catalog, subject)
            if command.name == "REASSIGN OWNED":
                if owner in keys:
                    give(view, subject, to)
            elif owner in keys and subject.kind != "database":
                raise SqlError(
                    "0A000",
                    f"DROP OWNED does not drop {subject.kind} {subject.name}",
                    hint="Use REASSIGN OWNED, or drop it, first.",
                )
            else:
                _forget(view, subject, keys)
        if command.name == "DROP OWNED":
            for one in list(view.catalog.objects.values()):
                what = one.definition
                if isinstance(what, RightsDefinition) and what.on in DEFAULTS and what.owner in keys:
                    view.drop_object(one)

    return work


def _forget(view: View, subject: Subject, keys: list[str]) -> None:
    acl = granted_acl(view.catalog, subject)
    if acl is None:
        return
    made = acl
    for key in keys:
        made = without(made, key)
    if made != acl:
        keep(view, subject, owner_of(view.catalog, subject), made)


# ALTER DEFAULT PRIVILEGES.


def _defaults(session: RoleSession, command: RightCommand) -> Callable[[View], None]:
    grantees = _grantees(session, command)
    owners = [key_of(session, one) for one in command.roles] or [session.effective_role.key]
    for key in owners:
        if not session.effective_role.is_superuser and key not in session.effective_role.keys:
            name = session.effective_role_of(key).name
            raise SqlError("42501", f'must be member of role "{name}"')
    if command.option and PUBLIC in grantees and not command.revokes:
        raise SqlError("0LP01", "grant options can only be granted to roles")
    if command.kind == "SCHEMAS" and command.schemas:
        raise SqlError("0LP01", "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS")
    kind = command.kind.lower().removesuffix("s")
    letters = letters_of(command.privileges, kind)

    def work(view: View) -> None:
        ids = [EVERYWHERE]
        if command.schemas:
            ids = [_schema(view, name).id for name in command.schemas]
        for owner in owners:
            for number in ids:
                subject = Subject(f"{kind}s", number, "", owner)
                acl = acl_of(view.catalog, subject)
                for grantee in grantees:
                    acl = _changed(acl, command, grantee, owner, letters, owner)
                is_usual = acl == (usual(kind, owner) if number == EVERYWHERE else ())
                keep(view, subject, owner, None if is_usual else acl)

    return work


def _schema(view: View, name: str) -> Subject:
    if not view.catalog.has_schema(name):
        raise SqlError("3F000", f'schema "{name}" does not exist')
    return schema_subject(view.catalog, name)


def schema_creation(session: RoleSession, plan: CreateSchemaFor) -> Callable[[View], None]:
    """Make a schema with the rights that its owner wants others to have.

    Raises:
        SqlError: 42704 there is no such role, 42501 the session's is no member of it, 42P06.
    """
    if session.roles is None:
        return plan.make  # there is nobody else: a dump may say so
    key = key_of(session, plan.owner)
    if not session.effective_role.is_superuser and key not in session.effective_role.roles:
        raise SqlError("42501", f'must be member of role "{plan.owner}"')

    def work(view: View) -> None:
        plan.make(view)
        subject = schema_subject(view.catalog, plan.name)
        keep(view, subject, key, made_with(view.catalog, "schema", EVERYWHERE, key))

    return work
