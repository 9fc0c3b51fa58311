"""The session that a statement about roles or rights runs in, as far as this package knows sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from herdpy_server.roles.effective_role import EffectiveRole, RoleBearer

if TYPE_CHECKING:
    from herdpy_server.roles.role import RoleStore
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Catalog


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
