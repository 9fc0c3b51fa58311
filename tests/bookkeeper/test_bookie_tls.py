"""START_TLS: the connection turns into TLS before anything else is said, or is not used."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from herdpy.bookkeeper.bookie import UNAVAILABLE
from herdpy.bookkeeper.errors import AuthenticationError, BookieUnavailableError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import Operation, ReplyStatus
from tests.bookkeeper.scripted_bookie import (
    LEDGER,
    Op,
    frame,
    on_both_loops,
    response_to,
    run,
    scripted,
    send_add,
)


class Certificates:
    """A certificate authority, a server it vouches for, and a client that trusts it."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.authority = trustme.CA()
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(host).configure_cert(self.server)
        self.client = ssl.create_default_context()
        self.authority.configure_trust(self.client)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@on_both_loops
def test_requests_wait_for_tls_and_then_go_through_it(loop: str, certificates: Certificates) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, pool):
            big = b"y" * 3_000_000
            ops = [Op(), Op()]
            send_add(pool, bookie, ops[0])
            send_add(pool, bookie, ops[1], big)
            peer = await server.accept()
            request = await peer.request()
            assert request.header.operation == Operation.START_TLS
            assert request.HasField("start_tls")
            peer.reply(request)
            await peer.start_tls(certificates.server)
            requests = await peer.requests(2)
            assert requests[1].add.body == big
            for request in requests:
                peer.reply(request)
            assert [await op.status() for op in ops] == [ReplyStatus.EOK] * 2
            assert bookie.metrics.connections == 1

    run(test, loop)


@on_both_loops
def test_a_certificate_of_an_unknown_authority_is_refused(loop: str, certificates: Certificates) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            peer.reply(await peer.request())
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await peer.start_tls(Certificates().server)
            assert await op.status() == UNAVAILABLE
            with pytest.raises(AuthenticationError, match="certificate"):
                await read
            assert bookie.metrics.connections == 0

    run(test, loop)


def test_a_certificate_for_another_host_is_refused(certificates: Certificates) -> None:
    async def test() -> None:
        others = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificates.authority.issue_cert("bookie.example.org").configure_cert(others)
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            peer.reply(await peer.request())
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await peer.start_tls(others)
            with pytest.raises(AuthenticationError, match=r"127\.0\.0\.1"):
                await read

    run(test)


def test_a_bookie_without_tls_is_not_spoken_to_in_the_clear(certificates: Certificates) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            response = response_to(await peer.request(), ReplyStatus.EBADREQ)
            response.ClearField("start_tls")
            peer.send(frame(response))
            with pytest.raises(AuthenticationError, match="refuses TLS"):
                await read
            assert await peer.reader.read() == b""

    run(test)


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_said_before_tls_is_not_taken_for_what_is_said_under_it(
    certificates: Certificates, whole: bool
) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, pool):
            op = Op()
            txn = send_add(pool, bookie, op)
            peer = await server.accept()
            request = await peer.request()
            forged = response_to(request)  # somebody on the way answers the add that is to come
            forged.ClearField("start_tls")
            forged.header.operation, forged.header.txn = Operation.ADD_ENTRY, txn
            forged.add.status, forged.add.ledger_id, forged.add.entry_id = 0, LEDGER, 0
            injected = frame(forged) if whole else frame(forged)[:-1]
            peer.send(frame(response_to(request)) + injected)
            if whole:
                assert await op.status() == UNAVAILABLE
                assert "that was not requested" in str(bookie.failure)
            else:
                await peer.start_tls(certificates.server)
                peer.reply(await peer.request(), ReplyStatus.EFENCED)
                assert await op.status() == ReplyStatus.EFENCED

    run(test)


def test_a_bookie_that_leaves_during_the_handshake(certificates: Certificates) -> None:
    async def test() -> None:
        async with scripted(ClientSettings(tls=certificates.client)) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            peer.reply(await peer.request())
            await peer.reader.readexactly(5)  # the client's first TLS record
            peer.abort()
            with pytest.raises(BookieUnavailableError):
                await read

    run(test)


def test_a_tls_handshake_that_never_ends_times_out(certificates: Certificates) -> None:
    async def test() -> None:
        settings = ClientSettings(tls=certificates.client, connect_timeout_s=0.2)
        async with scripted(settings) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            peer.reply(await peer.request())
            with pytest.raises(BookieUnavailableError, match="starting TLS"):
                await read
            await peer.ended()

    run(test)
