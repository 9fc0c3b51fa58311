"""CREATE, ALTER and DROP ROLE: who may do it, and what becomes of a role.

Beside ``control``, above ``roles``. Roles are not what a transaction changes: a change is done at once and
nothing takes it back, so inside BEGIN there is none.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import msgspec

from herdpy_server.sessions.membership_changes import check_admin, joined, left
from herdpy_server.sessions.passwords import Verifier
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.right_uses import uses_of
from herdpy_server.sessions.roles import Change, Role, Roles, created, dropped, new_key, no_role, replaced
from herdpy_server.sessions.work import Work
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_sql.parse.role_commands import RoleCommand
    from herdpy_sql.plan import ChangeRoles

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


async def change_roles(session: TransactionBlock, plan: ChangeRoles) -> Result:
    """Carry out one of them.

    Raises:
        SqlError: 42501 the user may not, 42710, 42704, 25001 inside a transaction block, 25006, 55006
            a role that is in use, 0A000 where there are no roles, and 22007 for a moment that is none.
    """
    command, roles = plan.command, session.roles
    if roles is None:
        raise SqlError("0A000", "an embedded database has no roles")
    if session.transaction is not None and not session.implicit:
        raise SqlError("25001", f"{command.name} cannot run inside a transaction block")
    if session.settings.read_only and not session.settings.standby:  # where roles are kept is asked then
        raise SqlError("25006", f"cannot execute {command.name} in a read-only transaction")
    roles.check_writable(command.name)
    names = [session.standing.name if name is None else name for name in command.roles]
    if command.name == "CREATE ROLE":
        _may(session, command, "create", None)
        checked_name(names[0])
        made = await _changed(session, command, msgspec.structs.replace(_NEW, name=names[0], key=new_key()))
        await roles.change(command.name, _with_members(session, roles, command, made))
    elif command.members:
        await _alter_group(session, roles, command, names[0])
    elif command.name == "ALTER ROLE":
        await _alter(session, roles, command, names[0])
    else:
        await _drop(session, roles, command, names)
    return Result(command.name, -1)


def _with_members(session: TransactionBlock, roles: Roles, command: RoleCommand, role: Role) -> Change:
    """A role more, and the memberships that it is made with."""
    for name in command.into:
        other = roles.get(name)
        if other is None:
            raise no_role(name)
        check_admin(session.standing, other)
    grantor = session.standing.key

    def change(known: Mapping[str, Role]) -> dict[str, Role]:
        made = created(role)(known)
        made = joined(list(command.into), [role.name], admin=False, grantor=grantor)(made)
        made = joined([role.name], list(command.members), admin=False, grantor=grantor)(made)
        return joined([role.name], list(command.admins), admin=True, grantor=grantor)(made)

    return change


async def _alter_group(session: TransactionBlock, roles: Roles, command: RoleCommand, name: str) -> None:
    role = roles.get(name)
    if role is None:
        raise no_role(name)
    check_admin(session.standing, role)
    members = list(command.members)
    change = joined([name], members, admin=False, grantor=session.standing.key)
    if command.drops_members:
        change = left([name], members, option_only=False)
    await roles.change(command.name, change)


async def _alter(session: TransactionBlock, roles: Roles, command: RoleCommand, name: str) -> None:
    role = roles.get(name)
    if role is None:
        raise no_role(name)
    own_password = role.ident == session.standing.key and command.sets_password and not _but_password(command)
    if not own_password:
        _may(session, command, "alter", role)
    if command.new_name is not None:
        if role.ident in (session.identity.key, session.standing.key):
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


async def _drop(session: TransactionBlock, roles: Roles, command: RoleCommand, names: list[str]) -> None:
    for name in names:
        role = roles.get(name)
        if role is None:
            if "IF EXISTS" not in command.options:
                raise no_role(name)
            session.notice("NOTICE", "00000", f'role "{name}" does not exist, skipping')
            continue
        if role.ident in (session.identity.key, session.standing.key):
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


def _may(session: TransactionBlock, command: RoleCommand, what: str, role: Role | None) -> None:
    """SqlError 42501 when the session's role may not do it."""
    own = session.standing
    if own.is_superuser:
        return
    strong = [flag for flag, on in command.flags if flag in _STRONG and (on or what == "alter")]
    if strong or (role is not None and role.is_superuser):
        raise SqlError("42501", f"must be superuser to {what} superusers")
    if not own.creates_roles:
        raise SqlError(
            "42501", f"permission denied to {what} role" if what != "alter" else "permission denied"
        )


async def _changed(session: TransactionBlock, command: RoleCommand, role: Role) -> Role:
    """The role with what the command says of it."""
    changes: dict[str, object] = {_FIELDS[flag]: on for flag, on in command.flags}
    if command.connection_limit is not None:
        changes["connection_limit"] = command.connection_limit
    if command.valid_until is not None:
        changes["valid_until"] = _moment(command.valid_until)
    if command.sets_password:
        changes["verifier"] = await _verifier(session, command.password)
    return msgspec.structs.replace(role, **changes)


async def _verifier(session: TransactionBlock, password: str | None) -> str | None:
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
