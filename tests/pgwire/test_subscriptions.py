"""Streams that a call offers and a connection takes with its ticket: who gets what, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from herdpy.rpc.subscription import SUBSCRIBE_CODE, subscribed
from herdpy_server.pgwire import PgServer, PgSettings
from herdpy_server.pgwire.subscriptions import Subscription
from herdpy_server.serving import Databases
from tests.pgwire.wire import message, packet

HELLO = message("d")


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[PgServer]:
    """A server that has no databases."""
    server = PgServer(cast(Databases, None), PgSettings(port=0, **settings))
    await server.start()
    try:
        yield server
        async with asyncio.timeout(20):
            while server.connections:
                await asyncio.sleep(0.005)
    finally:
        await server.stop()


def run(program: Callable[[PgServer], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), serving(**settings) as server:
            await program(server)

    asyncio.run(main())


def request(ticket: bytes) -> bytes:
    return packet(struct.pack(">I", SUBSCRIBE_CODE) + ticket)


async def until_sent(subscription: Subscription, body: bytes) -> None:
    """Send it once there is a connection."""
    while not await subscription.send(body):
        await asyncio.sleep(0.005)


def test_what_is_sent_arrives_in_order_until_the_stream_ends() -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        bodies = [b"%d" % at * at for at in range(1, 200)]

        async def send() -> None:
            await until_sent(subscription, bodies[0])
            for body in bodies[1:]:
                assert await subscription.send(body)
            subscription.end()

        sending = asyncio.create_task(send())
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, None)
        assert [one async for one in messages] == bodies
        await sending

    run(program)


def test_a_stream_that_is_offered_again_has_its_newest_ticket_alone() -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        tickets = [subscription.ticket, *(subscription.offer_again() for _ in range(2))]
        for old in tickets[:2]:
            assert [one async for one in subscribed("127.0.0.1", server.port, old, None)] == []
        async with aclosing(subscribed("127.0.0.1", server.port, tickets[2], None)) as messages:
            first = asyncio.ensure_future(anext(messages))
            await until_sent(subscription, b"one")
            assert await first == b"one"
        subscription.end()

    run(program)


def test_a_ticket_is_good_once_and_no_longer_than_its_call() -> None:
    async def program(server: PgServer) -> None:
        first, second = (server.context.subscriptions.offer() for _ in range(2))
        async with aclosing(subscribed("127.0.0.1", server.port, first.ticket, None)) as messages:
            sending = asyncio.create_task(until_sent(first, b"one"))
            assert await anext(messages) == b"one"
            await sending
            again = subscribed("127.0.0.1", server.port, first.ticket, None)
            assert [one async for one in again] == []
            assert await first.send(b"two")
            assert await anext(messages) == b"two"
        second.end()
        late = subscribed("127.0.0.1", server.port, second.ticket, None)
        assert [one async for one in late] == []

    run(program)


@pytest.mark.parametrize(
    "sent",
    [request(bytes(16)), request(bytes(15)), request(bytes(17)), request(b"")],
    ids=["unknown", "short", "long", "empty"],
)
def test_another_ticket_gets_nothing(sent: bytes) -> None:
    async def program(server: PgServer) -> None:
        server.context.subscriptions.offer()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()

    run(program)


def test_the_call_learns_that_the_connection_is_gone() -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        assert not await subscription.send(b"nobody is there")
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, None)
        sending = asyncio.create_task(until_sent(subscription, b"one"))
        assert await anext(messages) == b"one"
        await sending
        await messages.aclose()
        while await subscription.send(b"two"):
            await asyncio.sleep(0.005)
        subscription.end()

    run(program)


@pytest.mark.parametrize("ends", [False, True])
def test_who_says_more_than_its_ticket_is_cut_off(ends: bool) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(subscription.ticket))
        assert await reader.readexactly(len(HELLO)) == HELLO
        if ends:
            writer.write_eof()
        else:
            writer.write(b"Q")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert not await subscription.send(b"one")

    run(program)


def test_a_sender_waits_for_a_receiver_that_does_not_read() -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(request(subscription.ticket))
        assert await reader.readexactly(len(HELLO)) == HELLO
        body, sent = bytes(1 << 20), 0

        async def send() -> None:
            nonlocal sent
            for sent in range(100):  # noqa: B007 - looked at outside
                if not await subscription.send(body):
                    return

        sending = asyncio.create_task(send())
        while not any(one.is_full for one in server._connections):
            await asyncio.sleep(0.005)
        assert not sending.done()
        writer.transport.abort()  # which ends the waiting
        await sending
        assert sent < 99

    run(program)


@pytest.mark.parametrize("answer", [b"", b"N", b"E\0\0\0\5x", b"d\0\0\0\3", b"d\x7f\0\0\0"])
def test_what_is_no_stream_is_none(answer: bytes) -> None:
    async def main() -> None:
        async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(24)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(answering, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert [one async for one in subscribed("127.0.0.1", port, bytes(16), None)] == []
        assert [one async for one in subscribed("127.0.0.1", port, bytes(16), None)] == []

    asyncio.run(main())


# TLS.


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("tls")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(directory / "certificate.pem", append=True)
    return {"tls_certificate": directory / "certificate.pem", "tls_key": directory / "key.pem"}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_stream_is_encrypted_where_the_call_was(authority: trustme.CA, files: dict[str, Path]) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        sending = asyncio.create_task(until_sent(subscription, b"one"))
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, trusting(authority))
        assert await anext(messages) == b"one"
        await sending
        subscription.end()
        assert [one async for one in messages] == []

    run(program, **files, tls_required=True)


def test_a_certificate_of_somebody_else_gets_no_ticket(files: dict[str, Path]) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, trusting(trustme.CA()))
        assert [one async for one in messages] == []
        assert not await subscription.send(b"one")
        assert server.context.subscriptions.claim(subscription.ticket) is subscription

    run(program, **files)


def test_where_encryption_is_required_a_ticket_in_the_clear_is_refused(files: dict[str, Path]) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, None)
        assert [one async for one in messages] == []
        assert not await subscription.send(b"one")

    run(program, **files, tls_required=True)


def test_a_server_without_tls_gets_no_ticket_of_an_encrypted_call(authority: trustme.CA) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, trusting(authority))
        assert [one async for one in messages] == []
        assert server.context.subscriptions.claim(subscription.ticket) is subscription

    run(program)


def test_the_other_side_sends_messages_where_the_stream_takes_them() -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        subscription.arrived = lambda body: subscription.post(body[::-1])
        sends: list[Callable[[bytes], object]] = []
        messages = subscribed("127.0.0.1", server.port, subscription.ticket, None, sends.append)
        first = asyncio.ensure_future(anext(messages))
        while not sends:
            await asyncio.sleep(0.005)
        for body in (b"123", b"45"):
            sends[0](body)
        assert [await first, await anext(messages)] == [b"321", b"54"]
        subscription.end()
        assert [one async for one in messages] == []
        sends[0](b"it is over")

    run(program)


@pytest.mark.parametrize("sent", [message("X"), message("Q", b"SELECT 1\0"), b"\0\0\0\0\0", b"d\0\0\0\1"])
def test_what_is_no_such_message_ends_the_stream(sent: bytes) -> None:
    async def program(server: PgServer) -> None:
        subscription = server.context.subscriptions.offer()
        arrived: list[bytes] = []
        subscription.arrived = arrived.append
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(subscription.ticket))
        assert await reader.readexactly(len(HELLO)) == HELLO
        writer.write(message("d", b"one") + sent)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert arrived == [b"one"]
        writer.close()

    run(program)
