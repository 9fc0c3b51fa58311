"""The session that a statement about roles or rights runs in, as far as this package knows sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole
    from herdpy_server.roles.role import Roles
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Catalog


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


class RoleSession(Protocol):
    """See ``sessions.block.TransactionBlock``."""

    roles: Roles | None
    effective_role: EffectiveRole
    effective_role_of: Callable[[str], EffectiveRole]
    transaction: Transaction | None
    implicit: bool

    @property
    def identity(self) -> RoleIdentity:
        """Who the client is."""

    @property
    def settings(self) -> RoleSettings:
        """What SET and SHOW act upon."""

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""

    def notice(self, severity: str, sqlstate: str, message: str) -> None:
        """Say something to the client."""
