"""What a way to authenticate at bookies looks like: for callers to write, and the connections to use.

Beside the settings, which carry one; ``bookie/connector.py`` runs its exchanges.
"""

from __future__ import annotations

from typing import Protocol


class AuthExchange(Protocol):
    """One connection's side of an authentication; made anew for each connection."""

    def start(self) -> bytes:
        """The first token to send (may be empty)."""

    def respond(self, payload: bytes) -> bytes | None:
        """The answer to the bookie's token; None when the bookie is satisfied and so are we.

        Raises AuthenticationError when the bookie's token is not acceptable.
        """


class AuthProvider(Protocol):
    """A way to authenticate at bookies: the name of the plugin they must run, and its exchanges.

    A provider serves all connections, also at the same time, so what belongs to one lives in its exchange.
    """

    @property
    def plugin(self) -> str:
        """The plugin's name as the bookie knows it."""

    def exchange(self, host: str) -> AuthExchange:
        """A new exchange for a connection to that host."""
