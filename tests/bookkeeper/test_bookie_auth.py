"""Authentication: a provider with two steps, and a bookie that agrees, refuses, or talks nonsense."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from herdpy.bookkeeper.bookie import UNAVAILABLE
from herdpy.bookkeeper.bookie.connection import MAX_ROUNDS, NO_AUTHENTICATION_PLUGIN
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


class TwoSteps:
    """Says hello, answers the challenge with its reverse, and wants to hear "welcome"."""

    plugin = "two-step"

    def exchange(self, host: str) -> TwoStepExchange:
        return TwoStepExchange(host)


class TwoStepExchange:
    def __init__(self, host: str) -> None:
        self._host = host
        self._challenged = False

    def start(self) -> bytes:
        return b"hello " + self._host.encode()

    def respond(self, payload: bytes) -> bytes | None:
        if not self._challenged:
            self._challenged = True
            return payload[::-1]
        if payload != b"welcome":
            raise AuthenticationError("this is not the bookie it says it is")
        return None


SETTINGS = ClientSettings(auth=TwoSteps(), backoff_first_s=60, backoff_max_s=60)


async def both_steps(peer, last: bytes = b"welcome") -> None:
    """The bookie's side of it."""
    hello = await peer.request()
    assert hello.header.operation == Operation.AUTH
    assert (hello.auth.plugin, hello.auth.payload) == ("two-step", b"hello 127.0.0.1")
    peer.reply_auth(hello, b"abc")
    answer = await peer.request()
    assert answer.auth.payload == b"cba"
    peer.reply_auth(answer, last)


@on_both_loops
def test_requests_wait_until_both_steps_are_done(loop: str) -> None:
    async def test() -> None:
        async with scripted(SETTINGS) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            peer = await server.accept()
            await both_steps(peer)
            request = await peer.request()
            assert request.header.operation == Operation.ADD_ENTRY
            peer.reply(request)
            assert await op.status() == ReplyStatus.EOK

            peer.abort()  # and each connection authenticates anew
            other = Op()
            send_add(pool, bookie, other)
            while other.statuses or not bookie.metrics.disconnections:  # until the client knows of the end
                await asyncio.sleep(0)
                if other.statuses:
                    other = Op()
                    send_add(pool, bookie, other)
            if not bookie.pending_bytes:
                other = Op()
                send_add(pool, bookie, other)
            peer = await server.accept()
            await both_steps(peer)
            peer.reply(await peer.request())
            assert await other.status() == ReplyStatus.EOK

    run(test, loop)


def test_a_refusal_is_told_to_all_that_wait() -> None:
    async def test() -> None:
        async with scripted(SETTINGS) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            waiting = [
                asyncio.create_task(bookie.read(LEDGER, 0)),
                asyncio.create_task(bookie.force(LEDGER)),
            ]
            peer = await server.accept()
            peer.send(frame(response_to(await peer.request(), ReplyStatus.EUA)))
            peer.close()
            for task in waiting:
                with pytest.raises(AuthenticationError, match="502"):
                    await task
            assert await op.status() == UNAVAILABLE
            assert isinstance(bookie.failure, AuthenticationError)
            with pytest.raises(AuthenticationError):  # also who comes during the pause gets the reason
                await bookie.read(LEDGER, 0)
            assert server.accepted == 1

    run(test)


def test_a_bookie_that_cannot_prove_itself_is_not_trusted() -> None:
    async def test() -> None:
        async with scripted(SETTINGS) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            await both_steps(peer, last=b"come in")
            with pytest.raises(AuthenticationError, match="not the bookie"):
                await read
            assert await peer.reader.read() == b""

    run(test)


def test_a_bookie_that_authenticates_nobody_is_used() -> None:
    async def test() -> None:
        async with scripted(SETTINGS) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            peer = await server.accept()
            peer.reply_auth(await peer.request(), b"", plugin=NO_AUTHENTICATION_PLUGIN)
            peer.reply(await peer.request())
            assert await op.status() == ReplyStatus.EOK

    run(test)


def test_a_bookie_with_another_plugin_is_refused() -> None:
    async def test() -> None:
        async with scripted(SETTINGS) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            peer.reply_auth(await peer.request(), b"", plugin="sasl")
            with pytest.raises(AuthenticationError, match="'sasl'"):
                await read

    run(test)


def test_an_exchange_without_end_is_ended() -> None:
    class Endless(TwoSteps):
        def exchange(self, host: str) -> EndlessExchange:
            return EndlessExchange(host)

    class EndlessExchange(TwoStepExchange):
        def respond(self, payload: bytes) -> bytes:
            return payload

    async def test() -> None:
        async with scripted(ClientSettings(auth=Endless())) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            peer = await server.accept()
            for _ in range(MAX_ROUNDS):
                peer.reply_auth(await peer.request(), b"again")
            with pytest.raises(AuthenticationError, match=str(MAX_ROUNDS)):
                await read

    run(test)


def test_silence_is_a_time_out_that_says_what_it_may_mean() -> None:
    async def test() -> None:
        settings = ClientSettings(auth=TwoSteps(), connect_timeout_s=0.1)
        async with scripted(settings) as (server, bookie, _):
            read = asyncio.create_task(bookie.read(LEDGER, 0))
            await (await server.accept()).request()
            with pytest.raises(BookieUnavailableError, match="reject credentials by staying silent"):
                await read

    run(test)


@on_both_loops
def test_under_tls_a_complaint_about_tls_is_not_the_answer(loop: str) -> None:
    authority = trustme.CA()
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)

    async def test() -> None:
        async with scripted(ClientSettings(tls=ours, auth=TwoSteps())) as (server, bookie, pool):
            op = Op()
            send_add(pool, bookie, op)
            peer = await server.accept()
            request = await peer.request()
            peer.reply(request)
            await peer.start_tls(theirs)
            complaint = response_to(request, ReplyStatus.EIO)
            complaint.ClearField("start_tls")
            peer.send(frame(complaint))
            await both_steps(peer)
            peer.reply(await peer.request())
            assert await op.status() == ReplyStatus.EOK

    run(test, loop)


def test_a_provider_does_not_appear_in_the_representation_of_settings() -> None:
    assert "TwoSteps" not in repr(SETTINGS)
