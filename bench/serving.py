"""One loop of a server without any wire: what statements cost it, and what a checkpoint does to it.

    python bench/serving.py [--rows 100000] [--seconds 3]

Reads are prepared SELECTs by key; writes are autocommit transactions of one row by 1, 8 and 32
sessions, each beginning its next statement when the last was answered. "loop us" is the CPU time of
the loop's thread for one statement; "p99 ms" is the latency of point reads that a timer sends while
32 sessions write and checkpoints are made one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from herdpy_server.serving import Run, ServedDatabase, settle_interpreter
from herdpy_server.sessions import Session
from herdpy_server.tablespace_host import DatabaseSettings

UPDATE = "UPDATE t SET b = b + 1 WHERE a = $1"
INSERT = "INSERT INTO h (a, b, c) VALUES ($1, 17, 'some words')"
SELECT = "SELECT b, c FROM t WHERE a = $1"


class Client:
    """A session that does one thing again and again."""

    def __init__(self, database: ServedDatabase, sql: str, keys: Any) -> None:
        self.database, self.session, self.keys = database, database.session(), keys
        self.session.parse("s", sql)
        self.count = 0
        self.stopped = asyncio.Event()
        self.until = 0.0

    def begin(self, seconds: float) -> None:
        self.until = time.perf_counter() + seconds
        self.next()

    def next(self, ended: Run[Any] | None = None) -> None:
        if ended is not None:
            ended.result()
            self.count += 1
        session: Session = self.session
        while time.perf_counter() < self.until:
            session.bind("", "s", (next(self.keys),))
            run = self.database.run(session.execute_portal("", ends=True), self.next)
            if not run.start():
                return
            run.result()
            self.count += 1
        self.stopped.set()


def random_keys(rows: int, seed: int) -> Any:
    rng = random.Random(seed)
    while True:
        yield rng.randrange(rows)


async def prepare(database: ServedDatabase, rows: int) -> None:
    session = database.session()
    for sql in (
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER NOT NULL, c TEXT)",
        "CREATE TABLE hot (a INTEGER PRIMARY KEY, b INTEGER)",
        "INSERT INTO hot VALUES (1, 0)",
        "CREATE TABLE h (a BIGINT PRIMARY KEY, b INTEGER, c TEXT)",
        f"INSERT INTO t SELECT i, 0, 'some words and more' FROM generate_series(0, {rows - 1}) AS s(i)",
    ):
        await database.call(session.execute(sql))
    await database.checkpoint()


async def reads(database: ServedDatabase, rows: int, seconds: float) -> dict[str, Any]:
    client = Client(database, SELECT, random_keys(rows, 1))
    cpu = time.thread_time()
    client.begin(seconds)
    cpu = time.thread_time() - cpu
    return {
        "what": "SELECT by key",
        "sessions": 1,
        "per_s": client.count / seconds,
        "loop_us": cpu / client.count * 1e6,
    }


async def writes(
    database: ServedDatabase, what: str, sql: str, clients: list[Client], seconds: float
) -> dict[str, Any]:
    cpu, all_cpu, began = time.thread_time(), time.process_time(), time.perf_counter()
    for client in clients:
        client.begin(seconds)
    for client in clients:
        await client.stopped.wait()
    cpu, all_cpu = time.thread_time() - cpu, time.process_time() - all_cpu
    count, elapsed = sum(client.count for client in clients), time.perf_counter() - began
    return {
        "what": what,
        "sessions": len(clients),
        "per_s": count / elapsed,
        "loop_us": cpu / count * 1e6,
        "other_us": (all_cpu - cpu) / count * 1e6,
        "loop_busy": cpu / elapsed,
    }


BLOCK = {
    "b": "BEGIN",
    "u": UPDATE,
    "s": SELECT,
    "hot": "UPDATE hot SET b = b + 1 WHERE a = $1",
    "i": INSERT,
    "c": "COMMIT",
}


async def blocks(database: ServedDatabase, rows: int, number: int, seconds: float) -> dict[str, Any]:
    """Transactions of TPC-B's kind, statement by statement: one row is changed by all of them."""
    serial = iter(range(number << 40, 1 << 60))
    until = time.perf_counter() + seconds

    async def client(seed: int) -> int:
        keys, session, count = random_keys(rows, seed), database.session(), 0
        for name, sql in BLOCK.items():
            session.parse(name, sql)
        while time.perf_counter() < until:
            key = (next(keys),)
            for name, values in (
                ("b", ()),
                ("u", key),
                ("s", key),
                ("hot", (1,)),
                ("i", (next(serial),)),
                ("c", ()),
            ):
                session.bind("", name, values)
                await database.call(session.execute_portal("", ends=True))
            count += 1
        return count

    cpu, began = time.thread_time(), time.perf_counter()
    count = sum(await asyncio.gather(*(client(seed) for seed in range(number))))
    cpu, elapsed = time.thread_time() - cpu, time.perf_counter() - began
    return {
        "what": "BEGIN ... COMMIT on one hot row",
        "sessions": number,
        "per_s": count / elapsed,
        "loop_us": cpu / count * 1e6,
        "loop_busy": cpu / elapsed,
    }


class Reader:
    """A session whose point reads fall due every 2 ms; ``late`` has how long after that each was answered."""

    def __init__(self, database: ServedDatabase, rows: int, seconds: float) -> None:
        self.database, self.session, self.keys = database, database.session(), random_keys(rows, 7)
        self.session.parse("s", SELECT)
        self.until = time.perf_counter() + seconds - 0.1
        self.due = 0.0
        self.late: list[float] = []

    def send(self) -> None:
        self.due = time.perf_counter() + 0.002
        self.database.driver.loop.call_later(0.002, self.ask)

    def ask(self) -> None:
        self.session.bind("", "s", (next(self.keys),))
        run = self.database.run(self.session.execute_portal("", ends=True), self.answered)
        if run.start():
            self.answered(run)

    def answered(self, run: Run[Any]) -> None:
        run.result()
        self.late.append(time.perf_counter() - self.due)
        if time.perf_counter() < self.until:
            self.send()


async def checkpoints(database: ServedDatabase, rows: int, seconds: float) -> dict[str, Any]:
    """Latency of point reads while 32 sessions write, with a checkpoint every second and without."""
    found: dict[str, Any] = {"what": "point reads under load", "sessions": 32}
    for name, checkpoint in (("quiet", False), ("checkpoints", True)):
        clients = [Client(database, UPDATE, random_keys(rows, 100 + i)) for i in range(32)]
        for client in clients:
            client.begin(seconds)
        reader = Reader(database, rows, seconds)
        reader.send()
        made = 0
        while checkpoint and time.perf_counter() < reader.until:
            await asyncio.sleep(1.0)
            await asyncio.get_running_loop().run_in_executor(None, database.store.flush)
            made += 1
        for client in clients:
            await client.stopped.wait()
        late = sorted(reader.late)
        found[name] = {
            "p50_ms": late[len(late) // 2] * 1e3,
            "p99_ms": late[len(late) * 99 // 100] * 1e3,
            "max_ms": late[-1] * 1e3,
            "writes_per_s": sum(c.count for c in clients) / seconds,
            "checkpoints": made,
        }
    return found


async def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        # No checkpoints but those that are asked for.
        settings = DatabaseSettings(checkpoint_interval_s=1e6, checkpoint_rows=1 << 60)
        database = await ServedDatabase.open(Path(directory) / "db", settings)
        await prepare(database, arguments.rows)
        settle_interpreter()
        wanted = (
            arguments.only.split(",")
            if arguments.only
            else ["read", "update", "insert", "block", "checkpoint"]
        )
        if "read" in wanted:
            results.append(await reads(database, arguments.rows, arguments.seconds))
        serial = iter(range(1 << 60))
        for what, sql in (("update", UPDATE), ("insert", INSERT)):
            for number in (1, 8, 32):
                if what in wanted:
                    clients = [
                        Client(database, sql, serial if what == "insert" else random_keys(arguments.rows, i))
                        for i in range(number)
                    ]
                    results.append(await writes(database, what.upper(), sql, clients, arguments.seconds))
        if "block" in wanted:
            results += [await blocks(database, arguments.rows, n, arguments.seconds) for n in (1, 8, 32)]
        if "checkpoint" in wanted:
            results.append(await checkpoints(database, arguments.rows, arguments.seconds))
        await database.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--directory", help="where the database is made; default: the system's for temporary files"
    )
    parser.add_argument("--only", help="read,update,insert,block,checkpoint: some of them")
    for result in uvloop.run(measure(parser.parse_args())):
        print(json.dumps(result))


if __name__ == "__main__":
    main()
