"""The standings of a server's roles, made when wanted and kept until any role changes. Below ``registry``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.roles import Role, Roles
from herdpy_server.sessions.standing import Standing, by_keys, everything, nothing, standing_of
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import SYSTEM

if TYPE_CHECKING:
    from herdpy_server.sessions.session import Session


class Standings:
    """Standings by role. For the engine's turn.

    Args:
        roles: those that there are; None: there are none, and everybody may do everything.
    """

    def __init__(self, roles: Roles | None) -> None:
        self._roles = roles
        self._by_key: dict[str, Role] | None = None
        self._made: dict[str, Standing] = {}

    def forget(self) -> None:
        """Roles have changed."""
        self._by_key = None
        self._made.clear()

    @property
    def by_key(self) -> dict[str, Role]:
        """The roles by their keys."""
        if self._by_key is None:
            self._by_key = {} if self._roles is None else by_keys(self._roles)
        return self._by_key

    def of_key(self, key: str) -> Standing:
        """Of the role with that key: of one that is no more, nothing."""
        found = self._made.get(key)
        if found is None:
            role = self.by_key.get(key)
            if key == SYSTEM:
                found = everything()
            else:
                found = nothing(key) if role is None else standing_of(role, self.by_key)
            self._made[key] = found
        return found

    def of_name(self, name: str) -> Standing:
        """Of the role of that name; who is no role may do everything."""
        role = None if self._roles is None else self._roles.get(name)
        return everything(name) if role is None else self.of_key(role.ident)

    def of_session(self, session: Session) -> Standing:
        """Of the role whose rights count in a session: SET ROLE's, or its user's."""
        settings, identity = session.settings, session.identity
        role, user = settings["role"], settings["session_authorization"]
        if role == "none" and user in ("", identity.user):
            return self._of_login(session)
        name = user if role == "none" else role
        found = None if self._roles is None else self._roles.get(name)
        if found is not None:
            return self.of_key(found.ident)
        return self._of_login(session) if name == identity.user else nothing(name)

    def _of_login(self, session: Session) -> Standing:
        identity = session.identity
        return everything(identity.user) if identity.key == SYSTEM else self.of_key(identity.key)

    def check(self, session: Session, name: str, value: str) -> None:
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
