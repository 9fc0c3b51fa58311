"""A commit that fails at the end of a request, behind the answers of its statements, has failed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq

from herdpy.dbapi.remote.connection import refusal
from herdpy.dbapi.remote.wire import Wire, step

_READY = b"Z" + struct.pack(">ic", 5, b"I")


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


_DONE = _message(b"1") + _message(b"2") + _message(b"n") + _message(b"C", b"INSERT 0 1\0")
_LOST = _message(b"E", b"SERROR\0VERROR\0C08007\0Mthe outcome of the commit is not known\0\0")


def _serve(listener: socket.socket, at_sync: bytes) -> None:
    """One connection: a login without questions, then two statements and what comes of their Sync."""
    peer, _ = listener.accept()
    with peer, peer.makefile("rb") as received:
        (size,) = struct.unpack(">i", received.read(4))
        received.read(size - 4)
        peer.sendall(_message(b"R", struct.pack(">i", 0)) + _READY)
        while (kind := received.read(1)) not in (b"", b"X"):
            (size,) = struct.unpack(">i", received.read(4))
            received.read(size - 4)
            if kind == b"S":
                peer.sendall(2 * _DONE + at_sync + _READY)


@pytest.fixture
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, request.param))
        thread.start()
        where = f"host=127.0.0.1 port={listener.getsockname()[1]} user=a dbname=b sslmode=disable"
        with psycopg.connect(f"{where} gssencmode=disable", autocommit=True) as connection:
            yield Wire(connection.pgconn, lambda: True)
        thread.join()


@pytest.mark.parametrize("wire", [_LOST], indirect=True)
def test_it_is_told(wire: Wire) -> None:
    results = wire.run([step("SELECT name_the_commit()"), step("INSERT INTO t VALUES ($1)", 1)])
    refused = refusal(results)
    assert refused is not None
    assert refused.error_field(pq.DiagnosticField.SQLSTATE) == b"08007"
    assert not wire.is_broken


@pytest.mark.parametrize("wire", [b""], indirect=True)
def test_one_that_succeeds_is_done(wire: Wire) -> None:
    results = wire.run([step("SELECT name_the_commit()"), step("INSERT INTO t VALUES ($1)", 1)])
    assert refusal(results) is None
    assert len(results) == 2


@pytest.mark.parametrize("wire", [_LOST], indirect=True)
def test_it_is_told_of_a_statement_that_was_prepared(wire: Wire) -> None:
    """Which goes without libpq's pipeline."""
    one = step("INSERT INTO t VALUES ($1)", 1)
    wire._prepared._names[one[0], one[1].types] = b"herdpy_1"
    refused = refusal(wire.run([one]))
    assert refused is not None
    assert refused.error_field(pq.DiagnosticField.SQLSTATE) == b"08007"
    assert not wire.is_broken
