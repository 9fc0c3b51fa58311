"""The keys that a role acts as, out of what the server says of its roles. Below ``contents``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy_sql.system.contents import Context
    from herdpy_sql.system.state import Role


def keys_of(context: Context, user: str, *, inherited: bool = True) -> set[str] | None:
    """Keys that a role acts as; None of a superuser, who may do everything."""
    by_key: dict[str, Role] = {role.key: role for role in context.state.roles()}
    role = next((one for one in by_key.values() if one.name == user), None)
    if role is None or role.superuser:
        return None
    found, waiting = {role.key}, [role]
    while waiting:
        one = waiting.pop()
        for member in one.memberships if one.inherits or not inherited else ():
            other = by_key.get(member.role)
            if other is not None and other.key not in found:
                found.add(other.key)
                waiting.append(other)
    return found
