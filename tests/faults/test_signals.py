"""Ctrl-C strikes the main thread of an embedded program anywhere: nothing is lost, and everything goes on.

A tracer raises KeyboardInterrupt at the nth line that the main thread runs of HerdPy, for every n there is,
as Python would for a signal that comes there.
"""

from __future__ import annotations

import contextlib
import dis
import linecache
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pytest

import herdpy
from herdpy.dbapi import link
from herdpy_server.embedded import Database
from herdpy_server.store import Store
from herdpy_server.tablespace.directory import Directory

# A statement may be given up before it began, and a connection before anybody had it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LONG = pytest.mark.soak
OURS = tuple(
    str(Path(str(sys.modules[name].__file__)).parent) for name in ("herdpy", "herdpy_server", "herdpy_sql")
)


class Strike:
    """Ctrl-C at the nth line of HerdPy's ``files`` that this thread runs within the block.

    Attributes:
        came: whether there were so many lines.
    """

    def __init__(self, nth: int, files: tuple[str, ...]) -> None:
        self._left = nth
        self._files = files
        self.came = False

    def __enter__(self) -> Strike:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        return self._line if name.startswith(OURS) and name.endswith(self._files) else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Callable[..., Any] | None:
        if event == "line" and not self.came and signals_come(frame):
            self._left -= 1
            if self._left == 0:
                self.came = True
                raise KeyboardInterrupt
        return self._line


# What signals_come found, by the code's id and the step; the code, so that its id is no other's.
_FOUND: dict[tuple[int, int], tuple[CodeType, bool]] = {}


def signals_come(frame: FrameType) -> bool:
    """Whether a signal can come here: at calls and loops, not between a block and its ``__exit__``.

    Asked millions of times of some thousand places: every line of every call, for every line to be struck.
    """
    code, at = frame.f_code, frame.f_lasti
    known = _FOUND.get((id(code), at))
    if known is None:
        step = dis.opname[code.co_code[at]]
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        left = line.startswith("with ") and step in {"LOAD_CONST", "SWAP", "PUSH_EXC_INFO"}
        known = _FOUND[id(code), at] = (code, step != "NOP" and not left)
    return known[1]


OPENING = ("/embedded.py", "/shelter.py", "/connection.py", "/lifetime.py", "/wait.py")


def each_line(work: Callable[[], object], files: tuple[str, ...] = (".py",)) -> Iterator[bool]:
    """Do the work with a strike at its first line, at its second ... until it is over before the strike.

    Gives, each time, whether it was acknowledged.
    """
    for nth in range(1, 5000):
        done = False
        with contextlib.suppress(KeyboardInterrupt), Strike(nth, files) as strike:
            work()
            done = True
        yield done
        if not strike.came:
            assert nth > 5
            return
    raise AssertionError("it never ended")


def assert_closed(path: Path) -> None:
    """Nobody in this process has the database open."""
    assert os.path.realpath(path) not in Database._shared


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "db"
    link.settle()
    assert_closed(tmp_path / "db")
    Directory(tmp_path / "db").lock(create=False).release()  # nobody has it any more


def kept(path: Path) -> set[int]:
    """What is there once the directory is opened again; the store is whole."""
    link.settle()
    with herdpy.connect(path, autocommit=True) as connection:
        found = {row[0] for row in connection.execute("SELECT id FROM t").fetchall()}
        connection.execute("CHECKPOINT")
    store = Store.open(path / "store", read_only=True)
    try:
        assert list(store.check()) == []
    finally:
        store.close()
    return found


def made(path: Path, **options: Any) -> herdpy.Connection:
    connection = herdpy.connect(path, autocommit=True, **options)
    connection.execute("CREATE TABLE IF NOT EXISTS t (id integer PRIMARY KEY, n integer)")
    return connection


class Writing:
    """Statements that write one row each; what was acknowledged, and what may be there."""

    def __init__(self, connection: herdpy.Connection) -> None:
        self.connection = connection
        self.next = 0
        self.acknowledged: set[int] = set()

    def insert(self) -> None:
        self.connection.execute("INSERT INTO t VALUES (%s, 0)", (self.next,))

    def many(self) -> None:
        self.connection.cursor().executemany("INSERT INTO t VALUES (%s, 0)", ((n,) for n in [self.next]))

    def ingest(self) -> None:
        rows = pa.table({"id": pa.array([self.next], pa.int32()), "n": pa.array([0], pa.int32())})
        self.connection.cursor().adbc_ingest("t", rows.to_reader(), mode="append")

    def transaction(self) -> None:
        with self.connection.transaction():
            self.connection.execute("INSERT INTO t VALUES (%s, 0)", (self.next,))
            assert self.connection.execute("SELECT n FROM t WHERE id = %s", (self.next,)).fetchone() == (0,)

    def checkpointed(self) -> None:
        self.insert()
        self.connection.execute("CHECKPOINT")

    def returned(self, done: bool) -> None:
        """What came of it; the connection must take another commit."""
        if done:
            self.acknowledged.add(self.next)
        self.connection.rollback()
        self.next += 1
        self.insert()
        self.acknowledged.add(self.next)
        self.next += 1


@pytest.mark.parametrize(
    "what",
    ["insert", "transaction", *(pytest.param(n, marks=LONG) for n in ("many", "ingest", "checkpointed"))],
)
def test_writes(what: str, path: Path) -> None:
    with made(path) as connection:
        writing = Writing(connection)
        for done in each_line(getattr(writing, what)):
            writing.returned(done)
        before = {row[0] for row in connection.execute("SELECT id FROM t").fetchall()}
        assert writing.acknowledged <= before
        assert len(connection.shared_link.link.database.tablespace.locks) == 0
    assert kept(path) == before


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM t WHERE id = 1",
        pytest.param("SELECT count(*), sum(n) FROM t", marks=LONG),
        pytest.param("SELECT n FROM t WHERE id = 1 FOR UPDATE", marks=LONG),
        "SELECT nextval('s')",
    ],
)
def test_queries(query: str, within: bool, path: Path) -> None:
    with made(path) as connection:
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute("CREATE SEQUENCE s")
        database = connection.shared_link.link.database
        if within:
            connection.autocommit = False
        for _ in each_line(lambda: connection.execute(query).fetchall()):
            connection.rollback()
            assert database._turn.acquire(blocking=False)
            database._turn.release()
            assert len(database.tablespace.locks) == 0
            connection.execute("UPDATE t SET n = n + 1 WHERE id = 1")
            connection.commit()
    assert kept(path) == {1}


def test_opening_and_closing(path: Path) -> None:
    acknowledged = 0

    def open_and_close() -> None:
        with herdpy.connect(path, autocommit=True) as connection:
            connection.execute("SELECT 1")

    made(path).close()
    for _ in each_line(open_and_close, OPENING):
        link.settle()
        assert_closed(path)
        with made(path) as connection:
            connection.execute("INSERT INTO t VALUES (%s, 0)", (acknowledged,))
            acknowledged += 1
    assert kept(path) == set(range(acknowledged))


def test_a_directory_is_made(tmp_path: Path) -> None:
    made_there = 0

    def make() -> None:
        herdpy.connect(tmp_path / f"db{made_there}", autocommit=True).close()

    for _ in each_line(make, OPENING):
        link.settle()
        made(tmp_path / f"db{made_there}").close()
        made_there += 1


def test_signals_at_any_moment(path: Path) -> None:
    """Real ones, from a timer, into inserts and checkpoints with tiny ledgers."""
    dice = random.Random(7)

    def strike(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, strike)
    try:
        with made(path, max_ledger_bytes=4096, checkpoint_interval_s=0.01) as connection:
            writing = Writing(connection)
            for _ in range(60):
                done = False
                with contextlib.suppress(KeyboardInterrupt):
                    try:
                        signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-6, 3e-3))
                        dice.choice([writing.insert, writing.checkpointed, writing.transaction])()
                        done = True
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                writing.returned(done)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert writing.acknowledged <= kept(path)


def test_who_is_not_patient_leaves_and_the_work_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C does not wait for a disk that hangs; what it left goes on, and others meanwhile."""
    hangs, goes_on = threading.Event(), threading.Event()
    with made(path) as connection, herdpy.connect(path.with_name("other"), autocommit=True) as other:
        files = connection.shared_link.link.database.log._files

        def fdatasync(descriptor: int) -> None:
            hangs.set()
            assert goes_on.wait(60)

        def interrupt() -> None:
            hangs.wait(60)
            for _ in range(2):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                struck.wait(0.3)

        struck = threading.Event()
        monkeypatch.setattr(files, "fdatasync", fdatasync)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            connection.execute("INSERT INTO t VALUES (1, 1)")
        struck.set()
        thread.join()
        assert other.execute("SELECT 1").fetchone() == (1,)  # it is not behind the other
        monkeypatch.undo()
        goes_on.set()
        assert connection.execute("SELECT n FROM t WHERE id = 1").fetchone() == (1,)
    assert kept(path) == {1}
    with herdpy.connect(path.with_name("other")):
        pass
