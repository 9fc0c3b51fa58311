"""The link of a connection, as its cursors share it: with the lock, the notices and the reason for its end.

Above ``link``, below what uses it: ``connection`` makes one and closes it, cursors run statements on it,
``lifetime`` closes it at exit and disowns it after a fork.
"""

from __future__ import annotations

import contextlib
import threading
from typing import NoReturn

from herdpy.dbapi.errors import ProgrammingError
from herdpy.dbapi.link import BrokenLink, Link
from herdpy.dbapi.notices import Notices

_EXIT_PATIENCE_S = 5.0
_UNLIMITED = contextlib.nullcontext()


class SharedLink:
    """A link for one thread at a time: who calls it holds ``lock``, ``cancel`` and ``status`` apart.

    Attributes:
        link: the session; a BrokenLink once the connection is closed.
        name: what the connection is shown as.
        lock: held while a statement runs.
        said: the link's: what has not been delivered yet.
        notices: the newest, and who gets each.
        is_closed: the connection was closed.
        cancels: how often ``cancel`` was called: a stream ends with each, whatever runs at the moment.
    """

    __slots__ = ("__weakref__", "cancels", "is_closed", "link", "lock", "name", "notices", "said")

    def __init__(self, link: Link, name: str) -> None:
        self.link = link
        self.name = name
        self.lock = threading.Lock()
        self.said = link.said
        self.notices = Notices()
        self.is_closed = False
        self.cancels = 0

    def deliver_notices(self) -> None:
        """Give the handlers what was said: after the statement, without the lock, as they may run some."""
        with self.lock:
            notices = self.link.take_notices()
        self.notices.deliver(notices)

    def limited(self, timeout_s: float | None) -> contextlib.AbstractContextManager[None]:
        """Within the block statements may take so long; the caller has the lock."""
        if timeout_s is None:
            return _UNLIMITED
        if not timeout_s > 0:
            raise ProgrammingError(
                f"timeout_s is a number of seconds above 0, not {timeout_s!r}", sqlstate="22023"
            )
        return self.link.limited(timeout_s)

    def cancel(self) -> None:
        """End the statement that another thread runs, and streams."""
        self.cancels += 1
        self.link.cancel()

    def refuse(self) -> NoReturn:
        """Raise InterfaceError with the reason: the connection is closed."""
        link = self.link
        assert isinstance(link, BrokenLink)
        link.refuse()

    def close(self) -> None:
        """Close the connection; again does nothing."""
        with self.lock:
            if self.is_closed:
                return
            link, self.link = self.link, BrokenLink("the connection is closed", "08003", self.link.autocommit)
            self.is_closed = True
            link.close()

    def close_at_exit(self) -> None:
        """Close the connection although a daemon thread may run a statement."""
        if not self.lock.acquire(blocking=False):
            self.link.cancel()
            if not self.lock.acquire(timeout=_EXIT_PATIENCE_S):
                return
        self.lock.release()
        self.close()

    def disown(self) -> Link:
        """Make the connection useless in a forked child; returns its link, which is the parent's."""
        link, self.link = (
            self.link,
            BrokenLink("the connection was opened before a fork, in the parent process: open one here"),
        )
        self.lock = threading.Lock()
        self.is_closed = True
        return link
