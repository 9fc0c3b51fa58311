"""ALTER ROLE ... SET and RESET: what the sessions of a role begin with, who may change it, how it is shown.

Above ``role``, below ``role_changes``, which calls this. A value is kept as it was written; the session's
settings have checked it. ``sessions.settings`` applies it at the login.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from herdpy_server.roles.role import Change, Role, RoleStore, no_role
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.commands import SHOWN_NAMES

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole, RoleSession
    from herdpy_sql.parse.role_commands import RoleCommand

MAX_SETTINGS = 1_000
"""Settings that a role can have."""

_Pairs = dict[str, str]


async def change_role_settings(
    session: RoleSession, roles: RoleStore, command: RoleCommand, name: str
) -> None:
    """Carry out one of them.

    Raises:
        SqlError: 42704 there is no such role or setting, 42501, 22023 the value is wrong, 55P02 the setting
            cannot be changed, 0A000 no role can have it, 53400 there are too many.
    """
    role = roles.get(name)
    if role is None:
        raise no_role(name)
    _may(session.effective_role, role)
    settings, setting = session.settings, command.setting
    value = settings[setting] if command.from_current else command.value
    if setting == "all":
        await roles.change(command.name, _with(name, lambda pairs: settings.not_to_reset(pairs)))
        return
    kept = settings.checked_for_role(setting, value)
    if kept is None:
        await roles.change(command.name, _with(name, lambda pairs: _without(pairs, setting)))
    else:
        await roles.change(command.name, _with(name, lambda pairs: {**pairs, setting: kept}))


def shown_settings(role: Role) -> tuple[str, ...] | None:
    """As pg_roles.rolconfig has them; None for none."""
    return tuple(f"{SHOWN_NAMES.get(name, name)}={value}" for name, value in role.settings) or None


def _may(own: EffectiveRole, role: Role) -> None:
    """SqlError 42501 when a role may not change the settings of another, or its own."""
    if own.is_superuser:
        return
    if role.is_superuser:
        raise SqlError("42501", "must be superuser to alter superusers")
    if not own.creates_roles and role.ident != own.key:
        raise SqlError("42501", "permission denied")


def _without(pairs: _Pairs, setting: str) -> _Pairs:
    return {name: value for name, value in pairs.items() if name != setting}


def _with(name: str, change: Callable[[_Pairs], _Pairs]) -> Change:
    """The role with other settings, as ``change`` makes them of those that it has then."""

    def changed(roles: Mapping[str, Role]) -> dict[str, Role]:
        role = roles.get(name)
        if role is None:
            raise no_role(name)
        pairs = change(dict(role.settings))
        if len(pairs) > MAX_SETTINGS:
            raise SqlError("53400", f"a role can have at most {MAX_SETTINGS} settings")
        return {**roles, name: msgspec.structs.replace(role, settings=tuple(pairs.items()))}

    return changed
