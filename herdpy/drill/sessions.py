"""A drill client's way to the database: through HerdPy's driver, or through plain psycopg.

Layer: below `clients`. Both ways run the same statements and end in an `Answer` or in `FailedError`, which
says what became of the work: done, not done, or unknown. They differ in who finds it out:

* The driver (`DriverSession`) finds the next leader, asks what became of a commit that lost its answer, and
  sends again what was not done. It says unknown only when nobody could be asked in time.
* A program on plain psycopg (`PlainSession`) knows several hosts and asks for the one that takes writes
  (target_session_attrs=read-write), or for one that only reads. It names its commits (herdpy.request_id), and
  asks later what became of them. A server that is stopped answers nothing for ever, so the program hangs up
  after a while (`HangUpTimer`). One whose writes are forwarded (herdpy.forward) connects to any server; one
  with a single address knows nothing of clusters, and gives its commits no names.
"""

from __future__ import annotations

import functools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar

import psycopg
from psycopg import conninfo

import herdpy
from herdpy.dbapi import url as urls
from herdpy.dbapi.options import RemoteOptions, remote_options
from herdpy.dbapi.remote.hosts import hosts_of
from herdpy.drill.history import OperationOutcome

T = TypeVar("T")

READ_LEVELS = ("linearizable", "bounded", "at_lsn", "any")
"""herdpy.read_level: every replica answers each of them; the first it answers by a question to the leader."""


class FailedError(Exception):
    """A statement or a transaction failed; `outcome` says what became of it.

    sqlstate: None when the connection broke.
    request_id: the name of a commit whose outcome is unknown, where it has one, for `Session.resolve`.
    """

    def __init__(
        self, outcome: OperationOutcome, sqlstate: str | None, message: str, *, request_id: str | None = None
    ) -> None:
        self.message = " ".join(message.split())
        super().__init__(f"{sqlstate or 'lost'}: {self.message}")
        self.outcome = outcome
        self.sqlstate = sqlstate
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """What a statement gave. count: rows changed or read; None when it is done, and its answer was lost."""

    rows: list[tuple[Any, ...]]
    count: int | None


@dataclass(frozen=True, slots=True)
class Way:
    """How a session is to be made.

    url: every server, and the tablespace.
    read_level: of `READ_LEVELS`; all but the first go to a server that follows, where there is one.
    at_follower: the first goes there, too.
    max_staleness_s: of `bounded`.
    patience_s: how long a leader is looked for, and an outcome asked for.
    statement_s: how long a statement may be unanswered before plain psycopg's program hangs up.
    first: host and port of the one server that plain psycopg's program connects to first.
    address: host and port of the one server that programs with a single address know.
    """

    url: str
    read_level: str = "linearizable"
    at_follower: bool = False
    max_staleness_s: float = 0.5
    patience_s: float = 30.0
    statement_s: float = 4.0
    first: tuple[str, int] | None = None
    address: tuple[str, int] | None = None

    @property
    def follows(self) -> bool:
        """Whether a server that follows may answer."""
        return self.at_follower or self.read_level != "linearizable"


class ClientSession(Protocol):
    """One client's connection, and the next one when it breaks. For one thread."""

    @property
    def server(self) -> str | None:
        """Who answers, as ``host:port``, where that is known."""

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        """Run one statement, in the open transaction, or else in one of its own. Raises FailedError."""

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        """Run `work`, which calls `execute`, as one transaction; what it returned, once it is committed.

        It may be called several times: each time the one before had no effect. `isolation`: in capitals, as
        BEGIN takes it. Raises FailedError.
        """

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """What became of a commit of that name; from then on it cannot happen any more if it has not.

        None when it could not be learnt in time.
        """

    def close(self) -> None:
        """Give the connection up."""


class ClientSessions(Protocol):
    """Makes sessions of one kind. kind: as in `client_threads.KINDS`, for the details of operations."""

    kind: str

    def open(self, way: Way) -> ClientSession: ...


@functools.lru_cache(256)
def only_reads(sql: str) -> bool:
    """Whether the statement has nothing to commit."""
    return sql.lstrip().upper().startswith(("SELECT", "SHOW", "SET", "BEGIN", "ROLLBACK"))


# Through the driver.

_OUTCOMES = {
    "done": OperationOutcome.DONE,
    "not done": OperationOutcome.NOT_DONE,
    "unknown": OperationOutcome.UNKNOWN,
}
_LOCK_TIMEOUT_S = 10


class DriverSession:
    """One connection of `herdpy.connect`; it is made when it is first needed."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._connection: herdpy.Connection | None = None

    @property
    def server(self) -> str | None:
        """The driver does not say."""
        return None

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        """See `Session.execute`."""
        with failing():
            cursor = self.connection().execute(sql, parameters or None)
            rows = cursor.fetchall() if cursor.description else []
        return SessionAnswer(rows, None if cursor.rowcount == -1 else cursor.rowcount)

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        """See `Session.transaction`: by `herdpy.run_transaction`, which tries again what was not done."""

        def run(connection: herdpy.Connection) -> T:
            try:
                if isolation is not None:
                    connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
                return work()
            except FailedError as failed:
                if isinstance(failed.__cause__, herdpy.Error):
                    raise failed.__cause__ from None  # which says whether it helps to try again
                raise

        with failing():
            return herdpy.run_transaction(self.connection(), run, timeout_s=self._way.patience_s)

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """The driver has asked already."""
        return None

    def close(self) -> None:
        """See `Session.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def connection(self) -> herdpy.Connection:
        """The driver's connection, for what has functions of its own upon it. Raises herdpy.Error."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> herdpy.Connection:
        way = self._way
        options: dict[str, Any] = {}
        if way.follows:
            options |= {"target": "follower", "read_level": way.read_level}
        if way.read_level == "bounded":
            options["max_staleness"] = way.max_staleness_s
        return herdpy.connect(
            way.url,
            autocommit=True,
            connect_timeout=way.patience_s,
            failover_timeout=way.patience_s,
            lock_timeout=_LOCK_TIMEOUT_S,
            application_name="herdpy drill",
            **options,
        )


class DriverSessions:
    """Makes DriverSessions."""

    kind = "driver"

    def open(self, way: Way) -> DriverSession:
        """See `Sessions.open`."""
        return DriverSession(way)


@contextmanager
def failing() -> Iterator[None]:
    """Raise the driver's errors as FailedError."""
    try:
        yield
    except herdpy.Error as error:
        raise FailedError(_OUTCOMES[error.outcome], error.sqlstate, error.message) from error


# Through psycopg.

_CONNECT_TIMEOUT_S = 2  # libpq's least; a paused server's kernel takes connections
_FORWARD = "-c herdpy.forward=on"
_PAUSE_S = 0.05
_LOOK_S = 0.1
_POSITION_AGE_S = 10.0
_UNKNOWN = "08007"
_LOCK_TIMEOUT = "10s"


class HangUpTimer:
    """Shuts the sockets of statements that are unanswered for too long; a context manager with one thread."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, socket.socket]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="drill-hang-up", daemon=True)

    @contextmanager
    def after(self, seconds: float, fileno: int) -> Iterator[None]:
        """Hang up when the block takes longer than that."""
        with socket.socket(fileno=os.dup(fileno)) as own:
            with self._lock:
                self._waiting[id(own)] = time.monotonic() + seconds, own
            try:
                yield
            finally:
                with self._lock:
                    del self._waiting[id(own)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            with self._lock:
                now = time.monotonic()
                for until, own in self._waiting.values():
                    if until < now:
                        with suppress(OSError):  # the server has closed it this very moment
                            own.shutdown(socket.SHUT_RDWR)


Knows = Literal["leader", "any server", "one address"]
"""Which servers plain psycopg's program connects to: the one that leads; any, which forwards; or a single
one, which forwards, and then commits have no names."""


class PlainSession:
    """One connection of psycopg at a time, made when it is needed."""

    def __init__(self, way: Way, hang_up: HangUpTimer, knows: Knows = "leader") -> None:
        self._way = way
        self._hang_up = hang_up
        self._knows = knows
        self._statement_s = way.patience_s if knows == "one address" else way.statement_s
        self._conninfo = _conninfo(way, knows)
        self._first = way.first
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._position = ""
        self._position_until = 0.0
        self._in_transaction = False

    @property
    def server(self) -> str | None:
        """See `Session.server`."""
        connection = self._connection
        return None if connection is None else f"{connection.info.host}:{connection.info.port}"

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        """See `Session.execute`."""
        if self._in_transaction or only_reads(sql):
            return self._run(sql, parameters)
        return self._named(sql, parameters)

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        """See `Session.transaction`. It is tried once."""
        self._run("BEGIN" if isolation is None else f"BEGIN ISOLATION LEVEL {isolation}")
        self._in_transaction = True
        try:
            result = work()
            self._named("COMMIT")
            return result
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_transaction = False

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """See `Session.resolve`."""
        deadline = time.monotonic() + self._way.patience_s
        while True:
            try:
                ((outcome,),) = self._run("SELECT herdpy.forbid_commit(%s)", (request_id,)).rows
            except FailedError:
                if time.monotonic() > deadline:
                    return None
                time.sleep(_PAUSE_S)
                continue
            if outcome == "not done":
                return OperationOutcome.NOT_DONE
            return OperationOutcome.DONE if str(outcome).startswith("done") else None

    def close(self) -> None:
        """See `Session.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _named(self, sql: str, parameters: tuple[object, ...] = ()) -> SessionAnswer:
        """A statement that commits, under a new name; a lost answer leaves its outcome unknown."""
        if self._knows == "one address":
            return self._unnamed(sql, parameters)
        request_id = self._new_name()
        self._run(f"SET herdpy.request_id = '{request_id}'")
        try:
            return self._run(sql, parameters)
        except FailedError as failed:
            if failed.sqlstate not in (None, _UNKNOWN):
                raise
            raise FailedError(
                OperationOutcome.UNKNOWN, failed.sqlstate, failed.message, request_id=request_id
            ) from failed

    def _unnamed(self, sql: str, parameters: tuple[object, ...]) -> SessionAnswer:
        """A statement that commits; its outcome stays unknown when its answer is lost."""
        self._connected()
        try:
            return self._run(sql, parameters)
        except FailedError as failed:
            if not is_lost(failed.sqlstate):
                raise
            raise FailedError(OperationOutcome.UNKNOWN, failed.sqlstate, failed.message) from failed

    def _run(self, sql: str, parameters: tuple[object, ...] = ()) -> SessionAnswer:
        """Send a statement. FailedError says *not done*, which is not so when the statement commits."""
        connection = self._connected()
        try:
            with self._hang_up.after(self._statement_s, connection.fileno()):
                cursor = connection.execute(sql.encode(), parameters or None)
                return SessionAnswer(cursor.fetchall() if cursor.description else [], cursor.rowcount)
        except psycopg.Error as error:
            if connection.closed or error.sqlstate in (None, "25006", "HP003", "57P01", "57P03", _UNKNOWN):
                self.close()  # another server is wanted
            text = error.diag.message_primary or str(error)
            raise FailedError(OperationOutcome.NOT_DONE, error.sqlstate, text) from error

    def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                self._run("ROLLBACK")
            except FailedError:  # the connection ends, and the transaction with it
                self.close()

    def _new_name(self) -> str:
        """It begins with a position of the log, which distinguishes not done from forgotten."""
        now = time.monotonic()
        if now >= self._position_until:
            ((position,),) = self._run("SELECT herdpy.commit_position()").rows
            self._position, self._position_until = str(position), now + _POSITION_AGE_S
        return f"{self._position}/{secrets.token_urlsafe(16)}"

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        if self._in_transaction:
            raise FailedError(
                OperationOutcome.NOT_DONE, None, "the connection was lost, and the transaction with it"
            )
        info, first = self._conninfo, self._first
        if first is not None:
            self._first = None
            info = conninfo.make_conninfo(info, host=first[0], port=first[1], target_session_attrs="any")
        try:
            self._connection = psycopg.connect(info, autocommit=True)
        except psycopg.Error as error:
            said = str(error).partition("\n")[0]
            raise FailedError(
                OperationOutcome.NOT_DONE, error.sqlstate, f"no server was found: {said}"
            ) from error
        self._run(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        if self._way.follows:
            self._run(f"SET herdpy.read_level = '{self._way.read_level}'")
            self._run(f"SET herdpy.max_staleness_ms = {round(self._way.max_staleness_s * 1000)}")
        return self._connection


class PlainSessions:
    """Makes PlainSessions; a context manager. kind: see `ClientSessions`."""

    def __init__(self, kind: str = "psycopg", knows: Knows = "leader") -> None:
        self.kind = kind
        self._knows = knows
        self._hang_up = HangUpTimer()

    def open(self, way: Way) -> PlainSession:
        """See `Sessions.open`."""
        return PlainSession(way, self._hang_up, self._knows)

    def __enter__(self) -> Self:
        self._hang_up.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hang_up.__exit__(*exception)


def is_lost(sqlstate: str | None) -> bool:
    """Whether a commit that failed so may have been done: its answer was lost, or is not known."""
    return sqlstate in (None, "lost", _UNKNOWN, "08006")


def way_parameters(way: Way) -> dict[str, Any]:
    """What libpq is given of a way, but the hosts: dbname, user, password, TLS."""
    options = _options(way)
    return {
        "dbname": options.database,
        "user": options.user,
        "password": options.password,
        **options.libpq,
    }


def _options(way: Way) -> RemoteOptions:
    server = urls.parse(way.url)
    if not isinstance(server, urls.ServersUrl):
        raise ValueError(f"this URL names no servers: {way.url}")
    return remote_options(server, server.options)


def _conninfo(way: Way, knows: Knows) -> str:
    options = _options(way)
    if knows == "one address" and way.address is not None:
        hosts = [way.address]
    else:
        hosts = hosts_of(options).known(time.monotonic() + options.connect_timeout_s)
    attributes = "prefer-standby" if way.follows else "read-write"
    more = {} if knows == "leader" else {"options": _FORWARD}
    return conninfo.make_conninfo(
        "",
        host=",".join(host for host, _port in hosts),
        port=",".join(str(port) for _host, port in hosts),
        target_session_attrs=attributes if knows == "leader" else "any",
        load_balance_hosts="random",
        connect_timeout=_CONNECT_TIMEOUT_S,
        application_name="herdpy drill",
        **way_parameters(way),
        **more,
    )
