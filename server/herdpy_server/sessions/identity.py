"""Who a session's client is, and who else there is. Below ``block``; a door or the registry says it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from herdpy_sql.objects import SYSTEM
from herdpy_sql.system import Activity, RoleRow
from herdpy_sql.system.state import DATABASE, OWNER, SettingRow

_STARTED_US = time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a session's client is.

    Attributes:
        user: as who he logged in; ``key`` is that role's, SYSTEM of who is no role.
        started_us: when the server started, microseconds since 1970 UTC.
        address: where the client is; None for a Unix socket or this process.
    """

    user: str = OWNER
    database: str = DATABASE
    pid: int = 1
    started_us: int = _STARTED_US
    key: str = SYSTEM
    address: str | None = None


class SessionDirectory(Protocol):
    """Who else there is, and who might be."""

    def roles(self) -> Iterable[RoleRow]:
        """Every role."""

    def activity(self) -> Iterable[Activity]:
        """Every session."""

    def server_settings(self, user: str) -> Iterable[SettingRow]:
        """The server's configuration, as far as ``user`` may see it."""

    def signal(self, pid: int, *, terminate: bool, user: str) -> bool:
        """Have ``user`` cancel what a session runs, or end the session; False when there is no such session.

        SqlError 42501 when the user may not.
        """
