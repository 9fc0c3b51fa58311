"""What one TPC-B transaction costs a server: calls of ours and microseconds, by statement and by stage.

    python -m tests.house.transaction_path [--json] [--transactions N]

A server runs in a thread of this process. A client sends it the seven statements of pgbench, prepared and one
at a time, over a socket. A call belongs to the stage of the innermost function in ``ENTRIES`` that it is in,
and so does the time until the next call or return. A coroutine that goes on counts as a call. Functions in
files that are not ours (generated row codecs, the standard library) do not count, but their time does.

Watching makes a transaction several times as slow. So the time is measured twice: unwatched, the processor
time of the server's threads; watched, without the time that the watcher itself takes, how it is shared out.
A stage's microseconds are its share of the unwatched time: the loop's own and the kernel's are spread over
all stages. Waits for disk, socket and turn are left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.house.watched_calls import is_ours, short, watched
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
ENTRIES: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("wire", "herdpy_server/pgwire/connection.py", frozenset({"data_received", "buffer_updated"})),
    ("parse", "herdpy_server/pgwire/queries.py", frozenset({"parse"})),
    ("bind", "herdpy_server/pgwire/client_statements.py", frozenset()),
    ("bind", "herdpy_server/wire/parameters.py", frozenset()),
    ("bind", "herdpy_server/sessions/binding.py", frozenset()),
    (
        "session",
        "herdpy_server/sessions/",
        frozenset({"run", "statement", "_ran", "_carry_out", "commit", "begin"}),
    ),
    ("session", "herdpy_server/serving/driver.py", frozenset()),
    ("execute", "herdpy_sql/execute/", frozenset()),
    ("locks", "herdpy_server/tablespace/locks.py", frozenset()),
    ("commit", "herdpy_server/tablespace/tablespace.py", frozenset({"commit"})),
    ("log", "herdpy/log/group_commit.py", frozenset()),
    ("log", "herdpy/log/file_log.py", frozenset()),
    ("apply", "herdpy_server/tablespace/tablespace.py", frozenset({"acknowledge"})),
    ("answer", "herdpy_server/pgwire/queries.py", frozenset({"_send_alone", "_answer_alone_late"})),
    ("answer", "herdpy_server/pgwire/conversation.py", frozenset({"ready"})),
    ("answer", "herdpy_server/pgwire/connection.py", frozenset({"write"})),
)
"""Where stages begin: stage, file or folder, names of functions (none: all)."""
_WAITS = frozenset({"acquire", "fsync", "fdatasync", "select", "poll", "sleep"})
"""Functions of C that wait."""


class Cell(NamedTuple):
    """What one stage of one statement costs.

    Attributes:
        calls: of ours. ``us``: microseconds.
    """

    calls: float
    us: float


class Stages:
    """A watcher: counts calls and time by the statement that the client has named and by stage."""

    def __init__(self) -> None:
        self.statement = ""
        self._of_code: dict[CodeType, tuple[bool, str]] = {}
        self._threads = threading.local()
        self._counts: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        now = time.perf_counter()
        own = self._threads.__dict__
        stack = own.setdefault("stack", [])
        if stack and stack[-1] and "since" in own:
            self._counts[self.statement, stack[-1]][1] += now - own["since"]
        if event == "call":
            is_counted, entered = self._about(frame.f_code)
            stage = entered or (stack[-1] if stack else "wire" if is_counted else "")
            stack.append(stage)
            if is_counted and stage:
                self._counts[self.statement, stage][0] += 1
        elif event == "return":
            if stack:
                stack.pop()
        elif event == "c_call":
            stack.append("" if argument.__name__ in _WAITS else stack[-1] if stack else "")  # type: ignore[attr-defined]
        elif stack:
            stack.pop()
        own["since"] = time.perf_counter()

    def _about(self, code: CodeType) -> tuple[bool, str]:
        """Whether calls of a function count, and the stage that begins with it; "": none."""
        found = self._of_code.get(code)
        if found is None:
            found = self._of_code[code] = is_ours(code.co_filename), _entered(code)
        return found

    def take(self) -> dict[tuple[str, str], Cell]:
        """What was counted since the last time, by statement and stage; seconds are microseconds now."""
        counts, self._counts = self._counts, defaultdict(lambda: [0, 0.0])
        return {one: Cell(calls, seconds * 1e6) for one, (calls, seconds) in counts.items()}


def _entered(code: CodeType) -> str:
    if not is_ours(code.co_filename):
        return ""
    path = str(short(code.co_filename))
    for stage, start, names in ENTRIES:
        if path.startswith(start) and (not names or code.co_name in names):
            return stage
    return ""


class Client:
    """pgbench, as one client of a server."""

    def __init__(self, server: ThreadServer, stages: Stages | None) -> None:
        self._wire = Wire(server.address)
        self._stages = stages
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
        if self._stages is not None:
            self._stages.statement = statement
        for reply in self._wire.ask(*messages):
            assert reply.kind != "E", reply.fields

    def close(self) -> None:
        """Disconnect."""
        self._wire.close()


@contextmanager
def _prepared(stages: Stages | None) -> Iterator[Client]:
    """A client of a new server, whose tables are made."""
    with tempfile.TemporaryDirectory() as directory, thread_server(Path(directory) / "db") as server:
        client = Client(server, stages)
        try:
            client.make_tables()
            yield client
        finally:
            client.close()


def unwatched_us(transactions: int) -> float:
    """The processor time of the server's threads for a transaction."""
    taken = []
    with _prepared(None) as client:
        client.prepare()
        for _ in range(2 * transactions):
            before = time.process_time() - time.thread_time()
            client.transact()
            taken.append(time.process_time() - time.thread_time() - before)
    return statistics.median(taken[transactions:]) * 1e6


def watched_cells(transactions: int) -> dict[tuple[str, str], Cell]:
    """Calls and microseconds of one watched transaction, by statement and stage: medians. Those of the stage
    "parse" are of the statement's Parse message, whatever stages they pass."""
    stages = Stages()
    rounds = []
    with watched(stages), _prepared(stages) as client:
        sys.setprofile(None)  # this thread is the client
        stages.take()
        client.prepare()
        parsed: dict[str, Cell] = {}
        for (statement, _), cell in stages.take().items():
            before = parsed.get(statement, Cell(0, 0))
            parsed[statement] = Cell(before.calls + cell.calls, before.us + cell.us)
        for _ in range(transactions):
            client.transact()
        stages.take()
        for _ in range(transactions):
            client.transact()
            rounds.append(stages.take())
    found = {(statement, "parse"): cell for statement, cell in parsed.items()}
    for key in sorted({key for one in rounds for key in one}):
        cells = [one.get(key, Cell(0, 0)) for one in rounds]
        found[key] = Cell(
            statistics.median(cell.calls for cell in cells), statistics.median(cell.us for cell in cells)
        )
    return found


def measure(transactions: int) -> dict[str, Any]:
    """What :func:`main` prints.

    Returns:
        ``transactions`` measured; ``calls`` and ``us`` of one; ``parse_us`` of all statements, once; and
        ``stages``: by stage and statement, ``calls`` and ``us``.
    """
    total_us = unwatched_us(transactions)
    cells = watched_cells(transactions)
    repeated = {key: cell for key, cell in cells.items() if key[1] != "parse"}
    factor = total_us / sum(cell.us for cell in repeated.values())
    stages = {
        stage: {
            statement: {"calls": round(cell.calls), "us": round(cell.us * factor, 1)}
            for statement in STATEMENTS
            if (cell := cells.get((statement, stage), Cell(0, 0))).calls
        }
        for stage in STAGES
    }
    return {
        "transactions": transactions,
        "calls": round(sum(cell.calls for cell in repeated.values())),
        "us": round(total_us, 1),
        "parse_us": round(sum(cell["us"] for cell in stages["parse"].values()), 1),
        "stages": stages,
    }


def table(measured: dict[str, Any]) -> list[str]:
    """Lines of a table: a row a stage, a column a statement, ``calls / us`` in each cell."""
    rows = [["stage", *STATEMENTS, "all"]]
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for stage, cells in measured["stages"].items():
        row = [f"{stage}, once" if stage == "parse" else stage]
        for name in (*STATEMENTS, "all"):
            found = list(cells.values()) if name == "all" else [cells[name]] if name in cells else []
            calls, us = sum(one["calls"] for one in found), sum(one["us"] for one in found)
            row.append(f"{calls} / {us:.0f}" if found else "")
            if stage != "parse":
                sums[name][0] += calls
                sums[name][1] += us
        rows.append(row)
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
    print("calls of ours / microseconds of processor time")
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
