"""GRANT role TO role and REVOKE role FROM role, outside of transactions. Beside ``role_changes``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from herdpy_server.sessions.result import Result
from herdpy_server.sessions.roles import Change, Membership, Role, no_role
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.standing import Standing
    from herdpy_sql.parse.role_commands import RightCommand


async def change_members(session: TransactionBlock, command: RightCommand) -> Result:
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
    own = session.standing.name
    granted = [own if name is None else name for name in command.roles]
    members = [own if name is None else name for name in command.members]
    for name in (*granted, *members):
        if roles.get(name) is None:
            raise no_role(name)
    for role in map(roles.get, granted):
        assert role is not None
        check_admin(session.standing, role)
    grantor = session.standing.key
    if command.revokes:
        told = _not_members(roles.get, granted, members)
        change = left(granted, members, option_only=command.option)
    else:
        told = _members(roles.get, granted, members, option=command.option)
        change = joined(granted, members, admin=command.option, grantor=grantor)
    for severity, message in told:
        session.notice(severity, "00000" if severity == "NOTICE" else "01000", message)
    await roles.change(command.name, change)
    return Result(command.name, -1)


def check_admin(standing: Standing, role: Role) -> None:
    """SqlError 42501 unless a role may take members into another: superusers, CREATEROLE, administrators."""
    if standing.is_superuser:
        return
    if role.is_superuser:
        raise SqlError("42501", "must be superuser to alter superusers")
    if not standing.creates_roles and role.ident not in standing.administered:
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
                kept = Membership(role.ident, admin or (before is not None and before.admin), grantor)
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
                        Membership(other.role, False, other.grantor) if other.role == key else other
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
    told = []
    for name in granted:
        for member in members:
            one = _membership(get, name, member)
            if one is not None and (one.admin or not option):
                told.append(("NOTICE", f'role "{member}" is already a member of role "{name}"'))
    return told


def _not_members(
    get: Callable[[str], Role | None], granted: list[str], members: list[str]
) -> list[tuple[str, str]]:
    return [
        ("WARNING", f'role "{member}" is not a member of role "{name}"')
        for name in granted
        for member in members
        if _membership(get, name, member) is None
    ]


def _membership(get: Callable[[str], Role | None], name: str, member: str) -> Membership | None:
    role, one = get(name), get(member)
    if one is None or role is None:
        raise no_role(member)
    return next((other for other in one.memberships if other.role == role.ident), None)
