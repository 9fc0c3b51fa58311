"""What one TPC-B transaction costs a server: calls of ours and microseconds, by statement and by stage.

    python -m tests.house.transaction_path [--json] [--transactions N]

A server runs in a thread of this process. A client sends it the seven statements of pgbench, prepared and one
at a time, over a socket. A call belongs to the stage of the innermost function in ``ENTRIES`` that it is in.
A coroutine that goes on counts as a call; functions in files that are not ours (generated row codecs, the
standard library) do not count, but their time does.

There are three runs, because counting calls makes a transaction many times as slow. One counts calls. One
takes the time at the entries alone, which costs about a microsecond each. One does neither, and takes the
processor time of the server's threads: what of that no stage has is the loop's and the kernel's. Waits for
the disk are left out.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

from herdpy.log import write_place
from herdpy.log.file_ledger import FileLedgerWriter
from herdpy.log.file_log import FileLog
from herdpy.log.group_commit import DeliveredCommit
from herdpy_server.pgwire import queries
from herdpy_server.pgwire.client_statements import BindPattern
from herdpy_server.pgwire.connection import ClientConnection
from herdpy_server.serving.driver import Run
from herdpy_server.sessions import Session
from herdpy_server.sessions.binding import Binding
from herdpy_server.sessions.block_statements import BlockBegin, BlockCommit, BlockStatement
from herdpy_server.sessions.row_steps import RowInsert, RowRead, RowUpdate
from herdpy_server.tablespace import LockTable, Tablespace
from herdpy_sql.plan import Plan
from tests.house.watched_calls import is_ours, watched
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.wire import SYNC, Wire, bind, describe, execute, parse, query

STATEMENTS = {
    "BEGIN": "BEGIN",
    "UPDATE accounts": "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
    "SELECT": "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    "UPDATE tellers": "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
    "UPDATE branches": "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
    "INSERT": "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)"
    " VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
    "END": "END",
}
"""pgbench's transaction, by the names that the table has."""
ACCOUNTS = 1000
_TABLES = (
    "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
    "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84))",
    "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
    "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
    "INSERT INTO pgbench_branches VALUES (1, 0, '')",
    "INSERT INTO pgbench_tellers SELECT i, 1, 0, '' FROM generate_series(1, 10) AS g(i)",
    f"INSERT INTO pgbench_accounts SELECT i, 1, 0, '' FROM generate_series(1, {ACCOUNTS}) AS g(i)",
)

STAGES = ("wire", "parse", "bind", "session", "execute", "locks", "commit", "log", "apply", "answer")
"""In the order of a transaction; docs/architecture/10-cost-of-a-transaction.md says what they are."""
_DISK = ""
"""The stage of what waits for the disk."""
ENTRIES: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("wire", ClientConnection, ("data_received",)),
    ("bind", BindPattern, ("values", "datums")),
    ("bind", Binding, ("bind",)),
    ("session", Session, ("run",)),
    ("session", BlockStatement, ("run",)),
    ("session", BlockBegin, ("run",)),
    ("session", BlockCommit, ("run",)),
    ("execute", RowUpdate, ("apply",)),
    ("execute", RowInsert, ("apply",)),
    ("execute", RowRead, ("apply",)),
    ("session", queries, ("_answer_alone",)),
    ("session", Run, ("start", "_resume")),
    ("locks", LockTable, ("acquire", "acquire_many", "acquire_table", "try_acquire", "release_all")),
    ("commit", Tablespace, ("commit",)),
    ("log", FileLog, ("append", "_write")),
    ("log", DeliveredCommit, ("flush_for", "_wake_background", "_next_group", "_written")),
    (_DISK, FileLedgerWriter, ("sync",)),
    ("apply", Tablespace, ("acknowledge",)),
    ("answer", queries, ("_send_alone", "_answer_logged")),
    ("answer", ClientConnection, ("write",)),
)
"""Where stages begin: the stage, a class or module, and functions of it. "execute" begins with each plan."""


def _entries() -> Iterator[tuple[str, Any, str]]:
    for stage, owner, names in ENTRIES:
        for name in names:
            yield stage, owner, name
    plans: list[type[Plan]] = [Plan]
    while plans:
        plan = plans.pop()
        plans += plan.__subclasses__()
        if "run" in vars(plan):
            yield "execute", plan, "run"


class Counted:
    """What is counted, by the statement that the client has named and by stage."""

    def __init__(self) -> None:
        self.statement = ""
        self._threads = threading.local()
        self._counts: dict[tuple[str, str], float] = defaultdict(float)

    def _stack(self) -> list[str]:
        """The stages that the thread is in, the innermost last."""
        stack: list[str] = self._threads.__dict__.setdefault("stack", [])
        return stack

    def take(self) -> dict[tuple[str, str], float]:
        """What was counted since the last time, by statement and stage."""
        counts, self._counts = self._counts, defaultdict(float)
        counts.pop((self.statement, _DISK), None)
        return counts


class Calls(Counted):
    """Counts calls: a watcher."""

    def __init__(self) -> None:
        super().__init__()
        self._stages = {vars(owner)[name].__code__: stage for stage, owner, name in _entries()}
        self._ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code, stack = frame.f_code, self._stack()
            is_counted = self._ours.get(code)
            if is_counted is None:
                is_counted = self._ours[code] = is_ours(code.co_filename)
            stack.append(self._stages.get(code, stack[-1] if stack else "wire"))
            if is_counted:
                self._counts[self.statement, stack[-1]] += 1
        elif event == "return" and (stack := self._stack()):
            stack.pop()


class Times(Counted):
    """Takes the time, in microseconds, within the entries."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Within the block the entries take the time."""
        entries = [(owner, name, vars(owner)[name], stage) for stage, owner, name in _entries()]
        for owner, name, function, stage in entries:
            setattr(owner, name, self._timed(function, stage))
        try:
            yield
        finally:
            for owner, name, function, _ in entries:
                setattr(owner, name, function)

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            stack = self._stack()
            self._pass(stack)
            stack.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._pass(stack)
                stack.pop()

        return timed

    def _pass(self, stack: list[str]) -> None:
        """Time up to now is the innermost stage's."""
        now, own = time.perf_counter(), self._threads.__dict__
        if stack:
            self._counts[self.statement, stack[-1]] += (now - own["since"]) * 1e6
        own["since"] = now


class Client:
    """pgbench, as one client of a server."""

    def __init__(self, server: ThreadServer, counted: Counted) -> None:
        self._wire = Wire(server.address)
        self._counted = counted
        self._number = 0
        self._wire.start(database="herdpy")

    def make_tables(self) -> None:
        """pgbench's, with few accounts."""
        for sql in _TABLES:
            self._ask("", query(sql))

    def prepare(self) -> None:
        """Parse the statements."""
        for name, sql in STATEMENTS.items():
            self._ask(name, parse(sql, name), SYNC)

    def transact(self) -> None:
        """One transaction."""
        self._number += 1
        delta, account, teller = b"7", b"%d" % (self._number % ACCOUNTS + 1), b"%d" % (self._number % 10 + 1)
        params = {
            "UPDATE accounts": [delta, account], "SELECT": [account], "UPDATE tellers": [delta, teller],
            "UPDATE branches": [delta, b"1"], "INSERT": [teller, b"1", account, delta],
        }  # fmt: skip
        for name in STATEMENTS:
            self._ask(name, bind(params.get(name, ()), statement=name), describe(), execute(), SYNC)

    def _ask(self, statement: str, *messages: bytes) -> None:
        self._counted.statement = statement
        for reply in self._wire.ask(*messages):
            assert reply.kind != "E", reply.fields

    def close(self) -> None:
        """Disconnect."""
        self._wire.close()


@contextmanager
def _connected(counted: Counted) -> Iterator[Client]:
    """A client of a new server, whose tables are made. Its loop writes the log, however slow the disk is:
    what a thread does after its answer would belong to the next statement."""
    with (
        patch.multiple(write_place, FEWEST=0, SAMPLE=1, QUICK_S=60.0, SLOW_S=60.0),
        tempfile.TemporaryDirectory() as directory,
        thread_server(Path(directory) / "db") as server,
    ):
        client = Client(server, counted)
        try:
            client.make_tables()
            yield client
        finally:
            client.close()


def processor_us(transactions: int) -> float:
    """The processor time of the server's threads for a transaction: the median, after as many more."""
    taken = []
    with _connected(Counted()) as client:
        client.prepare()
        for _ in range(2 * transactions):
            before = time.process_time() - time.thread_time()
            client.transact()
            taken.append(time.process_time() - time.thread_time() - before)
    return statistics.median(taken[transactions:]) * 1e6


def cells(client: Client, counted: Counted, transactions: int) -> dict[tuple[str, str], float]:
    """What was counted of a transaction, by statement and stage: medians, after as many more.

    The stage "parse" is all that the statement's Parse message takes, whatever stages it passes.
    """
    counted.take()
    client.prepare()
    found: dict[tuple[str, str], float] = defaultdict(float)
    for (statement, _), count in counted.take().items():
        found[statement, "parse"] += count
    for _ in range(transactions):
        client.transact()
    counted.take()
    rounds = []
    for _ in range(transactions):
        client.transact()
        rounds.append(counted.take())
    for key in {key for one in rounds for key in one}:
        found[key] = statistics.median(one.get(key, 0.0) for one in rounds)
    return found


def calls_and_us(transactions: int) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Calls, and microseconds, by statement and stage."""
    calls, times = Calls(), Times()
    with watched(calls), _connected(calls) as client:
        sys.setprofile(None)  # this thread is the client
        counted = cells(client, calls, transactions)
    with times.taken(), _connected(times) as client:
        return counted, cells(client, times, transactions)


def measure(transactions: int) -> dict[str, Any]:
    """What :func:`main` prints.

    Returns:
        ``transactions`` measured; ``calls`` and ``us`` of one; ``loop_us``: what of these no stage has; and
        ``stages``: by stage and statement, ``calls`` and ``us``.
    """
    calls, times = calls_and_us(transactions)
    total_us = processor_us(transactions)
    stages = {
        stage: {
            statement: {"calls": round(calls[statement, stage]), "us": round(times[statement, stage], 1)}
            for statement in STATEMENTS
            if calls.get((statement, stage))
        }
        for stage in STAGES
    }
    repeated = [cell for stage in STAGES if stage != "parse" for cell in stages[stage].values()]
    return {
        "transactions": transactions,
        "calls": sum(cell["calls"] for cell in repeated),
        "us": round(total_us, 1),
        "loop_us": round(total_us - sum(cell["us"] for cell in repeated), 1),
        "stages": stages,
    }


def table(measured: dict[str, Any]) -> list[str]:
    """Lines of a table: a row a stage, a column a statement, ``calls / us`` in each cell."""
    rows = [["stage", *STATEMENTS, "all"]]
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for stage, found in measured["stages"].items():
        row = [f"{stage}, once" if stage == "parse" else stage]
        for name in (*STATEMENTS, "all"):
            some = list(found.values()) if name == "all" else [found[name]] if name in found else []
            calls, us = sum(one["calls"] for one in some), sum(one["us"] for one in some)
            row.append(f"{calls} / {us:.0f}" if some else "")
            if stage != "parse":
                sums[name][0] += calls
                sums[name][1] += us
        rows.append(row)
    rows.append(["loop, kernel", *("" for _ in STATEMENTS), f"0 / {measured['loop_us']:.0f}"])
    sums["all"][1] = measured["us"]  # a sum of rounded parts may be rounded otherwise
    rows.append(["a transaction", *(f"{calls:.0f} / {us:.0f}" for calls, us in sums.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) if at else cell.ljust(width)
                      for at, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows]  # fmt: skip


def main() -> None:
    """Print the table, or with ``--json`` its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--transactions", type=int, default=300, help="how many are measured, after as many")
    args = parser.parse_args()
    measured = measure(args.transactions)
    if args.json:
        print(json.dumps(measured, indent=2))
        return
    print("calls of ours / microseconds")
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
