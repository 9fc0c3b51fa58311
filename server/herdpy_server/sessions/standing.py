"""What a role may do by what it is and whose member it is: the keys it acts as. Below ``rights``.

A :class:`Standing` is made once for a role and holds until any role changes; then all of them are made anew
(``registry``), and with them goes what was found to be permitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from herdpy_server.sessions.roles import Role
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system.state import OWNER


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """One role, as others' members and owners.

    Attributes:
        name, key: the role; see ``Role``.
        is_superuser: it may do everything.
        keys: of the roles whose rights it has: its own, and those it inherits from.
        roles: keys of all it is a member of, itself among them: which it may become by SET ROLE.
        administered: keys of those that it may take members into.
        creates_roles: it may make roles, and take members into any that is no superuser.
    """

    name: str
    key: str
    is_superuser: bool
    keys: frozenset[str]
    roles: frozenset[str]
    administered: frozenset[str] = frozenset()
    creates_roles: bool = False


def everything(name: str = OWNER) -> Standing:
    """Of who is no role: he came in because this machine is trusted, and may do everything."""
    keys = frozenset({SYSTEM})
    return Standing(name, SYSTEM, True, keys, keys)


def nothing(key: str) -> Standing:
    """Of a role that is not there any more."""
    keys = frozenset({key})
    return Standing(key, key, False, keys, keys)


def standing_of(role: Role, by_key: Mapping[str, Role]) -> Standing:
    """The standing of a role among those that there are."""
    keys = _reached(role, by_key, inherited=True)
    roles = _reached(role, by_key, inherited=False)
    members = [one for key in roles if key in by_key for one in by_key[key].memberships]
    administered = frozenset(one.role for one in members if one.admin)
    return Standing(role.name, role.ident, role.is_superuser, keys, roles, administered, role.creates_roles)


def _reached(role: Role, by_key: Mapping[str, Role], *, inherited: bool) -> frozenset[str]:
    found, waiting = {role.ident}, [role]
    while waiting:
        one = waiting.pop()
        if inherited and not one.inherits:
            continue
        for membership in one.memberships:
            other = by_key.get(membership.role)
            if other is not None and other.ident not in found:
                found.add(other.ident)
                waiting.append(other)
    return frozenset(found)


def by_keys(roles: Iterable[Role]) -> dict[str, Role]:
    """Roles by their keys."""
    return {role.ident: role for role in roles}
