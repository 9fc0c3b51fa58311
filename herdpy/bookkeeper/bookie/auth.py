"""Authentication: the exchange of tokens with which a new connection begins, if the bookie asks for one.

Above the frames and below the handle: `establish` runs `authenticate` once for each connection, before any
other request is sent (after TLS, where there is TLS).

Format: AUTH requests and replies of BookKeeper's protocol (proto/AuthHandler.java, auth/).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from herdpy.bookkeeper.auth_provider import AuthExchange, AuthProvider
from herdpy.bookkeeper.errors import AuthenticationError
from herdpy.bookkeeper.wire.replies import AuthReply
from herdpy.bookkeeper.wire.status import ReplyStatus

__all__ = ["MAX_ROUNDS", "NO_AUTHENTICATION_PLUGIN", "AuthExchange", "AuthProvider", "authenticate"]

NO_AUTHENTICATION_PLUGIN = "AuthDisabledPlugin"
"""The plugin named by a bookie that authenticates nobody (auth/AuthProviderFactoryFactory.java)."""

MAX_ROUNDS = 16
"""Tokens sent before the exchange is given up: more than any mechanism needs, and not for ever."""


async def authenticate(
    provider: AuthProvider, host: str, ask: Callable[[str, bytes], Awaitable[tuple[int, AuthReply | None]]]
) -> None:
    """Run one exchange to its end; `ask(plugin, payload)` sends a token and gives status and reply.

    Returns also when the bookie says that it authenticates nobody. Raises AuthenticationError when the bookie
    refuses, runs another plugin, or does not come to an end.
    """
    exchange = provider.exchange(host)
    payload = exchange.start()
    for _ in range(MAX_ROUNDS):
        status, reply = await ask(provider.plugin, payload)
        if status != ReplyStatus.EOK or reply is None:
            raise AuthenticationError(f"the bookie refused to authenticate this client (status {status})")
        if reply.plugin == NO_AUTHENTICATION_PLUGIN:
            return
        if reply.plugin != provider.plugin:
            raise AuthenticationError(f"the bookie answered with the plugin {reply.plugin[:100]!r}")
        answer = exchange.respond(reply.payload)
        if answer is None:
            return
        payload = answer
    raise AuthenticationError(f"authentication did not end within {MAX_ROUNDS} rounds")
