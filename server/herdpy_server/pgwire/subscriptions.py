"""Streams of messages to other nodes, over connections to PostgreSQL's port instead of gRPC.

A gRPC call judges the caller, and offers its stream: the caller gets a ticket, connects, and sends the ticket
in its start-up packet (``frontend.SubscribeRequest``, after TLS where that is wanted). The call's later
messages go to that connection as CopyData, which costs both sides a third of what gRPC does. A ticket is good
for one connection, and as long as its call. Where no connection is, or it broke, the call sends its messages
itself, now and then with another ticket (:meth:`Subscription.offer_again`). The other side may send messages
too, where the call takes them (``Subscription.arrived``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

from herdpy.rpc.subscription import TICKET_BYTES
from herdpy_server.pgwire.backend import FatalError, SilentClose, message
from herdpy_server.pgwire.frontend import Inbox

_DATA = ord("d")


class TakingConnection(Protocol):
    """What is asked of a connection: ``ClientConnection``."""

    inbox: Inbox
    eof: bool
    is_full: bool

    def send(self, data: bytes, /) -> None: ...

    def write(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Subscriptions:
    """The streams that are offered now, by ticket."""

    def __init__(self) -> None:
        self._offers: dict[bytes, Subscription] = {}

    def offer(self) -> Subscription:
        """A new stream; end it with :meth:`Subscription.end`."""
        subscription = Subscription(self)
        self.add(subscription)
        return subscription

    def add(self, subscription: Subscription) -> None:
        """Offer a stream under the ticket that it has."""
        self._offers[subscription.ticket] = subscription

    def claim(self, ticket: bytes) -> Subscription | None:
        """The stream that a ticket is for, which it is not again; None: there is none."""
        return self._offers.pop(ticket, None)


class Subscription:
    """One stream; the stage of the connection that takes it.

    Attributes:
        ticket: who has it may take the stream.
        arrived: is given each message of the other side; None: it may send none.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.ticket = secrets.token_bytes(TICKET_BYTES)
        self.arrived: Callable[[bytes], object] | None = None
        self._subscriptions = subscriptions
        self._connection: TakingConnection | None = None
        self._roomy = asyncio.Event()

    def begin(self, connection: TakingConnection) -> None:
        """The stream goes to this connection, which has entered it; an empty message says so."""
        self._connection = connection
        connection.send(message(b"d", b""))
        connection.write()

    def offer_again(self) -> bytes:
        """Another ticket for the stream, in the place of the last one, which is good no more; where nothing
        has taken it.
        """
        self._subscriptions.claim(self.ticket)
        self.ticket = secrets.token_bytes(TICKET_BYTES)
        self._subscriptions.add(self)
        return self.ticket

    async def send(self, body: bytes) -> bool:
        """Send a message, and wait while the other side does not read; whether there is a connection."""
        connection = self._connection
        if connection is None:
            return False
        self.post(body)
        while connection.is_full and self._connection is not None:
            self._roomy.clear()
            await self._roomy.wait()
        return self._connection is not None

    def post(self, body: bytes) -> None:
        """Send a small message now, if there is a connection."""
        if self._connection is not None:
            self._connection.send(message(b"d", body))
            self._connection.write()

    def end(self) -> None:
        """Nothing comes any more."""
        self._subscriptions.claim(self.ticket)
        if self._connection is not None:
            self._connection.close()

    # What the connection calls.

    def advance(self) -> None:
        """There is room again; or something has arrived; or the other side ends."""
        self._roomy.set()
        connection = self._connection
        if connection is not None and (connection.eof or not self._takes(connection.inbox)):
            connection.abort()

    def _takes(self, inbox: Inbox) -> bool:
        """Pass on the messages that have arrived; whether they may come."""
        arrived = self.arrived
        if arrived is None:
            return not inbox.peek()
        try:
            while (found := inbox.next()) is not None:
                kind, at, stop = found
                if kind != _DATA:
                    return False
                arrived(inbox.data[at:stop])
        except (FatalError, SilentClose):
            return False
        return True

    def lost(self) -> None:
        """The other side is gone."""
        self._connection = None
        self._roomy.set()
