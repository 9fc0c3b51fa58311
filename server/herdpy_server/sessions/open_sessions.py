"""The sessions of a tablespace that somebody holds: whoever hosts it ends their statements before it closes.

Beside ``session``. A session that nobody holds any more goes from here with it. Compiled, it is an object
that nobody can refer to weakly (docs/compiled.md), so each has a membership, which goes when it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

from herdpy_server.sessions.session import Session


class _Membership:
    """One session's."""

    __slots__ = ("__weakref__", "session")

    def __init__(self, session: Session) -> None:
        self.session = session


class OpenSessions:
    """See the module. In the engine's turn."""

    def __init__(self) -> None:
        self._members: WeakSet[_Membership] = WeakSet()

    def add(self, session: Session) -> None:
        """It has begun."""
        session.membership = membership = _Membership(session)
        self._members.add(membership)

    def __iter__(self) -> Iterator[Session]:
        return iter([one.session for one in list(self._members)])
