"""Parts of ``server``: large answers, Arrow both ways, and what idle connections cost.

The table is that of ``copy``. HerdPy loads it from Arrow, and PostgreSQL from what HerdPy gives.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import pyarrow as pa
from measure import Line, in_turn, rate

TABLE = (
    "CREATE TABLE answers (id BIGINT PRIMARY KEY, a INTEGER, b DOUBLE PRECISION, c TEXT, d BIGINT, g INTEGER)"
)
IDLE = 1000
ipc: Any = pa.ipc


def _connect(port: int) -> psycopg.Connection[Any]:
    return psycopg.connect(host="127.0.0.1", port=port, user="herdpy", dbname="postgres", autocommit=True)


def _rows(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "a": pa.array([i % 1000 for i in numbers], pa.int32()),
            "b": pa.array([i * 0.5 for i in numbers], pa.float64()),
            "c": pa.array([f"name of {i}" for i in numbers]),
            "d": pa.array([i * 7 for i in numbers], pa.int64()),
            "g": pa.array([i % 100 for i in numbers], pa.int32()),
        }
    )


def _loaded(port: int, form: str, data: bytes, count: int) -> float:
    """Into a table made anew, which is left with its rows."""
    with _connect(port) as connection:
        connection.execute("DROP TABLE IF EXISTS answers")
        connection.execute(TABLE)

        def work() -> None:
            with connection.cursor().copy(f"COPY answers FROM STDIN (FORMAT {form})") as copy:
                for at in range(0, len(data), 1 << 16):
                    copy.write(data[at : at + (1 << 16)])

        return rate(count, work)


def _copied(port: int, options: str, count: int) -> float:
    with _connect(port) as connection:

        def work() -> None:
            size = 0
            with connection.cursor().copy(f"COPY answers TO STDOUT ({options})") as copy:
                for part in copy:
                    size += len(part)
            assert size > count

        return rate(count, work)


def _selected(port: int, count: int, *, where: str = "", binary: bool = False) -> float:
    with _connect(port) as connection:

        def work() -> None:
            with connection.cursor(binary=binary) as cursor:
                cursor.execute(f"SELECT * FROM answers {where}")
                assert cursor.rowcount == count

        return rate(count, work)


def _fetched(port: int, count: int) -> float:
    with _connect(port) as connection, connection.transaction():

        def work() -> None:
            with connection.cursor("c") as cursor:
                cursor.itersize = 10_000
                cursor.execute("SELECT * FROM answers")
                assert sum(1 for _ in cursor) == count

        return rate(count, work)


def measure_answers(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """COPY in Arrow, and SELECT of whole tables by one client."""
    rounds, count = (1, 20_000) if quick else (3, 1_000_000)
    table = _rows(count)
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, 65_536)
    data = sink.getvalue().to_pybytes()
    arrow_in = [_loaded(ours, "arrow", data, count) for _ in range(rounds)]
    with _connect(ours) as here, here.cursor().copy("COPY answers TO STDOUT (FORMAT binary)") as copy_out:
        binary = b"".join(map(bytes, copy_out))
    binary_in = in_turn(
        rounds,
        partial(_loaded, ours, "binary", binary, count),
        partial(_loaded, peer, "binary", binary, count),
    )
    arrow_out = [_copied(ours, "FORMAT arrow", count) for _ in range(rounds)]
    lines = []
    for name, runs, wanted in (
        ("COPY in, arrow", arrow_in, 200_000),
        ("COPY out, arrow", arrow_out, 1_000_000),
    ):
        line = Line(name, median(runs), "rows/s", wanted=f">= {wanted:,} rows/s", runs=runs)
        line.met = line.ours >= wanted
        lines.append(line)
    ours_in, peer_in = binary_in
    lines.append(
        Line("COPY in, binary", median(ours_in), "rows/s", median(peer_in), runs=ours_in, peer_runs=peer_in)
    )
    below = f"WHERE id >= 0 AND id < {count}"
    for name, run in (
        ("COPY out, binary", partial(_copied, options="FORMAT binary", count=count)),
        ("SELECT of all rows, text", partial(_selected, count=count)),
        ("SELECT of all rows, binary", partial(_selected, count=count, binary=True)),
        ("SELECT of a range of keys", partial(_selected, count=count, where=below)),
        ("FETCH by 10,000 rows", partial(_fetched, count=count)),
    ):
        runs, peer_runs = in_turn(rounds, partial(run, ours), partial(run, peer))
        lines.append(Line(name, median(runs), "rows/s", median(peer_runs), runs=runs, peer_runs=peer_runs))
    return lines


def _resident_bytes() -> int:
    """Of the servers of HerdPy that this process, or one that it started, has started."""
    parents: dict[int, int] = {}
    servers = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"herdpy.cli\0server" in (entry / "cmdline").read_bytes():
                pages = int((entry / "statm").read_text().split()[1])
                servers.append((int(entry.name), pages * os.sysconf("SC_PAGE_SIZE")))
        except FileNotFoundError:  # it has ended
            continue
    return sum(size for pid, size in servers if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def measure_idle(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """What a thousand connections that do nothing take of memory, after each has run one statement."""
    del peer
    count = 50 if quick else IDLE
    with ExitStack() as stack:
        stack.enter_context(_connect(ours)).execute("SELECT 1")
        before = _resident_bytes()
        for _ in range(count):
            stack.enter_context(_connect(ours)).execute("SELECT 1")
        grown = (_resident_bytes() - before) / 1e6 * IDLE / count
    return [Line("1,000 idle connections", grown, "MB", wanted="< 100 MB", met=grown < 100)]
