"""Clients that keep writing, each in its own way; their answers are compared with the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import herdpy
from herdpy.dbapi.remote import requests as remote_requests

BATCH = 3
"""How many rows a write of several rows has."""
COLUMNS = remote_requests.FEW_ROWS + 1
"""How many rows of executemany go as columns."""


def by_autocommit(conn: Any, writer: str, number: int) -> None:
    conn.execute("INSERT INTO written VALUES (%s, %s)", (writer, number))


def by_transaction(conn: Any, writer: str, number: int) -> None:
    def work(conn: Any) -> None:
        conn.execute("SELECT count(*) FROM written WHERE writer = %s AND number = %s", (writer, number))
        conn.execute("INSERT INTO written VALUES (%s, %s)", (writer, number))

    herdpy.run_transaction(conn, work)


def by_executemany(conn: Any, writer: str, number: int) -> None:
    conn.cursor().executemany("INSERT INTO written VALUES (%s, %s)", [(writer, number)] * BATCH)


def by_columns(conn: Any, writer: str, number: int) -> None:
    conn.cursor().executemany("INSERT INTO written VALUES (%s, %s)", [(writer, number)] * COLUMNS)


def by_script(conn: Any, writer: str, number: int) -> None:
    insert = f"INSERT INTO written VALUES ('{writer}', {number})"
    conn.execute("; ".join([insert] * BATCH))


def by_arrow(conn: Any, writer: str, number: int) -> None:
    rows = pa.table({"writer": [writer] * BATCH, "number": pa.array([number] * BATCH, pa.int32())})
    conn.cursor().adbc_ingest("written", rows, mode="append")


WAYS: dict[str, tuple[Callable[[Any, str, int], None], bool, int]] = {
    "autocommit": (by_autocommit, True, 1),
    "run_transaction": (by_transaction, False, 1),
    "executemany": (by_executemany, True, BATCH),
    "columns": (by_columns, True, COLUMNS),
    "script": (by_script, True, BATCH),
    "arrow": (by_arrow, True, BATCH),
}


class Writers:
    """One client for each way, until :meth:`stop`. Every other one is given the second URL, if there is one.

    Attributes:
        told: the numbers whose write returned, by writer.
        errors: what writes raised, by writer and number.
    """

    def __init__(self, url: str, prefix: str, second_url: str = "") -> None:
        self.told: dict[str, list[int]] = {f"{prefix} {way}": [] for way in WAYS}
        self.errors: dict[tuple[str, int], herdpy.Error] = {}
        self._url = url
        self._stop = threading.Event()
        self._progress = threading.Condition()
        self._broken: list[BaseException] = []
        with herdpy.connect(url, autocommit=True) as conn:
            conn.execute("CREATE TABLE IF NOT EXISTS written (writer TEXT, number INTEGER)")
        urls = (url, second_url or url)
        self._threads = [
            threading.Thread(target=self._write, args=(name, urls[place % 2]))
            for place, name in enumerate(self.told)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, name: str, url: str) -> None:
        write, autocommit, _rows = WAYS[name.rpartition(" ")[2]]
        number = 0
        try:
            with herdpy.connect(url, autocommit=autocommit) as conn:
                while not self._stop.is_set():
                    number += 1
                    try:
                        write(conn, name, number)
                    except herdpy.Error as error:
                        self.errors[name, number] = error
                        conn.rollback()
                        if len(self.errors) > 20:
                            raise
                    else:
                        with self._progress:
                            self.told[name].append(number)
                            self._progress.notify_all()
        except BaseException as error:
            self._broken.append(error)
            raise
        finally:
            with self._progress:
                self._progress.notify_all()

    def await_progress(self, writes: int = 5, timeout_s: float = 60.0) -> None:
        """Return when so many more writes of every client are acknowledged."""
        goal = {name: len(numbers) + writes for name, numbers in self.told.items()}

        def reached() -> bool:
            return bool(self._broken) or all(len(self.told[name]) >= goal[name] for name in goal)

        with self._progress:
            assert self._progress.wait_for(reached, timeout_s), (goal, self.errors)
        assert not self._broken, self._broken

    @property
    def failed(self) -> list[herdpy.Error]:
        """The errors, but for texts of statements that are done, whose results were lost: they may say so."""
        return [
            error
            for (name, _number), error in self.errors.items()
            if not (name.endswith("script") and error.outcome == "done")
        ]

    def stop(self) -> None:
        """End the clients when they have done what they are doing."""
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()

    def judge(self) -> None:
        """Fail unless each write is there once if it was said to be done, and not at all if it was not."""
        assert not self._broken, self._broken
        with herdpy.connect(self._url, autocommit=True) as conn:
            counts = {
                (writer, number): count
                for writer, number, count in conn.execute(
                    "SELECT writer, number, count(*) FROM written GROUP BY writer, number"
                ).fetchall()
            }
        for name, numbers in self.told.items():
            rows = WAYS[name.rpartition(" ")[2]][2]
            for number in numbers:
                assert counts.pop((name, number), 0) == rows, (name, number)
            for number in [number for one, number in self.errors if one == name]:
                error, there = self.errors[name, number], counts.pop((name, number), 0)
                assert there in {"not done": (0,), "done": (rows,), "unknown": (0, rows)}[error.outcome]
        mine = [key for key in counts if key[0] in self.told]
        assert not mine, "rows that nobody wrote"
