"""PostgreSQL's protocol by hand: messages of a client made, those of a server taken apart."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 60.0


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack(">I", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def start_up(version: int = 3 << 16, **parameters: str) -> bytes:
    pairs = b"".join(text(name) + text(value) for name, value in parameters.items())
    return packet(struct.pack(">I", version) + pairs + b"\0")


def packet(body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 4) + body


SSL_REQUEST = packet(struct.pack(">I", 80877103))
GSS_REQUEST = packet(struct.pack(">I", 80877104))


def cancel_request(pid: int, secret: int) -> bytes:
    return packet(struct.pack(">III", 80877102, pid, secret))


def query(sql: str) -> bytes:
    return message("Q", text(sql))


def parse(sql: str, name: str = "", oids: Sequence[int] = ()) -> bytes:
    return message("P", text(name) + text(sql) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def bind(
    values: Sequence[bytes | None] = (),
    *,
    portal: str = "",
    statement: str = "",
    formats: Sequence[int] = (),
    results: Sequence[int] = (),
) -> bytes:
    body = text(portal) + text(statement) + struct.pack(f">H{len(formats)}h", len(formats), *formats)
    body += struct.pack(">H", len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message("B", body + struct.pack(f">H{len(results)}h", len(results), *results))


def describe(kind: str = "P", name: str = "") -> bytes:
    return message("D", kind.encode() + text(name))


def execute(portal: str = "", rows: int = 0) -> bytes:
    return message("E", text(portal) + struct.pack(">i", rows))


def close(kind: str, name: str = "") -> bytes:
    return message("C", kind.encode() + text(name))


SYNC = message("S")
FLUSH = message("H")
TERMINATE = message("X")


def copy_data(data: bytes) -> bytes:
    return message("d", data)


COPY_DONE = message("c")


def copy_fail(reason: str) -> bytes:
    return message("f", text(reason))


@dataclass(frozen=True)
class Reply:
    """One message of a server."""

    kind: str
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        """Of an error or a notice."""
        return {part[:1].decode(): part[1:].decode() for part in self.body.rstrip(b"\0").split(b"\0") if part}

    def meaning(self) -> Any:
        """What two servers must agree on."""
        body = self.body
        if self.kind in "EN":
            fields = self.fields
            return self.kind, fields["V"], fields["C"]
        if self.kind in "ZCDRctIns123GHW":
            return self.kind, body
        if self.kind == "T":
            return self.kind, columns(body)
        return (self.kind,)


def columns(body: bytes) -> list[tuple[str, int, int, int, int]]:
    """Name, type, length, modifier and format of each column of a RowDescription."""
    (count,) = struct.unpack_from(">H", body)
    at, found = 2, []
    for _ in range(count):
        end = body.index(0, at)
        _table, _attribute, oid, size, modifier, form = struct.unpack_from(">IhIhih", body, end + 1)
        found.append((body[at:end].decode(), oid, size, modifier, form))
        at = end + 19
    assert at == len(body)
    return found


def key_of(replies: list[Reply]) -> tuple[int, int]:
    """Process id and secret, by which what this connection runs is cancelled."""
    (body,) = [one.body for one in replies if one.kind == "K"]
    pid, secret = struct.unpack(">II", body)
    return pid, secret


class Wire:
    """A socket that speaks the protocol, and waits no longer than a test may take."""

    def __init__(self, address: tuple[str, int] | str) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(address)
        self.buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, *messages: bytes) -> None:
        self.socket.sendall(b"".join(messages))

    def _more(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.buffer += data
        return bool(data)

    def byte(self) -> bytes:
        """The one byte that answers a wish for encryption; empty at the end."""
        while not self.buffer:
            if not self._more():
                return b""
        one, self.buffer = self.buffer[:1], self.buffer[1:]
        return one

    def reply(self) -> Reply | None:
        """The next message; None at the end."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + struct.unpack_from(">I", self.buffer, 1)[0]:
            if not self._more():
                assert self.buffer == b"", "the server ended in the middle of a message"
                return None
        end = 1 + struct.unpack_from(">I", self.buffer, 1)[0]
        found = Reply(chr(self.buffer[0]), self.buffer[5:end])
        self.buffer = self.buffer[end:]
        return found

    def replies(self, last: str = "Z") -> list[Reply]:
        """Messages up to one of the type ``last``, or to the end."""
        found = []
        while True:
            one = self.reply()
            if one is None:
                return found
            found.append(one)
            if one.kind in last:
                return found

    def rest(self) -> list[Reply]:
        """All messages to the end."""
        return self.replies(last="")

    def start(self, user: str = "herdpy", **parameters: str) -> list[Reply]:
        self.send(start_up(user=user, **parameters))
        found = self.replies()
        assert found, "the server ended the connection"
        assert found[-1].kind == "Z", [one.meaning() for one in found]
        return found

    def ask(self, *messages: bytes) -> list[Reply]:
        self.send(*messages)
        return self.replies()
