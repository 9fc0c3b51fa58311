"""A client that writes while faults happen, and its answers; a fault from its beginning to its end."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import herdpy
from herdpy.drill.control import ClusterObserver
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults import Fault
from herdpy.testing.process import await_until

PATIENCE_S = 60.0
_BETWEEN_ROWS_S = 0.005
"""A fault is to meet a row in flight, not to be outrun by all that the machine can do."""
_tables = itertools.count()


class Writing:
    """Inserts one row after the other by the driver, which finds the leader and resolves what is unknown.

    done: ids that were acknowledged. unknown: ids of which nobody knows.
    """

    def __init__(self, url: str, table: str) -> None:
        self.table = table
        self.done: list[int] = []
        self.unknown: list[int] = []
        self.refused: list[BaseException] = []
        self._url = url
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._connection: herdpy.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="writing")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def go_on(self, rows: int = 10) -> None:
        """Return when so many more rows have been acknowledged."""
        goal = len(self.done) + rows
        ok = await_until(lambda: len(self.done) >= goal or self._failed is not None, PATIENCE_S)
        assert ok, (len(self.done), self.refused[-1:])
        assert self._failed is None, self._failed

    def _run(self) -> None:
        try:
            for number in itertools.count():
                if self._stop.wait(_BETWEEN_ROWS_S):
                    return
                self._insert(number)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failed = error
        finally:
            self._hang_up()

    def _insert(self, number: int) -> None:
        if self._connection is None:
            try:
                self._connection = herdpy.connect(self._url, autocommit=True)
            except herdpy.OperationalError as error:
                self.refused.append(error)
                self._stop.wait(0.05)
                return
        try:
            self._connection.execute(f"INSERT INTO {self.table} VALUES (%s)", (number,))
            self.done.append(number)
        except herdpy.Error as error:
            self.refused.append(error)
            self.unknown.append(number)
            self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def writing(view: ClusterObserver, url: str) -> Iterator[Writing]:
    """A writer during the block; afterwards every replica has what was acknowledged."""
    table = f"written_{next(_tables)}"
    leader = view.await_following()
    view.run(leader, f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    writer = Writing(url, table)
    writer.start()
    try:
        writer.go_on()
        yield writer
        writer.go_on()
    finally:
        writer.stop()
    leader = view.await_following()
    position = _commit(url, f"INSERT INTO {table} VALUES (-1)")  # an old leader may still say that it leads
    writer.done.append(-1)
    level = ("SET herdpy.read_level = 'at_lsn'", f"SET herdpy.min_lsn = '{position}'")
    for server in view.names("server"):
        found = {row for (row,) in view.run(server, *level, f"SELECT id FROM {table}")}
        lost = sorted(set(writer.done) - found)
        assert not lost, f"{server} lost {len(lost)} rows of {len(writer.done)}: {lost[:10]}"
        assert not found - set(writer.done) - set(writer.unknown), f"{server} has rows that nobody wrote"
    _commit(url, f"DROP TABLE {table}")


def _commit(url: str, statement: str) -> str:
    """Run it where the leader is; its position in the log."""
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute(statement)
        row = connection.execute("SELECT herdpy.commit_position()").fetchone()
        assert row is not None
        return str(row[0])


@contextmanager
def happening(fault: Fault, control: LocalControl, view: ClusterObserver) -> Iterator[str]:
    """The fault from its beginning to its end; what it says of itself."""
    assert fault.cannot(control, view) is None
    texts: list[str] = []
    fault.note = texts.append
    try:
        fault.prepare(control, view)
        yield fault.begin(control, view)
    except BaseException as error:
        error.add_note("; ".join(texts))
        raise
    finally:
        fault.end()
