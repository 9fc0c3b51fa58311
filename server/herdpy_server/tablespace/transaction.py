"""One open transaction: its view of the store, its locks, its settings. Held by a session.

Nothing of it is in the log before it commits. Its changes lie in its workspace's own layer; its
locks are held until its commit has a place in the log, or until it rolls back.
"""

from __future__ import annotations

import time

from herdpy_server.store import Workspace
from herdpy_server.tablespace.locks import Owner
from herdpy_sql.storage import Clock


def now_us() -> int:
    """The wall clock in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class Transaction:
    """An open transaction.

    Attributes:
        instant: an autocommit statement that begins and takes its place in the log within one turn
            (see ``locks``); False once it had to wait, and for BEGIN ... COMMIT.
        lock_timeout_s: how long a lock is waited for; None for ever.
        started_us: what now() says throughout.
        partner: the session's advisory locks, if it had some when the transaction began or took some in it.
        log_generation: of the tablespace when it began: see ``Tablespace.switch_log``.
        queried: whether a statement has begun that reads or writes: then the isolation level is settled.
        workspace: the view that its statements run against.
    """

    __slots__ = (
        "instant",
        "lock_timeout_s",
        "log_generation",
        "partner",
        "queried",
        "started_us",
        "workspace",
    )

    partner: Owner | None
    workspace: Workspace

    def __init__(
        self, *, instant: bool, lock_timeout_s: float | None = None, log_generation: int = 0
    ) -> None:
        self.instant = instant
        self.queried = False
        self.partner = None
        self.log_generation = log_generation
        self.lock_timeout_s = lock_timeout_s
        self.started_us = now_us()

    def begin_statement(self) -> None:
        """A statement begins to read or write. SqlError 72000 when its snapshot is too old."""
        self.queried = True
        self.workspace.begin_statement()

    def clock(self, zone: str) -> Clock:
        """The time that the statement beginning now may see."""
        now = self.started_us if self.instant else now_us()
        return Clock(self.started_us, now, zone, self.workspace)
