"""The client of a session that another node forwards, as the leader knows it.

Below ``conversation``, which keeps it; ``forwarded`` makes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from herdpy_server.pgwire.backend import message

if TYPE_CHECKING:
    from herdpy_server.sessions import Session


@dataclass(slots=True)
class ForwardedClient:
    """Of whom a forwarded session is, and what its node knows of it.

    Attributes:
        node: the node that forwards it. ``address``, ``port``: where its client is; None for a Unix socket.
        pid: the session's process id at that node; 0 of a node of version 0.1.
    """

    node: str
    address: str | None
    port: int | None
    pid: int = 0
    _settings: dict[str, str] = field(default_factory=dict)  # as the node has them
    _revision: int = -1
    _temporary: str = ""
    _named: str = ""  # the client's own name of the next commit, as the node knows it
    _given: str = ""  # the name that the node has given the next commit

    def names(self, name: str, *, is_own: bool) -> None:
        """The node gives the next commit a name; ``is_own``: its client chose it."""
        self._given = name
        self._named = name if is_own else ""

    def took(self, session: Session) -> None:
        """The session has the settings of the client's."""
        self._settings = session.settings.differences()
        self._revision = session.settings.revision

    def status(self, session: Session) -> bytes:
        """Before ReadyForQuery: what the node has to know; b"" for nothing."""
        settings = session.settings
        changes: dict[str, Any] = {}
        if settings.standby:
            changes["leads"] = False
        name = settings.request_id.decode()
        # A name that the node made is of one request, and may be left of one that committed nothing.
        own = "" if name == self._given and not self._named else name
        if own != self._named:
            changes["request_id"] = self._named = own
        if settings.revision != self._revision:
            self._revision = settings.revision
            now = settings.differences()
            different: dict[str, str | None] = {
                name: now.get(name) for name in now.keys() | self._settings.keys()
                if now.get(name) != self._settings.get(name)
            }  # fmt: skip
            if different:
                changes["settings"] = different
                self._settings = now
            if settings.temporary_schema != self._temporary:
                changes["temporary"] = self._temporary = settings.temporary_schema
        return message(b"h", json.dumps(changes).encode()) if changes else b""
