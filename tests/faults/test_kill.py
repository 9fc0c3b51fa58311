"""SIGKILL at random moments: everything acknowledged is there, nothing is there by half."""

from __future__ import annotations

import os
import random
import runpy
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import herdpy
from herdpy_server.embedded import opened

HERE = Path(__file__).parent
ROOTS = [str(HERE), *(str(HERE.parent.parent / root) for root in ("", "server", "sql", "spark_jobs"))]
WORKLOAD = runpy.run_path(str(HERE / "crash_workload.py"))
SEED = int(os.environ.get("HERDPY_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


def run_until_killed(directory: Path, seed: int, first_op: int, random_: random.Random) -> dict[int, str]:
    """Start the workload, kill it at a random moment, and return what it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, str(HERE / "crash_workload.py"), str(directory), str(seed), str(first_op)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(ROOTS)},
    )
    assert child.stdout is not None
    acknowledged: dict[int, str] = {}
    try:
        if first_op > 1 and random_.random() < 0.1:  # while it opens and recovers, too
            threading.Timer(random_.uniform(0, 1.5), child.kill).start()
            wanted = 10**9
        else:
            assert child.stdout.readline() == b"ready\n"
            wanted = random_.choice([1, 5, 40, 200])
        for line in child.stdout:
            if not line.endswith(b"\n") or line == b"ready\n":
                continue
            op, kind = line.split()
            acknowledged[int(op)] = kind.decode()
            if len(acknowledged) == wanted:
                child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
    return acknowledged


def verify(connection: herdpy.Connection, acknowledged: dict[int, str]) -> int:
    """Check what a killed process left; returns the highest operation found."""
    found = connection.execute(
        "SELECT id, count(*), min(parts), max(parts), min(kind), max(kind), max(part) FROM op GROUP BY id"
    ).fetchall()
    for op, count, low, high, kind, last_kind, last in found:
        # "replaced" starts as one statement with more parts: either form, but only whole.
        assert (low, kind) == (high, last_kind), f"operation {op} is of two minds"
        assert count == low == last + 1, f"operation {op} has {count} of {low} parts"
    kinds = {row[0]: row[4] for row in found}
    lost = {op: kind for op, kind in acknowledged.items() if op not in kinds}
    assert not lost, f"acknowledged operations are gone: {lost}"
    undone = [op for op, kind in acknowledged.items() if kind == "replaced" and kinds[op] != "replaced"]
    assert not undone, f"acknowledged changes are gone: {undone}"
    total = connection.execute("SELECT sum(balance), count(*) FROM account").fetchone()
    accounts = WORKLOAD["ACCOUNTS"]
    assert total == (accounts * WORKLOAD["START_BALANCE"], accounts), "a transfer was done by half"
    by_index = connection.execute("SELECT count(*) FROM op WHERE kind = 'arrow'").fetchone()
    assert by_index == (sum(row[1] for row in found if row[4] == "arrow"),)
    return max((row[0] for row in found), default=0)


def kill_rounds(directory: Path, rounds: int, seed: int) -> dict[int, str]:
    """Kill and reopen the same directory ``rounds`` times, and look what is there; what was acknowledged."""
    random_ = random.Random(seed)
    acknowledged: dict[int, str] = {}
    next_op = 1
    for turn in range(rounds):
        acknowledged |= run_until_killed(directory, seed + turn, next_op, random_)
        with opened(directory) as database:
            findings = list(database.store.check())
            assert not findings, findings
        with herdpy.connect(f"herdpy://{directory}", autocommit=True) as connection:
            if "account" in database.store.catalog.by_name:
                next_op = verify(connection, acknowledged) + 1
            else:
                assert not acknowledged
    return acknowledged


@pytest.mark.timeout(300)
def test_some_kills_lose_nothing(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    record_property("seed", SEED)
    print(f"replay with HERDPY_SEED={SEED}")
    assert kill_rounds(tmp_path / "db", 4, SEED)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(10))
def test_hundreds_of_kills_lose_nothing(tmp_path: Path, turn: int) -> None:
    print(f"replay with HERDPY_SEED={SEED}")
    assert kill_rounds(tmp_path / "db", 20, SEED + 1000 * turn)


LARGE = """
import sys
import herdpy

connection = herdpy.connect(f"herdpy://{sys.argv[1]}", transaction_memory_bytes=100_000)
connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
connection.execute("INSERT INTO t VALUES (0, 'before')")
connection.commit()
for start in range(1, 20_001, 4000):
    source = f"generate_series({start}, {start + 3999}) g (i)"
    connection.execute(f"INSERT INTO t SELECT i, 'a text of some length ' || i FROM {source}")
print("open", flush=True)
sys.stdin.readline()
connection.commit()
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("when", ["open", "committing", "done"])
def test_a_large_transaction_is_there_whole_or_not_at_all(tmp_path: Path, when: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LARGE, str(tmp_path / "db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(ROOTS)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"open\n"
        if when != "open":
            child.stdin.write(b"\n")
            child.stdin.flush()
        if when == "done":
            assert child.stdout.readline() == b"done\n"
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.stdin.close()
        child.stdout.close()
    left = tmp_path / "db" / "spill"
    assert not left.exists() or list(left.iterdir()) == []
    with opened(tmp_path / "db") as database:
        assert list(database.store.check()) == []
    with herdpy.connect(f"herdpy://{tmp_path / 'db'}") as connection:
        count = connection.execute("SELECT count(*) FROM t").fetchone()
    assert count in {"open": [(1,)], "committing": [(1,), (20_001,)], "done": [(20_001,)]}[when]
