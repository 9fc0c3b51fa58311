"""Whatever comes before a session has begun lets nobody in, leaves nothing and disturbs nobody.

Openings are drawn by seed: wishes for TLS and GSSAPI, requests to cancel, start-up packets and the messages
of SCRAM, in and out of order, whole, cut and with bytes changed. ``HERDPY_SEED`` replays one seed; the soak
goes on for ``HERDPY_SOAK_SECONDS``.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.test_authentication import Passwords
from tests.pgwire.test_clients_that_misbehave import served_throughout
from tests.pgwire.wire import (
    GSS_REQUEST,
    SSL_REQUEST,
    SYNC,
    Wire,
    cancel_request,
    message,
    packet,
    parse,
    query,
    start_up,
    text,
)

SEED = int(os.environ.get("HERDPY_SEED", "0"))
SECONDS = float(os.environ.get("HERDPY_SOAK_SECONDS", "60"))
LET_IN = b"\0\0\0\0"


class OneGuarded(Passwords):
    """Everybody needs a password but herdpy, who works beside."""

    def method(self, user: str, address: str | None) -> str:
        return "trust" if user == "herdpy" else "scram-sha-256"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[ThreadServer]:
    with thread_server(
        tmp_path_factory.mktemp("fuzzed") / "data",
        OneGuarded(ann="right"),
        tls_certificate=files / "certificate.pem",
        tls_key=files / "key.pem",
    ) as found:
        yield found
        found.wait_for(found.is_clean)


def sasl_first(dice: random.Random) -> bytes:
    mechanism = dice.choice(["SCRAM-SHA-256", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "MD5", ""])
    flag = dice.choice([b"n", b"n", b"y", b"p=tls-server-end-point", b""])
    first = (
        flag + dice.choice([b",,", b",,", b",a=bob,", b","]) + b"n=ann,r=" + dice.randbytes(9).hex().encode()
    )
    length = dice.choice([len(first)] * 4 + [-1, 0, len(first) + 1, 2**31 - 1])
    return message("p", text(mechanism) + struct.pack(">i", length) + first)


def sasl_final(dice: random.Random, challenge: bytes) -> bytes:
    """An answer to a challenge, with a proof that nobody who lacks the password can make."""
    nonce = challenge.partition(b"r=")[2].partition(b",")[0] or b"abc"
    nonce = dice.choice([nonce, nonce, nonce, nonce[:-1], b""])
    proof = base64.b64encode(dice.choice([dice.randbytes(32)] * 3 + [dice.randbytes(31), b""]))
    channel = dice.choice([b"biws"] * 4 + [b"eSws", b"", b"!"])
    return message(
        "p", b"c=" + channel + b",r=" + nonce + b",p=" + dice.choice([proof, proof, proof, b"*", proof * 90])
    )


def changed(dice: random.Random, data: bytes) -> bytes:
    """As it is, or with a byte of it changed, or cut, or with more after it."""
    at = dice.randrange(len(data))
    return dice.choice(
        [
            data,
            data,
            data,
            data[:at] + dice.randbytes(1) + data[at + 1 :],
            data[:at],
            data + dice.randbytes(dice.randrange(1, 40)),
        ]
    )


def step(dice: random.Random, heard: bytes) -> bytes:
    """The next that a stranger says."""
    user = dice.choice(["ann", "ann", "ann", "nobody there", "", "herdpy\0", "x" * 9000])
    return changed(
        dice,
        dice.choice(
            [
                SSL_REQUEST,
                GSS_REQUEST,
                cancel_request(dice.randrange(2**32), dice.randrange(2**32)),
                start_up(user=user, database="x" * dice.randrange(70)),
                start_up(user=user, options=dice.choice(["-c a.b=c", "--x", "\\", "-c role=herdpy"])),
                start_up(dice.choice([2 << 16, (3 << 16) + 2, 9 << 16]), user=user),
                packet(struct.pack(">I", 3 << 16) + dice.randbytes(dice.randrange(40))),
                sasl_first(dice),
                sasl_first(dice),
                sasl_final(dice, heard),
                sasl_final(dice, heard),
                query("SELECT 1"),
                parse("SELECT 1") + SYNC,
                message("p", b"right\0"),
            ]
        ),
    )


def stranger(server: ThreadServer, seed: int) -> None:
    """One opening. Its messages are distinguished as far as they are ones; none may be that he is in."""
    dice = random.Random(seed)
    heard = b""
    with Wire(server.address) as wire, contextlib.suppress(ConnectionError, TimeoutError):
        wire.socket.settimeout(0.05)  # where nothing is answered more may come
        if dice.random() < 0.7:
            wire.send(start_up(user="ann"))
            heard += _heard(wire)
            if dice.random() < 0.8:
                wire.send(message("p", text("SCRAM-SHA-256") + struct.pack(">i", 12) + b"n,,n=,r=abcd"))
                heard += _heard(wire)
                if dice.random() < 0.5:
                    wire.send(sasl_final(dice, heard))
                    heard += _heard(wire)
        for _ in range(dice.randrange(1, 4)):
            wire.send(step(dice, heard))
            heard += _heard(wire)
    assert b"R\0\0\0\x08" + LET_IN not in heard, f"HERDPY_SEED={seed}: a stranger is in"
    assert b"Z\0\0\0\x05" not in heard, f"HERDPY_SEED={seed}: a stranger has a session"


def _heard(wire: Wire) -> bytes:
    try:
        return wire.socket.recv(65_536)
    except TimeoutError:
        return b""


def test_strangers_are_not_let_in(guarded: ThreadServer) -> None:
    with served_throughout(guarded.dsn):
        for seed in range(SEED, SEED + (80 if SEED == 0 else 1)):
            stranger(guarded, seed)
    guarded.wait_for(guarded.is_clean)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_strangers_are_not_let_in_however_many(guarded: ThreadServer) -> None:
    ends, seed = time.monotonic() + SECONDS, SEED
    with served_throughout(guarded.dsn):
        while time.monotonic() < ends:
            stranger(guarded, seed)
            seed += 1
    print(f"{seed - SEED} strangers came")
    guarded.wait_for(guarded.is_clean)
