"""TPC-C's consistency conditions hold after terminals have run beside each other, and after kills."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.tpcc.conditions import CONDITIONS, broken
from bench.tpcc.population import load
from bench.tpcc.scale import SMALL
from bench.tpcc.terminals import Terminal, started
from tests.support.server_process import RunningServer

SEED = 20_240_607
TERMINALS = 3
ENOUGH = 8
"""New-Orders that each terminal commits in a round."""
ROUNDS = 2

BREAKING = {
    1: "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 1",
    2: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 2",
    3: "DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = "
    "(SELECT min(no_o_id) + 1 FROM new_order WHERE no_d_id = 1)",
    4: "DELETE FROM order_line WHERE ol_d_id = 1 AND ol_o_id = 3 AND ol_number = 1",
    5: "UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 1 AND o_id = 1",
    6: "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 1 AND o_id = 2",
    7: "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 2",
    8: "UPDATE warehouse SET w_ytd = w_ytd - 0.01",
    9: "UPDATE history SET h_amount = 11 WHERE h_c_id = 1 AND h_d_id = 3",
    10: "UPDATE customer SET c_balance = c_balance + 5 WHERE c_d_id = 1 AND c_id = 1",
    11: "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = "
    "(SELECT max(no_o_id) FROM new_order WHERE no_d_id = 3)",
    12: "UPDATE customer SET c_ytd_payment = 0 WHERE c_d_id = 2 AND c_id = 7",
}
"""For each condition a change that breaks it."""


def run_until_enough(terminals: list[Terminal], stop: threading.Event) -> None:
    """Wait until every terminal has its orders, or one has failed."""
    while not all(len(one.profiles.ordered) >= ENOUGH for one in terminals):
        if any(one.error is not None for one in terminals):
            return
        stop.wait(0.02)


def orders(server: RunningServer) -> set[tuple[Any, ...]]:
    """The keys of all orders."""
    return set(server.connect().execute("SELECT o_w_id, o_d_id, o_id FROM orders").fetchall())


def test_kills_break_no_condition(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    print(f"seed {SEED}")
    data = tmp_path / "data"
    often = ["--set", "storage.checkpoint_interval_s=0.2"]  # so that kills fall into checkpoints, too
    server = start(*often, data=data).ready()
    load(server.connect(autocommit=False), SMALL, SEED)
    assert broken(server.connect(autocommit=False)) == {}
    acknowledged: set[tuple[int, int, int]] = set()
    for turn in range(ROUNDS):
        stop = threading.Event()
        running = server

        def connect(running: RunningServer = running) -> Any:
            return running.connect(autocommit=False)

        terminals = started(connect, SMALL, TERMINALS, SEED + turn, stop)
        run_until_enough(terminals, stop)
        server.process.kill()
        for one in terminals:
            one.join(30)
            assert isinstance(one.error, psycopg.OperationalError), one.error
            acknowledged.update(one.profiles.ordered)
        server.wait()
        server = start(*often, data=data).ready()
        assert broken(server.connect(autocommit=False)) == {}
        assert acknowledged - orders(server) == set(), "an acknowledged order is lost"
    assert len(acknowledged) >= ROUNDS * TERMINALS * ENOUGH
    assert server.stop() == 0


def test_conditions_find_what_breaks_them(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    server = start(data=tmp_path / "data").ready()
    load(server.connect(autocommit=False), SMALL, SEED)
    assert BREAKING.keys() == CONDITIONS.keys()
    for number, change in BREAKING.items():
        connection = server.connect(autocommit=False)
        connection.execute(change)
        assert connection.execute(CONDITIONS[number]).fetchone() is not None, f"condition {number}"
        connection.rollback()
    assert server.stop() == 0


def test_postgres_keeps_the_conditions(postgres: str) -> None:
    """What the driver does is right: PostgreSQL keeps them, too."""
    with psycopg.connect(postgres) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.commit()
        load(connection, SMALL, SEED)
        stop = threading.Event()
        terminals = started(lambda: psycopg.connect(postgres), SMALL, TERMINALS, SEED, stop)
        run_until_enough(terminals, stop)
        stop.set()
        for one in terminals:
            one.join(30)
            assert one.error is None, one.error
        assert broken(connection) == {}


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_kills(start: Callable[..., RunningServer], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "ROUNDS", 20)
    test_kills_break_no_condition(start, tmp_path)
