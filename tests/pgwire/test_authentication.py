"""Who is let in: SCRAM with right and wrong passwords, TLS, and those who never finish."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
import trustme

from herdpy_server.roles.passwords import Verifier
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import SSL_REQUEST, Wire, message, start_up, text


class Passwords:
    """Asks everybody for a password, but lets "nobody" in never and "friend" always."""

    def __init__(self, **passwords: str) -> None:
        self._verifiers = {}
        for user, password in passwords.items():
            self._verifiers[user] = Verifier.of(password)

    def method(self, user: str, address: str | None) -> str:
        assert address == "127.0.0.1"
        return {"nobody": "reject", "friend": "trust"}.get(user, "scram-sha-256")

    def certificate(self, user: str, address: str | None) -> str:
        return {"full": "verify-full", "signed": "verify-ca"}.get(user, "")

    def verifier(self, user: str) -> Verifier | None:
        return self._verifiers.get(user)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(directory / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(directory / "certificate.pem", append=True)
    authority.cert_pem.write_to_path(directory / "ca.pem")
    return directory


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[ThreadServer]:
    """A server with TLS that asks for passwords."""
    with thread_server(
        tmp_path_factory.mktemp("guarded") / "data",
        Passwords(alice="right"),
        tls_certificate=files / "certificate.pem",
        tls_key=files / "key.pem",
    ) as found:
        yield found
        found.wait_for(found.is_clean)


def dsn(server: ThreadServer, **options: str) -> str:
    given = {"host": "127.0.0.1", "port": str(server.port), "dbname": "x", "user": "alice"} | options
    return " ".join(f"{name}={value}" for name, value in given.items())


@pytest.mark.parametrize("sslmode", ["disable", "require"])
@pytest.mark.parametrize("binding", ["disable", "prefer"])
def test_the_right_password_is_let_in(guarded: ThreadServer, sslmode: str, binding: str) -> None:
    options = {"password": "right", "sslmode": sslmode, "channel_binding": binding}
    with psycopg.connect(dsn(guarded, **options)) as connection:
        assert connection.pgconn.ssl_in_use is (sslmode == "require")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_password_can_be_bound_to_the_certificate(guarded: ThreadServer, files: Path) -> None:
    options = {"password": "right", "channel_binding": "require", "sslmode": "verify-full"}
    with psycopg.connect(dsn(guarded, sslrootcert=str(files / "ca.pem"), **options)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("user", ["alice", "stranger"])
@pytest.mark.parametrize("sslmode", ["disable", "require"])
def test_a_wrong_password_and_a_stranger_are_told_the_same(
    guarded: ThreadServer, user: str, sslmode: str
) -> None:
    with pytest.raises(psycopg.OperationalError, match=f'password authentication failed for user "{user}"'):
        psycopg.connect(dsn(guarded, user=user, password="wrong", sslmode=sslmode))


def test_who_is_rejected_is_not_asked(guarded: ThreadServer) -> None:
    with Wire(guarded.address) as wire:
        wire.send(start_up(user="nobody"))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "28000")]


def test_who_is_trusted_is_not_asked(guarded: ThreadServer) -> None:
    with Wire(guarded.address) as wire:
        assert wire.start(user="friend")[0].meaning() == ("R", b"\0\0\0\0")


def test_asyncpg_is_let_in(guarded: ThreadServer, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def main() -> None:
        for tls in (False, context):
            connection = await asyncpg.connect(
                host="127.0.0.1", port=guarded.port, user="alice", password="right", database="x", ssl=tls
            )
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(
                host="127.0.0.1", port=guarded.port, user="alice", password="x", database="x", ssl=False
            )

    asyncio.run(main())


def initial(mechanism: str, first: bytes) -> bytes:
    return message("p", text(mechanism) + struct.pack(">i", len(first)) + first)


@pytest.mark.parametrize(
    ("messages", "sqlstate"),
    [
        ([message("Q", b"SELECT 1\0")], "08P01"),
        ([message("p", b"password\0")], "08P01"),
        ([initial("MD5", b"")], "08P01"),
        ([initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc")], "08P01"),
        ([initial("SCRAM-SHA-256", b"nonsense")], "08P01"),
        ([message("p", text("SCRAM-SHA-256") + struct.pack(">i", 99) + b"n,,n=,r=abc")], "08P01"),
        ([initial("SCRAM-SHA-256", b"n,,n=,r=abc"), message("p", b"nonsense")], "08P01"),
        ([initial("SCRAM-SHA-256", b"n,,n=,r=abc"), message("Q", b"SELECT 1\0")], "08P01"),
        ([b"p\0\x10\0\0"], "08P01"),
    ],
)
def test_nonsense_is_refused(guarded: ThreadServer, messages: list[bytes], sqlstate: str) -> None:
    with Wire(guarded.address) as wire:
        wire.send(start_up(user="alice"), *messages)
        replies = [one.meaning() for one in wire.rest()]
    assert replies[-1] == ("E", "FATAL", sqlstate)
    assert all(one[0] in "RE" for one in replies)


def test_bytes_in_plain_after_the_wish_for_tls_are_refused(guarded: ThreadServer) -> None:
    with Wire(guarded.address) as wire:
        wire.send(SSL_REQUEST, start_up(user="alice"))
        assert [one.meaning() for one in wire.rest()] == [("E", "FATAL", "08P01")]


def test_a_handshake_that_fails_ends_the_connection(guarded: ThreadServer) -> None:
    with Wire(guarded.address) as wire:
        wire.send(SSL_REQUEST)
        assert wire.byte() == b"S"
        wire.send(b"this is no handshake" * 10)
        while wire.byte():  # an alert, perhaps
            pass


def test_tls_can_be_required(tmp_path: Path, files: Path) -> None:
    settings = {"tls_certificate": files / "certificate.pem", "tls_key": files / "key.pem"}
    with thread_server(tmp_path / "data", tls_required=True, **settings) as server:
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            psycopg.connect(dsn(server, sslmode="disable"))
        psycopg.connect(dsn(server, sslmode="require")).close()


def test_a_big_result_goes_through_tls(guarded: ThreadServer) -> None:
    with psycopg.connect(dsn(guarded, password="right", sslmode="require")) as connection:
        rows = connection.execute(
            "SELECT i, repeat('x', 100) FROM generate_series(1, 20000) AS g(i)"
        ).fetchall()
        digest = hashlib.sha256(repr([i for i, _ in rows]).encode()).hexdigest()
        assert digest == hashlib.sha256(repr(list(range(1, 20001))).encode()).hexdigest()
        assert {words for _, words in rows} == {"x" * 100}


def test_those_who_do_not_finish_in_time_are_sent_away(tmp_path: Path) -> None:
    passwords = Passwords(alice="right")
    with thread_server(tmp_path / "data", passwords, startup_timeout_s=0.3) as server:
        with Wire(server.address) as silent, Wire(server.address) as half, Wire(server.address) as asked:
            half.send(b"\0\0")
            asked.send(start_up(user="alice"))
            assert silent.rest() == []
            assert half.rest() == []
            assert [one.meaning()[0] for one in asked.rest()] == ["R", "E"]
        server.wait_for(server.is_clean)


def test_who_has_been_let_in_has_all_the_time(tmp_path: Path) -> None:
    with thread_server(tmp_path / "data", startup_timeout_s=0.2) as server, Wire(server.address) as wire:
        wire.start()
        with Wire(server.address) as silent:
            assert silent.rest() == []  # its time is up; the other began before
        assert wire.ask(message("Q", b"SELECT 1\0"))[-1].meaning() == ("Z", b"I")
