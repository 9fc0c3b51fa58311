"""Fuzzed frames, fuzzed openings and half-open connections for as long as is wanted: nothing grows.

``HERDPY_SOAK_SECONDS`` says how long (60 without); ``HERDPY_SEED`` replays a seed. The storms are those of
``test_chaos``; here others come besides who never get as far as a session. Descriptors, threads, child
processes and resident memory are looked at when half of the time is over and at the end, each time with
nobody but the observer connected.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import psycopg
import pytest

from tests.pgwire.servers import ChildServer, child_server
from tests.pgwire.test_chaos import ACCOUNTS, MIB, SEED, children, settled, storm
from tests.pgwire.test_clients_that_misbehave import served_throughout
from tests.pgwire.wire import Wire, start_up

SECONDS = float(os.environ.get("HERDPY_SOAK_SECONDS", "60"))
HALF_OPEN = 30


def opening(dice: random.Random) -> bytes:
    """What a stranger says first: nothing, a part, nonsense, a wish for TLS and then nonsense."""
    whole = start_up(user="herdpy", database="x" * dice.randrange(60))
    at = dice.randrange(len(whole))
    return dice.choice(
        [
            b"",
            whole[:at],
            whole[:at] + dice.randbytes(1) + whole[at + 1 :],
            dice.randbytes(dice.randrange(64)),
            dice.randrange(2**32).to_bytes(4, "big") + dice.randbytes(dice.randrange(64)),
            b"\0\0\0\x08\x04\xd2\x16\x2f" + dice.randbytes(dice.randrange(400)),
            b"\x16\x03\x01" + dice.randbytes(300),
        ]
    )


def strangers(server: ChildServer, dice: random.Random, open_ones: list[Wire]) -> None:
    """Some come, some go; those that stay say nothing more."""
    for _ in range(10):
        wire = Wire(server.address)
        try:
            wire.send(opening(dice))
        except OSError:
            wire.close()
            continue
        open_ones.append(wire)
    while len(open_ones) > HALF_OPEN:
        open_ones.pop(dice.randrange(len(open_ones))).close()


def threads(server: ChildServer) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def fuzz(server: ChildServer, dice: random.Random, seconds: float) -> tuple[int, int, int, int]:
    """Storms for so long; then (descriptors, threads, processes, resident bytes)."""
    open_ones: list[Wire] = []
    ends = time.monotonic() + seconds
    with served_throughout(server.dsn):
        while True:
            strangers(server, dice, open_ones)
            storm(server, dice, 40)
            if time.monotonic() > ends:
                break
    for one in open_ones:
        one.close()
    settled(server)
    return server.descriptors, threads(server), children(server), server.resident_bytes


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_fuzzed_frames_and_half_open_connections_leave_nothing(tmp_path: Path) -> None:
    print(f"replay with HERDPY_SEED={SEED}")
    dice = random.Random(SEED)
    with child_server(tmp_path / "data", max_connections=60, max_starting=HALF_OPEN * 2) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE chaos (a int PRIMARY KEY, b int)")
            connection.execute("CREATE TABLE chaos_in (a int, b text)")
            connection.execute(
                f"INSERT INTO chaos SELECT i, 0 FROM generate_series(0, {ACCOUNTS - 1}) AS g (i)"
            )
        before = fuzz(server, dice, SECONDS / 2)
        after = fuzz(server, dice, SECONDS / 2)
        print(f"descriptors, threads, processes, bytes: {before} at half, {after} at the end")
        assert after[0] <= before[0] + 2, "descriptors are left"
        assert after[1] <= before[1] + 2, "threads are left"
        assert after[2] <= before[2] + 1, "processes are left"
        assert after[3] - before[3] < 64 * MIB, "memory is left"
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert server.stop() == 0
