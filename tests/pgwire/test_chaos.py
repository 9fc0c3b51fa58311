"""Many clients at once that send, stall, garble, cancel and vanish at random: nothing is left of any of them.

A seed decides everything but time; ``HERDPY_SEED`` replays one. The server is a process of its own, whose
descriptors, memory and child processes are looked at. A client that behaves works all the while, and at the
end the rows are those of transactions that committed as a whole.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.pgwire.servers import ChildServer, child_server
from tests.pgwire.test_clients_that_misbehave import reset, served_throughout
from tests.pgwire.wire import (
    COPY_DONE,
    FLUSH,
    SYNC,
    TERMINATE,
    Wire,
    bind,
    cancel_request,
    close,
    copy_data,
    copy_fail,
    describe,
    execute,
    message,
    parse,
    query,
    start_up,
)

SEED = int(os.environ.get("HERDPY_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
CLIENTS = 40
MIB = 1 << 20
ACCOUNTS = 8


def transfer(dice: random.Random) -> list[bytes]:
    """A transaction that leaves the sum of all accounts as it is, if it commits as a whole."""
    one, two, amount = dice.randrange(ACCOUNTS), dice.randrange(ACCOUNTS), dice.randrange(9)
    return [
        query("BEGIN; SET LOCAL lock_timeout = '200ms'"),
        parse("UPDATE chaos SET b = b + $1 WHERE a = $2", "u", [23, 23]),
        bind([b"%d" % amount, b"%d" % one], statement="u"),
        execute(),
        bind([b"-%d" % amount, b"%d" % two], statement="u"),
        execute(),
        SYNC,
        query("COMMIT"),
    ]


def messages_of(dice: random.Random, *, garbles: bool) -> list[bytes]:
    """What one client says next. Who garbles moves no money: what it said might mean something else."""
    number = dice.randrange(10**6)
    if not garbles and dice.random() < 0.3:
        return transfer(dice)
    choices: list[Callable[[], list[bytes]]] = [
        lambda: [query(f"SELECT {number}"), query("SELECT 1 / 0"), query("nonsense"), query("")],
        lambda: [parse("SELECT a FROM chaos", f"s{number}"), describe("S", f"s{number}"), SYNC],
        lambda: [parse("TABLE chaos"), bind(portal=f"p{number}"), execute(f"p{number}", 1), FLUSH],
        lambda: [query("BEGIN; DECLARE c CURSOR FOR TABLE chaos; FETCH 2 FROM c; SAVEPOINT s")],
        lambda: [query("SELECT repeat('x', 2000) FROM generate_series(1, 2000)")],
        lambda: [query("SELECT count(*) FROM generate_series(1, 100000) AS g (i) WHERE i % 7 = 1")],
        lambda: [query("SELECT pg_sleep(0.05)")],
        lambda: [
            query("COPY chaos_in FROM STDIN"),
            copy_data(b"%d\tx\n%d" % (number, number + 1)),
            COPY_DONE,
        ],
        lambda: [query("COPY chaos_in FROM STDIN"), copy_data(b"\\."), copy_fail("no more")],
        lambda: [query("COPY chaos TO STDOUT"), close("S", "u"), close("P", "no"), SYNC],
        lambda: [parse("SELECT $1::int[]", oids=[1007]), bind([dice.randbytes(20)], formats=[1]), SYNC],
        lambda: [message(chr(dice.randrange(32, 127)), dice.randbytes(dice.randrange(40)))],
        lambda: [SYNC] * 20,
        lambda: [TERMINATE],
    ]
    return dice.choice(choices)()


class Client:
    """One that says what comes to its mind, and never waits for an answer."""

    def __init__(self, server: ChildServer, dice: random.Random) -> None:
        self._dice = dice
        self._wire = Wire(server.address)
        self._wire.socket.setblocking(False)
        self._key = (dice.randrange(100), dice.randrange(2**32))
        self._waiting = b""
        self._vanishes = False
        self._garbles = dice.random() < 0.4
        if dice.random() < 0.9:
            self._say(start_up(user="herdpy", statement_timeout="2s"))

    def _say(self, data: bytes) -> None:
        if self._garbles and self._dice.random() < 0.15:
            at = self._dice.randrange(len(data))
            data = data[:at] + self._dice.randbytes(1) + data[at + 1 :]
        self._waiting += data

    def act(self) -> bool:
        """Do something; False when it is no more."""
        dice, wire = self._dice, self._wire
        if not self._garbles and dice.random() < 0.1:
            # In the middle of a transaction, which its rows are locked by, it is gone.
            moved = transfer(dice)
            self._waiting += b"".join(moved[: dice.randrange(1, len(moved))])
            self._vanishes = True
        elif dice.random() < 0.5:
            for one in messages_of(dice, garbles=self._garbles):
                self._say(one)
        try:
            if self._waiting:
                some = len(self._waiting) if dice.random() < 0.8 else dice.randrange(len(self._waiting)) + 1
                self._waiting = self._waiting[wire.socket.send(self._waiting[:some]) :]
            if dice.random() < 0.7:
                answer = wire.socket.recv(1 << 16)
                assert b"\0CXX000\0" not in answer, f"an internal error: {answer!r}"
        except BlockingIOError:
            pass
        except OSError:
            wire.close()
            return False
        if dice.random() < 0.12 or (self._vanishes and not self._waiting):
            reset(wire) if dice.random() < 0.5 else wire.close()
            return False
        return True

    def close(self) -> None:
        self._wire.close()


def storm(server: ChildServer, dice: random.Random, steps: int) -> None:
    clients: list[Client] = []
    try:
        for _ in range(steps):
            while len(clients) < CLIENTS:
                clients.append(Client(server, dice))
            clients = [one for one in clients if one.act()]
            if dice.random() < 0.2:
                with Wire(server.address) as canceller:
                    canceller.send(cancel_request(dice.randrange(200), dice.randrange(2**32)))
    finally:
        for one in clients:
            one.close()


def admitted(server: ChildServer) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection, once enough sessions of clients that vanished have ended."""
    while True:
        try:
            return psycopg.connect(server.dsn, autocommit=True)
        except psycopg.OperationalError as error:
            if "too many clients" not in str(error):
                raise


def settled(server: ChildServer) -> None:
    """Nobody is left but who asks, no row is locked, and the rows are whole."""
    with admitted(server) as connection:
        connection.execute("SET lock_timeout = '30s'")
        while connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone() != (1,):
            assert server.process.poll() is None
        connection.execute("UPDATE chaos SET b = b")
        assert connection.execute("SELECT count(*), sum(b) FROM chaos").fetchone() == (ACCOUNTS, 0)


def children(server: ChildServer) -> int:
    """How many processes the server has begun that are still there."""
    return len(Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split())


def after_storms(path: Path, warm: int, steps: int, growth_bytes: int) -> None:
    print(f"replay with HERDPY_SEED={SEED}")
    dice = random.Random(SEED)
    with child_server(path / "data", max_connections=60) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE chaos (a int PRIMARY KEY, b int)")
            connection.execute("CREATE TABLE chaos_in (a int, b text)")
            connection.execute(
                f"INSERT INTO chaos SELECT i, 0 FROM generate_series(0, {ACCOUNTS - 1}) AS g (i)"
            )
        found = []
        for count in (warm, steps):
            with served_throughout(server.dsn):
                storm(server, dice, count)
            settled(server)
            found.append((server.descriptors, children(server), server.resident_bytes))
        before, after = found
        assert after[0] <= before[0] + 2, "descriptors are left"
        assert after[1] <= before[1] + 1, "processes are left"
        assert after[2] - before[2] < growth_bytes, "memory is left"
        assert server.stop() == 0


def test_a_storm_leaves_nothing(tmp_path: Path) -> None:
    after_storms(tmp_path, 60, 120, 96 * MIB)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_long_storm_leaves_nothing(tmp_path: Path) -> None:
    after_storms(tmp_path, 3_000, 30_000, 96 * MIB)
