"""The real pgbench: every script of its own in every mode of its own, and sums that agree afterwards."""

from __future__ import annotations

import pytest

from tests.server.postgres_tools import SUMS, pgbench
from tests.support.server_process import RunningServer

CLIENTS = 4
TRANSACTIONS = 75
"""Transactions of each client."""


@pytest.fixture(scope="module")
def bank(shared_server: RunningServer) -> RunningServer:
    """A server with pgbench's tables at scale 1, filled by pgbench."""
    made = pgbench(shared_server.port, "-i", "-s", "1")
    assert "ERROR" not in made.stderr
    assert "done in" in made.stderr
    with shared_server.connect() as connection:
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_tellers), "
            "(SELECT count(*) FROM pgbench_branches), (SELECT count(*) FROM pgbench_history)"
        ).fetchone()
    assert counts == (100_000, 10, 1, 0)
    return shared_server


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("script", ["tpcb-like", "simple-update", "select-only"])
def test_runs_and_the_sums_agree(bank: RunningServer, script: str, mode: str) -> None:
    with bank.connect() as connection:
        connection.execute("UPDATE pgbench_accounts SET abalance = 0 WHERE abalance <> 0")
        connection.execute("UPDATE pgbench_tellers SET tbalance = 0")
        connection.execute("UPDATE pgbench_branches SET bbalance = 0")
        done = pgbench(
            bank.port,
            "-b",
            script,
            "-M",
            mode,
            "-c",
            str(CLIENTS),
            "-t",
            str(TRANSACTIONS),
            "--random-seed=7",
        )
        total = CLIENTS * TRANSACTIONS
        assert f"number of transactions actually processed: {total}/{total}" in done.stdout
        assert "number of failed transactions: 0 (0.000%)" in done.stdout
        sums = connection.execute(SUMS).fetchone()
    assert sums is not None
    accounts, tellers, branches, history, rows = sums
    # pgbench empties the history before each run.
    assert rows == (0 if script == "select-only" else total)
    assert accounts == history
    assert (tellers, branches) == ((history, history) if script == "tpcb-like" else (0, 0))
    assert (history != 0) == (script != "select-only")


def test_fills_on_the_server(bank: RunningServer) -> None:
    made = pgbench(bank.port, "-i", "-I", "dtGvp", "-s", "1", "--unlogged-tables")
    assert "ERROR" not in made.stderr
    assert "done in" in made.stderr
    with bank.connect() as connection:
        assert connection.execute("SELECT count(*), sum(bid) FROM pgbench_accounts").fetchone() == (
            100_000,
            100_000,
        )
