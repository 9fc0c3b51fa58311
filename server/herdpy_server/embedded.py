"""The whole database in one process: a directory, its tablespace, and the turn that threads take.

The roof of the embedded house: an ``OpenDirectory``, and sessions on top of it. Their coroutines run in the
thread that calls :meth:`Database.run` while it holds the turn; the turn is free while they wait for
a lock, the log or DuckDB. Where signals' exceptions can come, in the main thread, they run in ``shelter``'s
thread instead; only what reads and need not wait stays.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import fields
from pathlib import Path
from types import CoroutineType
from typing import Any, ClassVar, TypeVar

from herdpy.log import Append, LastWait
from herdpy.log.published import PlaceError, PublishedManifest
from herdpy.log.wait import run_blocking
from herdpy_server.publishing.snapshot import Progress, applied_state, moment_of, there, write_snapshot
from herdpy_server.sessions import OpenSessions, Session
from herdpy_server.shelter import Shelter, ShelteredCall
from herdpy_server.tablespace_host import DatabaseSettings, OpenDirectory, is_closed, is_closing
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.embedded")

T = TypeVar("T")

_CLOSE_PATIENCE_S = 60.0


class Database:
    """An open directory. Any number of threads may use it, each with a session of its own.

    Attributes:
        recovery: what opening found in the log.
        torn: what was cut off the log's end because a crash had torn it; mostly nothing.
        rebuilt: why the store was rebuilt from the log, or None.
        checkpointer: brings what is applied into the store.
        shelter: where the main thread has its work done.
    """

    shelter: ClassVar[type[Shelter]] = Shelter
    _shared: ClassVar[dict[str, tuple[Database, int]]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()
    _count: ClassVar[int] = 0  # of those that are open
    _counting: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path, settings: DatabaseSettings) -> None:
        self.path = path
        self.settings = settings
        self._turn = threading.Lock()
        self._sessions = OpenSessions()
        self._closed = False
        self._suspended: set[object] = set()  # coroutines that wait for something
        self._idle = threading.Condition(self._turn)
        self._left: dict[
            Session, ShelteredCall[Any]
        ] = {}  # what goes on in a session although nobody waits for it
        self._directory = directory = OpenDirectory(path, settings, self._turn)
        self.log, self.store, self.tablespace = directory.log, directory.store, directory.host.tablespace
        self.checkpointer = directory.host.checkpointer
        self.recovery, self.torn, self.rebuilt = directory.recovery, directory.torn, directory.rebuilt
        directory.start(checkpoint=lambda: self.checkpoint())
        with Database._counting:
            Database._count += 1

    # Opening and sharing.

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Database:
        """Open the database in directory ``path``, making it when there is none.

        Raises:
            SqlError: 55006 another process has it, XX001 it is damaged (the message says where and
                what to do), 0A000 it was written by a newer HerdPy, and what the disk refuses.
            TypeError: a setting is not known.
        """
        unknown = settings.keys() - {field.name for field in fields(DatabaseSettings)}
        if unknown:
            raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")
        where, wanted = Path(path).absolute(), DatabaseSettings(**settings)
        return Shelter.call(lambda: cls(where, wanted), undo=cls.close)

    @classmethod
    def acquire(cls, path: str | os.PathLike[str], **settings: Any) -> Database:
        """The database at ``path``, shared within this process; :meth:`release` gives it back."""
        key = os.path.realpath(path)
        return Shelter.call(lambda: cls._acquire(key, settings), undo=cls.release)

    @classmethod
    def _acquire(cls, key: str, settings: dict[str, Any]) -> Database:
        with cls._sharing:
            if key in cls._shared:
                database, count = cls._shared[key]
            else:
                database, count = cls.open(key, **settings), 0
            cls._shared[key] = (database, count + 1)
            return database

    def release(self) -> None:
        """Give back what :meth:`acquire` gave; the last one closes the database."""
        Shelter.call(self._release)

    def _release(self) -> None:
        key = str(self.path)
        with self._sharing:
            database, count = self._shared[key]
            if count > 1:
                self._shared[key] = (database, count - 1)
                return
            del self._shared[key]
            self.close()

    def close(self) -> None:
        """Roll back what is open, checkpoint, and close. A second call does nothing."""
        Shelter.call(self._close)

    def _close(self) -> None:
        with self._turn:
            if self._closed:
                return
            self._closed = True
            for session in self._sessions:
                session.shut()
        try:
            self._directory.close(self._await_statements)
        finally:
            with Database._counting:
                Database._count -= 1
                if not Database._count:
                    Shelter.rest()

    def _await_statements(self) -> None:
        """Wait for the threads that are in the middle of a statement: commits end, all else gets an error."""
        with self._turn:
            self.tablespace.let_writers_in(is_closing())
            until = time.monotonic() + _CLOSE_PATIENCE_S
            while self._suspended and time.monotonic() < until:
                for session in self._sessions:
                    session.shut()  # again: DuckDB may miss an interrupt that comes too early
                self._idle.wait(0.05)
            for session in self._sessions:
                session.roll_back_now()
        if self._suspended:
            logger.error("%d statements did not end when %s was closed", len(self._suspended), self.path)

    def abandon(self) -> None:
        """Of a copy in a forked child: leave the directory to the parent, and refuse to be used."""
        self._closed = True
        self._directory.lock.release()

    # Using it.

    def session(self) -> Session:
        """A new session."""
        return Shelter.call(self._new_session)

    def _new_session(self) -> Session:
        with self._turn:
            if self._closed:
                raise is_closed(self.path)
            session = self._directory.host.session()
            self._sessions.add(session)
            return session

    def run(self, coroutine: Coroutine[Any, Any, T], session: Session | None = None) -> T:
        """Run a session's coroutine to its end, in turn with other threads.

        Args:
            session: it; where it is given, an interrupt of the main thread ends the statement.
        """
        coroutine = _with_state(coroutine)
        if session is not None and (before := self._left.get(session)) is not None:
            before.wait()
            self._left.pop(session, None)
        if not Shelter.is_needed():
            return self._drive(coroutine)
        return self._sheltered(coroutine, None, session)

    def read(self, coroutine: Coroutine[Any, Any, T], session: Session) -> T:
        """As :meth:`run`, for a statement that looks like a query: what reads and need not wait stays here.

        It costs no switch of threads then. The session moves itself (``TransactionBlock.covered``) before it
        changes anything.
        """
        if self._left:
            return self.run(coroutine, session)
        coroutine = _with_state(coroutine)
        if not Shelter.is_needed():
            return self._drive(coroutine)
        with self._turn:
            session.exposed = True
            try:
                wait = coroutine.send(None)
                self._suspended.add(coroutine)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                session.exposed = False
        return self._sheltered(coroutine, wait, session)

    def _sheltered(self, coroutine: Coroutine[Any, Any, T], wait: Any, session: Session | None) -> T:
        if session is None:
            return Shelter.call(lambda: self._drive(coroutine, wait))
        return Shelter.call(
            lambda: self._drive(coroutine, wait),
            session.cancel,
            left=lambda call: self._left.update({session: call}),
        )

    def _drive(self, coroutine: Coroutine[Any, Any, T], wait: Any = None) -> T:
        """Run a coroutine to its end in this thread; ``wait`` is what it waits for, if it has begun."""
        turn, suspended = self._turn, self._suspended
        interrupt: BaseException | None = None
        try:
            while True:
                try:
                    if wait is not None and interrupt is None:
                        wait.block()
                        if type(wait) is LastWait:
                            # Only the answer is left, and that is the statement's own: no turn is needed.
                            coroutine.send(None)
                            raise AssertionError("a statement waits again after its last wait")
                    with turn:
                        if wait is not None and self._closed and not isinstance(wait, (Append, LastWait)):
                            interrupt = is_closing()
                        wait = coroutine.send(None) if interrupt is None else coroutine.throw(interrupt)
                        suspended.add(coroutine)
                    interrupt = None
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                except BaseException as error:
                    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
                        raise
                    interrupt = error
        finally:
            if wait is not None:
                suspended.discard(coroutine)
                if self._closed:
                    with turn:
                        self._idle.notify_all()

    def checkpoint(self) -> list[int]:
        """Bring everything into the store and delete the ledgers that are no longer needed.

        Returns:
            Ids of the ledgers deleted.

        Raises:
            SqlError: the store or the log could not be written (53100: for lack of space); nothing
                is lost, and it will be tried again. 57P03 when the database is closed.
        """
        return Shelter.call(self._checkpoint)

    def _checkpoint(self) -> list[int]:
        if self._closed:
            raise is_closed(self.path)
        return self._directory.checkpoint()

    def publish(
        self, url: str, tablespace: str = "default", progress: Progress = lambda _rows, _bytes: None
    ) -> PublishedManifest:
        """Publish what is committed now as a snapshot for readers of the log, in this thread.

        Others go on meanwhile. At a position that was published to ``url`` before nothing is written.

        Args:
            url: a directory, or whatever fsspec knows.
            tablespace: the name under which readers look for it.

        Raises:
            SqlError: 58030, the place refused something; 57P03 when the database is closed.
        """
        with self._turn:
            if self._closed:
                raise is_closed(self.path)
            state = applied_state(self.store)
        try:
            found = run_blocking(moment_of(self.log, self.log.state, state.lsn, time.time_ns() // 1000))
            manifest = there(url, tablespace, state.lsn)
            if manifest is not None and manifest.log_id == found.log_id:
                return manifest
            return write_snapshot(state, url, tablespace, found, progress=progress)
        except PlaceError as error:
            raise SqlError("58030", str(error)) from error
        finally:
            state.close()

    @property
    def checkpoint_failure(self) -> Exception | None:
        """Why the last checkpoint failed; None when it did not. It is tried again on its cadence."""
        return self.checkpointer.failure


def _in_child() -> None:
    """A forked child has no threads, turn or lock of its own: it must open directories itself.

    What it inherited is kept as it is: taking it apart could touch files that the parent uses. Only
    its copy of the lock goes, so that the directory is free once the parent has closed it.
    """
    for database, _ in Database._shared.values():
        _inherited.append(database)
        database.abandon()
    Database._shared = {}
    Database._sharing = threading.Lock()
    Database._count, Database._counting = 0, threading.Lock()


_inherited: list[Database] = []
os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], **settings: Any) -> Iterator[Database]:
    """A database for the length of a ``with`` block."""
    database = Database.open(path, **settings)
    try:
        yield database
    finally:
        database.close()


def _with_state(coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """A coroutine that says whether it has ended (``inspect.getcoroutinestate``): a compiled one does not."""
    return coroutine if isinstance(coroutine, CoroutineType) else _awaited(coroutine)


async def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    return await coroutine
