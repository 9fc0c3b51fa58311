"""What a role may do by what it is and whose member it is: the keys it acts as.

Above ``role``, below ``permissions``. An :class:`EffectiveRole` is made once for a role and holds until any
role changes; then all of them are made anew (:class:`EffectiveRoles`), and with them goes what was found to
be permitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from herdpy_server.roles.role import Role, RoleStore
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM
from herdpy_sql.system.state import OWNER

if TYPE_CHECKING:
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Catalog


@dataclass(frozen=True, slots=True, eq=False)
class EffectiveRole:
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


def unlimited_role(name: str = OWNER) -> EffectiveRole:
    """Of who is no role: he came in because this machine is trusted, and may do everything."""
    keys = frozenset({SYSTEM})
    return EffectiveRole(name, SYSTEM, True, keys, keys)


def dropped_role(key: str) -> EffectiveRole:
    """Of a role that is not there any more."""
    keys = frozenset({key})
    return EffectiveRole(key, key, False, keys, keys)


def effective_role_of(role: Role, by_key: Mapping[str, Role]) -> EffectiveRole:
    """What a role may do, among those that there are."""
    keys = _reached(role, by_key, inherited=True)
    roles = _reached(role, by_key, inherited=False)
    members = [one for key in roles if key in by_key for one in by_key[key].memberships]
    administered = frozenset(one.role for one in members if one.admin)
    return EffectiveRole(
        role.name, role.ident, role.is_superuser, keys, roles, administered, role.creates_roles
    )


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
    """RoleStore by their keys."""
    return {role.ident: role for role in roles}


class RoleIdentity(Protocol):
    """Who a session's client is; see ``sessions.identity``."""

    @property
    def user(self) -> str:
        """As who he logged in."""

    @property
    def key(self) -> str:
        """That role's key, SYSTEM of who is no role."""

    @property
    def database(self) -> str:
        """Where to."""


class RoleSettings(Protocol):
    """A session's settings; see ``sessions.settings``."""

    read_only: bool
    standby: bool
    path: tuple[str, ...]

    def __getitem__(self, name: str) -> str:
        """The value of a setting."""

    def checked_for_role(self, name: str, value: str | None) -> str | None:
        """A value as a role keeps it; SqlError where it cannot be one. None: it is to have none."""

    def not_to_reset(self, values: Mapping[str, str]) -> dict[str, str]:
        """Of a role's settings those that this session's user may not change."""


class RoleBearer(Protocol):
    """A session, as far as it says whose rights count in it."""

    @property
    def identity(self) -> RoleIdentity:
        """Who the client is."""

    @property
    def settings(self) -> RoleSettings:
        """What SET and SHOW act upon."""


class EffectiveRoles:
    """What the roles of a server may do, made when wanted and kept until any role changes. For the engine's
    turn.

    Args:
        roles: those that there are; None: there are none, and everybody may do everything.
    """

    def __init__(self, roles: RoleStore | None) -> None:
        self._roles = roles
        self._by_key: dict[str, Role] | None = None
        self._made: dict[str, EffectiveRole] = {}

    def forget(self) -> None:
        """RoleStore have changed."""
        self._by_key = None
        self._made.clear()

    @property
    def by_key(self) -> dict[str, Role]:
        """The roles by their keys."""
        if self._by_key is None:
            self._by_key = {} if self._roles is None else by_keys(self._roles)
        return self._by_key

    def of_key(self, key: str) -> EffectiveRole:
        """Of the role with that key: of one that is no more, nothing."""
        found = self._made.get(key)
        if found is None:
            role = self.by_key.get(key)
            if key == SYSTEM:
                found = unlimited_role()
            else:
                found = dropped_role(key) if role is None else effective_role_of(role, self.by_key)
            self._made[key] = found
        return found

    def of_name(self, name: str) -> EffectiveRole:
        """Of the role of that name; who is no role may do everything."""
        role = None if self._roles is None else self._roles.get(name)
        return unlimited_role(name) if role is None else self.of_key(role.ident)

    def of_session(self, session: RoleBearer) -> EffectiveRole:
        """Of the role whose rights count in a session: SET ROLE's, or its user's."""
        settings, identity = session.settings, session.identity
        role, user = settings["role"], settings["session_authorization"]
        if role == "none" and user in ("", identity.user):
            return self._of_login(session)
        name = user if role == "none" else role
        found = None if self._roles is None else self._roles.get(name)
        if found is not None:
            return self.of_key(found.ident)
        return self._of_login(session) if name == identity.user else dropped_role(name)

    def _of_login(self, session: RoleBearer) -> EffectiveRole:
        identity = session.identity
        return unlimited_role(identity.user) if identity.key == SYSTEM else self.of_key(identity.key)

    def check(self, session: RoleBearer, name: str, value: str) -> None:
        """Before a session takes on a role by SET ROLE or SET SESSION AUTHORIZATION.

        Raises:
            SqlError: 22023 there is no such role, 42501 the session's user may not.
        """
        identity = session.identity
        login = self._of_login(session)
        if name == "role" and value == "none":
            return
        role = None if self._roles is None else self._roles.get(value)
        is_own = value == identity.user and (role is None or role.ident == identity.key)
        if is_own and (name == "session_authorization" or login.is_superuser):
            return
        if role is None:
            raise SqlError("22023", f'role "{value}" does not exist')
        if name == "session_authorization":
            if not login.is_superuser:
                raise SqlError("42501", "permission denied to set session authorization")
            return
        user = session.settings["session_authorization"]
        mine = login if user in ("", identity.user) else self.of_name(user)
        if not mine.is_superuser and role.ident not in mine.roles:
            raise SqlError("42501", f'permission denied to set role "{value}"')


class RoleSession(RoleBearer, Protocol):
    """See ``sessions.block.TransactionBlock``."""

    roles: RoleStore | None
    effective_role: EffectiveRole
    effective_role_of: Callable[[str], EffectiveRole]
    transaction: Transaction | None
    implicit: bool

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""

    def notice(self, severity: str, sqlstate: str, message: str) -> None:
        """Say something to the client."""
