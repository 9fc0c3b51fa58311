"""CREATE, ALTER and DROP ROLE, GRANT role TO role and REVOKE role FROM role: who may, and what becomes of
roles.

Above ``role``, below ``sessions``. Roles are not what a transaction changes: a change is done at once and
nothing takes it back, so inside BEGIN there is none. A role that owns something, or was granted something,
is not dropped.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from herdpy.log.wait import Work
from herdpy_server.roles.passwords import Verifier
from herdpy_server.roles.role import (
    Change,
    Role,
    RoleMembership,
    RoleStore,
    created,
    dropped,
    new_key,
    no_role,
    replaced,
)
from herdpy_server.roles.role_settings import change_role_settings
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM, RightsDefinition
from herdpy_sql.plan.names import checked_name
from herdpy_sql.rights.held import DEFAULTS, granted_acl, owner_of
from herdpy_sql.rights.subjects import everything

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole, RoleSession
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.parse.role_commands import RightCommand, RoleCommand


_FIELDS = {
    "SUPERUSER": "is_superuser",
    "CREATEDB": "creates_databases",
    "CREATEROLE": "creates_roles",
    "INHERIT": "inherits",
    "LOGIN": "can_login",
    "REPLICATION": "replicates",
    "BYPASSRLS": "bypasses_row_security",
}
_SHOWN_USES = 20
_STRONG = ("SUPERUSER", "REPLICATION", "BYPASSRLS")
_NEW = Role("", can_login=False)


async def change_roles(session: RoleSession, command: RoleCommand) -> None:
    """Carry out one of them.

    Raises:
        SqlError: 42501 the user may not, 42710, 42704, 25001 inside a transaction block, 25006, 55006
            a role that is in use, 0A000 where there are no roles, and 22007 for a moment that is none.
    """
    roles = session.roles
    if roles is None:
        raise SqlError("0A000", "an embedded database has no roles")
    if session.transaction is not None and not session.implicit:
        raise SqlError("25001", f"{command.name} cannot run inside a transaction block")
    if session.settings.read_only and not session.settings.standby:  # where roles are kept is asked then
        raise SqlError("25006", f"cannot execute {command.name} in a read-only transaction")
    roles.check_writable(command.name)
    names = [session.effective_role.name if name is None else name for name in command.roles]
    if command.name == "CREATE ROLE":
        _may(session, command, "create", None)
        checked_name(names[0])
        made = await _changed(session, command, msgspec.structs.replace(_NEW, name=names[0], key=new_key()))
        await roles.change(command.name, _with_members(session, roles, command, made))
    elif command.setting:
        await change_role_settings(session, roles, command, names[0])
    elif command.members:
        await _alter_group(session, roles, command, names[0])
    elif command.name == "ALTER ROLE":
        await _alter(session, roles, command, names[0])
    else:
        await _drop(session, roles, command, names)


def _with_members(session: RoleSession, roles: RoleStore, command: RoleCommand, role: Role) -> Change:
    """A role more, and the memberships that it is made with."""
    for name in command.into:
        other = roles.get(name)
        if other is None:
            raise no_role(name)
        check_admin(session.effective_role, other)
    grantor = session.effective_role.key

    def change(known: Mapping[str, Role]) -> dict[str, Role]:
        made = created(role)(known)
        made = joined(list(command.into), [role.name], admin=False, grantor=grantor)(made)
        made = joined([role.name], list(command.members), admin=False, grantor=grantor)(made)
        return joined([role.name], list(command.admins), admin=True, grantor=grantor)(made)

    return change


async def _alter_group(session: RoleSession, roles: RoleStore, command: RoleCommand, name: str) -> None:
    role = roles.get(name)
    if role is None:
        raise no_role(name)
    check_admin(session.effective_role, role)
    members = list(command.members)
    change = joined([name], members, admin=False, grantor=session.effective_role.key)
    if command.drops_members:
        change = left([name], members, option_only=False)
    await roles.change(command.name, change)


async def _alter(session: RoleSession, roles: RoleStore, command: RoleCommand, name: str) -> None:
    role = roles.get(name)
    if role is None:
        raise no_role(name)
    own_password = (
        role.ident == session.effective_role.key and command.sets_password and not _but_password(command)
    )
    if not own_password:
        _may(session, command, "alter", role)
    if command.new_name is not None:
        if role.ident in (session.identity.key, session.effective_role.key):
            raise SqlError("0A000", "session user cannot be renamed")
        checked_name(command.new_name)
        made = msgspec.structs.replace(role, name=command.new_name, key=role.ident)
    else:
        made = await _changed(session, command, role)
    await roles.change(command.name, replaced(name, made))


def _but_password(command: RoleCommand) -> bool:
    """Whether anything but the password is to be changed."""
    limited = command.connection_limit is not None or command.valid_until is not None
    return bool(command.flags) or limited or command.new_name is not None


async def _drop(session: RoleSession, roles: RoleStore, command: RoleCommand, names: list[str]) -> None:
    for name in names:
        role = roles.get(name)
        if role is None:
            if "IF EXISTS" not in command.options:
                raise no_role(name)
            session.notice("NOTICE", "00000", f'role "{name}" does not exist, skipping')
            continue
        if role.ident in (session.identity.key, session.effective_role.key):
            raise SqlError("55006", "current user cannot be dropped")
        _may(session, command, "drop", role)
        uses = uses_of(session.catalog, {role.ident})
        if uses:
            shown = uses[:_SHOWN_USES] + (["and others"] if len(uses) > _SHOWN_USES else [])
            raise SqlError(
                "2BP01",
                f'role "{name}" cannot be dropped because some objects depend on it',
                detail="\n".join(shown),
            )
    await roles.change(command.name, dropped(frozenset(names)))


def _may(session: RoleSession, command: RoleCommand, what: str, role: Role | None) -> None:
    """SqlError 42501 when the session's role may not do it."""
    own = session.effective_role
    if own.is_superuser:
        return
    strong = [flag for flag, on in command.flags if flag in _STRONG and (on or what == "alter")]
    if strong or (role is not None and role.is_superuser):
        raise SqlError("42501", f"must be superuser to {what} superusers")
    if not own.creates_roles:
        raise SqlError(
            "42501", f"permission denied to {what} role" if what != "alter" else "permission denied"
        )


async def _changed(session: RoleSession, command: RoleCommand, role: Role) -> Role:
    """The role with what the command says of it."""
    changes: dict[str, object] = {_FIELDS[flag]: on for flag, on in command.flags}
    if command.connection_limit is not None:
        changes["connection_limit"] = command.connection_limit
    if command.valid_until is not None:
        changes["valid_until"] = _moment(command.valid_until)
    if command.sets_password:
        changes["verifier"] = await _verifier(session, command.password)
    return msgspec.structs.replace(role, **changes)


async def _verifier(session: RoleSession, password: str | None) -> str | None:
    if password == "":
        session.notice("NOTICE", "00000", "empty string is not a valid password, clearing password")
    if not password:
        return None
    if Verifier.parse(password) is not None:
        return password
    verifier: Verifier = await Work(lambda: Verifier.of(password))
    return verifier.text()


def _moment(text: str) -> str | None:
    """VALID UNTIL as it is kept; None for ever."""
    if text.lower() == "infinity":
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise SqlError(
            "22007", f'invalid input syntax for type timestamp with time zone: "{text}"'
        ) from error
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).isoformat()


async def change_members(session: RoleSession, command: RightCommand) -> None:
    """Carry out one of them.

    Raises:
        SqlError: 42704 a role that is not there, 42501, 0LP01 a role would be its own member, 25001 inside a
            transaction block, 25006, 0A000 where there are no roles.
    """
    roles = session.roles
    if roles is None:
        raise SqlError("0A000", "an embedded database has no roles")
    if session.transaction is not None and not session.implicit:
        raise SqlError("25001", f"{command.name} cannot run inside a transaction block")
    if session.settings.read_only and not session.settings.standby:
        raise SqlError("25006", f"cannot execute {command.name} in a read-only transaction")
    own = session.effective_role.name
    granted = [own if name is None else name for name in command.roles]
    members = [own if name is None else name for name in command.members]
    for name in (*granted, *members):
        if roles.get(name) is None:
            raise no_role(name)
    for role in map(roles.get, granted):
        assert role is not None
        check_admin(session.effective_role, role)
    grantor = session.effective_role.key
    if command.revokes:
        notices = _not_members(roles.get, granted, members)
        change = left(granted, members, option_only=command.option)
    else:
        notices = _members(roles.get, granted, members, option=command.option)
        change = joined(granted, members, admin=command.option, grantor=grantor)
    for severity, message in notices:
        session.notice(severity, "00000" if severity == "NOTICE" else "01000", message)
    await roles.change(command.name, change)


def check_admin(effective_role: EffectiveRole, role: Role) -> None:
    """SqlError 42501 unless a role may take members into another: superusers, CREATEROLE, administrators."""
    if effective_role.is_superuser:
        return
    if role.is_superuser:
        raise SqlError("42501", "must be superuser to alter superusers")
    if not effective_role.creates_roles and role.ident not in effective_role.administered:
        raise SqlError("42501", f'must have admin option on role "{role.name}"')


def joined(granted: list[str], members: list[str], *, admin: bool, grantor: str = SYSTEM) -> Change:
    """Members more. SqlError 42704, 0LP01."""

    def change(roles: Mapping[str, Role]) -> dict[str, Role]:
        made = dict(roles)
        for name in granted:
            role = _there(made, name)
            for member in members:
                one = _there(made, member)
                if one.ident == role.ident or role.ident in _below(made, one):
                    raise SqlError("0LP01", f'role "{name}" is a member of role "{member}"')
                rest = [other for other in one.memberships if other.role != role.ident]
                before = next((other for other in one.memberships if other.role == role.ident), None)
                kept = RoleMembership(role.ident, admin or (before is not None and before.admin), grantor)
                made[member] = msgspec.structs.replace(one, memberships=(*rest, kept))
        return made

    return change


def left(granted: list[str], members: list[str], *, option_only: bool) -> Change:
    """Members fewer, or fewer that may take in others. SqlError 42704."""

    def change(roles: Mapping[str, Role]) -> dict[str, Role]:
        made = dict(roles)
        for name in granted:
            key = _there(made, name).ident
            for member in members:
                one = _there(made, member)
                rest = tuple(other for other in one.memberships if other.role != key)
                if option_only:
                    rest = tuple(
                        RoleMembership(other.role, False, other.grantor) if other.role == key else other
                        for other in one.memberships
                    )
                made[member] = msgspec.structs.replace(one, memberships=rest)
        return made

    return change


def _there(roles: Mapping[str, Role], name: str) -> Role:
    found = roles.get(name)
    if found is None:
        raise no_role(name)
    return found


def _below(roles: Mapping[str, Role], role: Role) -> set[str]:
    """Keys of all that are members of ``role``, of those too, and so on."""
    found = {role.ident}
    more = True
    while more:
        more = False
        for one in roles.values():
            if one.ident not in found and any(other.role in found for other in one.memberships):
                found.add(one.ident)
                more = True
    return found - {role.ident}


def _members(
    get: Callable[[str], Role | None], granted: list[str], members: list[str], *, option: bool
) -> list[tuple[str, str]]:
    notices = []
    for name in granted:
        for member in members:
            one = _membership(get, name, member)
            if one is not None and (one.admin or not option):
                notices.append(("NOTICE", f'role "{member}" is already a member of role "{name}"'))
    return notices


def _not_members(
    get: Callable[[str], Role | None], granted: list[str], members: list[str]
) -> list[tuple[str, str]]:
    return [
        ("WARNING", f'role "{member}" is not a member of role "{name}"')
        for name in granted
        for member in members
        if _membership(get, name, member) is None
    ]


def _membership(get: Callable[[str], Role | None], name: str, member: str) -> RoleMembership | None:
    role, one = get(name), get(member)
    if one is None or role is None:
        raise no_role(member)
    return next((other for other in one.memberships if other.role == role.ident), None)


def uses_of(catalog: Catalog, keys: set[str]) -> list[str]:
    """What stands in the way of dropping roles: lines that say what they own, and what they were granted."""
    found = []
    for subject in everything(catalog):
        said = f"{subject.kind} {subject.name}".strip()
        if owner_of(catalog, subject) in keys:
            found.append(f"owner of {said}")
        elif any(keys & set(one[:2]) for one in granted_acl(catalog, subject) or ()):
            found.append(f"privileges for {said}")
    for one in catalog.objects.values():
        what = one.definition
        if not isinstance(what, RightsDefinition) or what.on not in DEFAULTS:
            continue
        if what.owner in keys or any(keys & set(grant[:2]) for grant in what.acl or ()):
            found.append(f"default privileges on new {what.on}")
    return sorted(found)
