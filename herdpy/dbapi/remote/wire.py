"""One connection to one server, over libpq: requests that end, one way or the other, and what errors say.

A request is a list of steps that go to the server in one piece (libpq's pipeline) with one Sync at their
end. What comes again is prepared on the way. Whatever breaks, or stays silent when it is probed, is
ConnectionLostError. Exchanges are generators, made of psycopg's own: each yields what the socket
must be ready for (1 to read, 2 to write, 3 either), is sent what it is ready for, and returns the results.
One prepared statement alone is most of what is sent, and has none: its few calls of libpq cost half as much
without (``Wire._answers``).
"""

from __future__ import annotations

import contextlib
import functools
import select
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import generators, pq
from psycopg.pq import DiagnosticField as Field

from herdpy.dbapi.errors import DatabaseError, Error, OperationalError, Outcome, class_of
from herdpy.dbapi.link import Notice, Notification
from herdpy.dbapi.remote.values import Parameters, dump
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Translation

_FIELDS = {
    "schema": Field.SCHEMA_NAME,
    "table": Field.TABLE_NAME,
    "column": Field.COLUMN_NAME,
    "datatype": Field.DATATYPE_NAME,
    "constraint": Field.CONSTRAINT_NAME,
}
_LOST = "the connection was lost, and the transaction with it"
_NOT_LEADING = frozenset({"57P01", "57P03", "08007", "HP003"})


class ConnectionLostError(Exception):
    """The connection broke, or its server fell silent; what was sent may have been carried out or not."""


def error_of(result: Any, source: Translation | None = None) -> DatabaseError:
    """The exception for a result that is an error. ConnectionLostError when it is none of the server's."""

    def said(field: Field) -> str | None:
        value: bytes | None = result.error_field(field)
        return None if value is None else value.decode(errors="replace")

    state = said(Field.SQLSTATE)
    if state is None:
        raise ConnectionLostError(result.get_error_message().strip())
    position = said(Field.STATEMENT_POSITION)
    at = int(position) if position else None
    return class_of(state)(
        said(Field.MESSAGE_PRIMARY) or "",
        sqlstate=state,
        detail=said(Field.MESSAGE_DETAIL),
        hint=said(Field.MESSAGE_HINT),
        position=source.position(at) if source is not None else at,
        retryable=SqlError(state, "").retryable,
        outcome="unknown" if state == "08007" else "not done",
        fields={name: value for name, field in _FIELDS.items() if (value := said(field)) is not None},
    )


def notice_of(result: Any) -> Notice:
    """A result that libpq has made of a notice."""

    def said(field: Field) -> str | None:
        value: bytes | None = result.error_field(field)
        return None if value is None else value.decode(errors="replace")

    return Notice(
        said(Field.SEVERITY_NONLOCALIZED) or said(Field.SEVERITY) or "NOTICE",
        said(Field.SQLSTATE) or "00000",
        said(Field.MESSAGE_PRIMARY) or "",
        said(Field.MESSAGE_DETAIL),
        said(Field.MESSAGE_HINT),
    )


def _notification_of(one: Any) -> Notification:
    """What libpq has made of a notification."""
    channel, payload = (text.decode("utf-8", "replace") for text in (one.relname, one.extra))
    return Notification(channel, payload, one.be_pid)


def is_not_leading(error: Error) -> bool:
    """Whether a server says that it does not, or no longer, take what it was sent; another one may."""
    state, message = error.sqlstate, error.message
    return (
        state in _NOT_LEADING
        or (state == "25006" and " lead" in message)
        or (state == "40001" and message.startswith("the leader of "))
    )


def is_undone_by_failover(error: Error) -> bool:
    """Whether a transaction was certainly undone because the leader changed, or the connection broke."""
    if error.outcome != "not done":
        return False
    return is_not_leading(error) or (error.sqlstate == "40001" and error.message.startswith(_LOST))


def is_fatal(result: Any) -> bool:
    """Whether the server closes the connection after this error."""
    return result.error_field(Field.SEVERITY_NONLOCALIZED) in (b"FATAL", b"PANIC")


def is_stale_plan(error: Error) -> bool:
    """Whether a prepared statement was refused because its table is another one by now."""
    return error.sqlstate == "0A000" and "cached plan" in error.message


def is_old_name(error: Error) -> bool:
    """Whether a commit was refused because its name is so old that it may have been used before."""
    return error.sqlstate == "HP002"


def lost_transaction(reason: object) -> OperationalError:
    """The transaction went with its connection: nothing of it was done."""
    return OperationalError(
        f"{_LOST}: nothing of it was done",
        sqlstate="40001",
        detail=str(reason),
        hint="Roll back, and run the transaction again from its start.",
        retryable=True,
    )


def no_answer(reason: object, outcome: Outcome) -> OperationalError:
    """The connection was lost, and this is what is known of the statement."""
    if outcome == "unknown":
        return OperationalError(
            "the connection was lost, and the outcome could not be learnt",
            sqlstate="08007",
            detail=str(reason),
            hint="Look at the rows before it is repeated.",
            outcome="unknown",
        )
    if outcome == "done":
        return OperationalError(
            "the statement is done, but its answer was lost with the connection",
            sqlstate="08006",
            detail=str(reason),
            outcome="done",
        )
    return OperationalError(
        "the connection was lost, and no leader was found in time: nothing was done",
        sqlstate="08006",
        detail=str(reason),
    )


T = TypeVar("T")
Key = tuple[str, tuple[int, ...]]
"""A statement: its text, and the object ids of its parameters' types."""
Step = tuple[str, Parameters]
"""A statement of a request, with its parameters."""

PROBE_AFTER_S = 1.0
"""A server that has not answered for so long is looked at, then after twice as long, and so on."""
_QUIET_S = 10.0
"""A server from which no notification has come for so long is looked at from outside."""
_SOON_MS = 100
"""Within this time most answers come; until then nothing else is watched."""
CANCEL_TIMEOUT_S = 5.0
_COPY_CHUNK = 256 << 10
_COPIES = frozenset({pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH})
_CLOSING = "_herdpy_close"
_UNDO_CLOSE = f"ROLLBACK TO SAVEPOINT {_CLOSING}"
_POLL = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}
FEW_COMMANDS = 16
"""So many are handed to libpq at once; more are, while answers are read, as fast as the socket takes them."""
_READ = 1  # psycopg's Wait.R
PREPARE_AFTER = 2
"""A statement is prepared when it is sent for this many times."""
MOST_PREPARED = 200
_TEXT = 25
"""PostgreSQL's object id of TEXT."""


class StatementLimit:
    """How long the statement that a caller waits for may take; of a link, whichever connection it has.

    Attributes:
        is_up: a cancel of the statement was sent to the server.
        comment: what is put behind the texts that are sent: the trace that they are part of; "": nothing.
    """

    def __init__(self) -> None:
        self.until: float | None = None  # on time.monotonic
        self.is_up = False
        self.comment = ""

    def before(self, deadline: float) -> float:
        """The earlier one of the limit and ``deadline``."""
        return deadline if self.until is None else min(deadline, self.until)

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """The block's statements have so many seconds together."""
        self.until, self.is_up = time.monotonic() + seconds, False
        try:
            yield
        finally:
            self.until = None

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Within the block there is none."""
        until, self.until = self.until, None
        try:
            yield
        finally:
            self.until = until


def pipelined(pgconn: Any, commands: deque[Callable[[], None]]) -> Generator[Any, Any, list[list[Any]]]:
    """Send the commands, of which the last is Sync; the results of each, up to that of Sync.

    Raises:
        psycopg.OperationalError: the connection broke.
    """
    found: list[list[Any]] = []
    if len(commands) <= FEW_COMMANDS:  # psycopg's generator waits for the socket before each
        for command in commands:
            command()
        commands.clear()
    if commands or pgconn.flush():
        found = yield from generators.pipeline_communicate(pgconn, commands)
    while not (found and found[-1][0].status == pq.ExecStatus.PIPELINE_SYNC):
        found.append((yield from generators.fetch_many(pgconn)))
        if not found[-1]:
            raise psycopg.OperationalError("the connection broke within an answer")
    return found


def after_copy(pgconn: Any) -> Generator[Any, Any, list[Any]]:
    """Send what is left of a COPY's data, whose end was put; its results."""
    yield from generators.send(pgconn)
    found: list[Any] = yield from generators.fetch_many(pgconn)
    return found


def copied(pgconn: Any, take: Callable[[bytes], None]) -> Generator[Any, Any, list[Any]]:
    """Give away the data of a COPY TO STDOUT as it comes; its results."""
    while True:
        size, data = pgconn.get_copy_data(1)
        if size > 0:
            take(bytes(data))
        elif size == 0:
            yield _READ
            pgconn.consume_input()
        else:
            break
    found: list[Any] = yield from generators.fetch_many(pgconn)
    return found


class PreparedStatements:
    """The prepared statements of a connection, and how often those were sent that are not."""

    def __init__(self, pgconn: Any) -> None:
        self._pgconn = pgconn
        self._seen: OrderedDict[Key, int] = OrderedDict()
        self._names: OrderedDict[Key, bytes] = OrderedDict()
        self._made = 0

    def enqueue(
        self,
        commands: deque[Callable[[], None]],
        wanted: list[bool],
        fresh: list[Key],
        sql: str,
        params: Parameters,
    ) -> None:
        """Add the commands of one statement to those of a request.

        Args:
            commands: what libpq is to be called with, in order.
            wanted: for each of them, whether its result is the statement's.
            fresh: gets the statement, when the request prepares it.
        """
        pgconn = self._pgconn
        key = (sql, params.types)
        name = self._names.get(key)
        if name is None:
            count = self._seen[key] = self._seen.pop(key, 0) + 1
            if len(self._seen) > 10 * MOST_PREPARED:
                self._seen.popitem(last=False)
            if count < PREPARE_AFTER:
                text = sql.encode()
                commands.append(
                    lambda: pgconn.send_query_params(text, params.values, params.types, params.formats)
                )
                wanted.append(True)
                return
            self._made += 1
            name = self._names[key] = b"herdpy_%d" % self._made
            fresh.append(key)
            named = name
            commands.append(lambda: pgconn.send_prepare(named, sql.encode(), params.types))
            wanted.append(False)
            if len(self._names) > MOST_PREPARED:
                old = self._names.popitem(last=False)[1]
                commands.append(lambda: pgconn.send_query_params(b"DEALLOCATE " + old, None))
                wanted.append(False)
        else:
            self._names.move_to_end(key)
        ready = name
        commands.append(lambda: pgconn.send_query_prepared(ready, params.values, params.formats))
        wanted.append(True)

    def ready(self, sql: str, params: Parameters) -> bytes | None:
        """The name under which a statement is prepared already; None when it is not."""
        key = (sql, params.types)
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def unsure_of(self, fresh: Iterable[Key]) -> None:
        """The request that prepares these has failed; which of them were prepared is not worth knowing."""
        for key in fresh:
            self._names.pop(key, None)

    def forget(self) -> bool:
        """Prepare all anew when they come again; whether any was prepared."""
        had = bool(self._names)
        self._names.clear()
        return had


def step(sql: str, *params: object) -> Step:
    """A statement with its parameters."""
    return sql, dump(params)


@functools.lru_cache(2048)
def _with_name(sql: str, number: int) -> str:
    """A statement whose commit's name is parameter ``number``; one text for all of its runs, hashed once."""
    return f"AS REQUEST ${number} {sql}"


def named(one: Step, request_id: str) -> Step:
    """A statement that brings the name of the commit that it is, or is part of, as its last parameter."""
    sql, params = one
    return (
        _with_name(sql, len(params.values) + 1),
        Parameters(
            (*params.values, request_id.encode()),
            (*params.types, _TEXT),
            (*params.formats, pq.Format.TEXT),
        ),
    )


class Wire:
    """An open connection.

    Attributes:
        exchanges: how much it has sent so far: requests, scripts, copies.
        is_broken: it is of no use any more.
        has_redefined: the transaction has changed definitions, which may be taken back.

    Args:
        is_alive: looks, from outside, whether the server still answers; blocks for a bounded time.
    """

    def __init__(self, pgconn: Any, is_alive: Callable[[], bool]) -> None:
        self.pgconn = pgconn
        self.exchanges = 0
        self.is_broken = False
        self.has_redefined = False
        self._is_alive = is_alive
        self._prepared = PreparedStatements(pgconn)
        self._limit = StatementLimit()
        self._heard: deque[Notification] = deque()
        self._quiet_s = 0.0  # how long a notification has been waited for
        self._readable = select.poll()
        self._readable.register(pgconn.socket, select.POLLIN)

    def belongs(self, limit: StatementLimit, said: list[Any], heard: deque[Notification]) -> None:
        """The link that has it says how long statements may take, and keeps what the server says."""
        self._limit = limit
        self._heard = heard
        self.pgconn.notify_handler = lambda one: heard.append(_notification_of(one))
        self.pgconn.notice_handler = lambda result: said.append(notice_of(result))

    @property
    def status(self) -> int:
        """libpq's transaction status."""
        return int(self.pgconn.transaction_status)

    def parameter(self, name: str) -> str | None:
        """A setting that the server reports."""
        value: bytes | None = self.pgconn.parameter_status(name.encode())
        return None if value is None else value.decode()

    # Requests.

    def run(self, steps: Sequence[Step], deadline: float | None = None) -> list[Any]:
        """Send the steps with one Sync; returns the result of each that was carried out.

        After an error, which is the last result then, the steps that follow were skipped.

        Raises:
            ConnectionLostError: nobody knows how far it came.
        """
        pgconn = self.pgconn
        comment = self._limit.comment
        if len(steps) == 1 and not comment:
            sql, params = steps[0]
            ready = self._prepared.ready(sql, params)
            if ready is not None:
                return self._run_alone(ready, params, deadline)
        commands: deque[Callable[[], None]] = deque()
        wanted: list[bool] = []  # whether a command's result is a step's
        fresh: list[Key] = []
        for sql, params in steps:
            if comment:
                _enqueue_once(pgconn, commands, sql + comment, params)
                wanted.append(True)
            else:
                self._prepared.enqueue(commands, wanted, fresh, sql, params)
        commands.append(pgconn.pipeline_sync)
        with self._breaks():
            pgconn.enter_pipeline_mode()
            found = self._wait(pipelined(pgconn, commands), deadline)
            pgconn.exit_pipeline_mode()
        results = []
        failed = False
        for place, (result, *_) in enumerate(found):
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            if result.status == pq.ExecStatus.PIPELINE_ABORTED:
                continue
            # Behind the results of all commands there may be an error of Sync, which commits.
            is_error = result.status == pq.ExecStatus.FATAL_ERROR
            failed = failed or is_error
            if is_error or (place < len(wanted) and wanted[place]):
                results.append(result)
        if failed:
            self._prepared.unsure_of(fresh)
        return results

    def _run_alone(self, name: bytes, params: Parameters, deadline: float | None) -> list[Any]:
        """As ``run``, of one prepared statement: libpq ends it with Sync by itself, at less cost."""
        self.exchanges += 1
        try:
            self.pgconn.send_query_prepared(name, params.values, params.formats)
            found = self._answers(deadline)
            if found and found[-1].status in _COPIES:
                raise ConnectionLostError("COPY as a prepared statement: its data cannot be transferred")
        except BaseException as error:
            self.breaks(error)
            raise
        return found

    def _answers(self, deadline: float | None) -> list[Any]:
        """The results of what was sent, as ``generators.execute`` gives them. What is rare is left to that:
        much to be sent, time that is limited, a server that is slow."""
        pgconn = self.pgconn
        if deadline is not None or self._limit.until is not None or pgconn.flush():
            return list(self._wait(generators.execute(pgconn), deadline))
        found: list[Any] = []
        try:
            while True:
                while pgconn.is_busy():
                    if not self._readable.poll(_SOON_MS):
                        found += self._wait(generators.fetch_many(pgconn), None)
                        return found
                    pgconn.consume_input()
                result = pgconn.get_result()
                if result is None:
                    return found
                found.append(result)
                if result.status in _COPIES:
                    return found
        except psycopg.DatabaseError:
            if any(result.status == pq.ExecStatus.FATAL_ERROR for result in found):
                return found  # it says why the server has closed the connection
            raise

    def forget_prepared(self) -> bool:
        """Prepare statements anew when they come again; whether any was prepared."""
        return self._prepared.forget()

    def ended(self, *, committed: bool) -> None:
        """A transaction is over. One that is undone takes back what statements were prepared on."""
        if self.has_redefined and not committed:
            self.forget_prepared()
        self.has_redefined = False

    def script(self, text: str) -> list[Any]:
        """Run a text of several statements by the simple query; the results, the last may be an error."""
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query((text + self._limit.comment).encode())
            found: list[Any] = list(self._wait(generators.execute(pgconn), None))
            if found and found[-1].status in _COPIES:
                raise ConnectionLostError(
                    "COPY in a text of several statements: its data cannot be transferred"
                )
        return found

    def copy_in(self, sql: str, pieces: Sequence[Any]) -> Any:
        """Run COPY ... FROM STDIN with this data; its result, which may be an error."""
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query_params((sql + self._limit.comment).encode(), None)
            (result, *_) = self._wait(generators.execute(pgconn), None)
            if result.status != pq.ExecStatus.COPY_IN:
                return result
            for piece in pieces:
                view = memoryview(piece)
                for at in range(0, len(view), _COPY_CHUNK):
                    self._wait(generators.copy_to(pgconn, view[at : at + _COPY_CHUNK]), None)
            pgconn.put_copy_end(None)
            return self._wait(after_copy(pgconn), None)[-1]

    def copy_out(self, sql: str, take: Callable[[bytes], None]) -> Any:
        """Run COPY ... TO STDOUT and give its data away; its result, which may be an error."""
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query_params((sql + self._limit.comment).encode(), None)
            (result, *_) = self._wait(generators.execute(pgconn), None)
            if result.status != pq.ExecStatus.COPY_OUT:
                return result
            return self._wait(copied(pgconn, take), None)[-1]

    def close_portal(self, name: str, *, in_transaction: bool) -> None:
        """Have the server forget a cursor; one that is not there is no error.

        libpq before 17 can ask for that by CLOSE alone, which is an error then: a savepoint keeps it from the
        transaction. Outside of one there is nothing to close: there cursors end with their transaction.
        """
        with self._breaks():
            if _sends_close(self.pgconn, name):
                self._wait(generators.execute(self.pgconn), time.monotonic() + CANCEL_TIMEOUT_S)
                return
        if in_transaction:
            self._close_by_sql(name)

    def _close_by_sql(self, name: str) -> None:
        quoted = name.replace('"', '""')
        until = time.monotonic() + CANCEL_TIMEOUT_S
        found = self.run([step(f"SAVEPOINT {_CLOSING}"), step(f'CLOSE "{quoted}"')], until)
        undo = () if len(found) == 2 and found[-1].status == pq.ExecStatus.COMMAND_OK else (_UNDO_CLOSE,)
        self.run([*map(step, undo), step(f"RELEASE SAVEPOINT {_CLOSING}")], until)

    # Waiting.

    def _wait(self, steps: Generator[Any, Any, T], deadline: float | None) -> T:
        """Drive one of psycopg's generators; ConnectionLostError when the server falls silent."""
        poll = select.poll()
        descriptor = self.pgconn.socket
        patience_s = PROBE_AFTER_S
        try:
            wants = int(next(steps))
            poll.register(descriptor, _POLL[wants])
            while True:
                limit_s = patience_s
                if deadline is not None:
                    limit_s = min(limit_s, deadline - time.monotonic())
                    if limit_s <= 0:
                        raise ConnectionLostError("the server did not answer in time")
                elif self._limit.until is not None:
                    left_s = self._limit.until - time.monotonic()
                    if left_s <= 0:
                        self._limit.is_up = True
                        self.cancel()
                        deadline = time.monotonic() + CANCEL_TIMEOUT_S
                        continue
                    limit_s = min(limit_s, left_s)
                events = poll.poll(limit_s * 1000)
                if not events:
                    if limit_s == patience_s and not self._is_alive():
                        raise ConnectionLostError("the server does not answer any more")
                    patience_s = min(2 * patience_s, 60.0)
                    continue
                mask = events[0][1]
                ready = (1 if mask & ~select.POLLOUT else 0) | (2 if mask & select.POLLOUT else 0)
                new = int(steps.send(ready & wants or wants))
                if new != wants:
                    wants = new
                    poll.modify(descriptor, _POLL[wants])
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]

    def _breaks(self) -> _Breaks:
        self.exchanges += 1
        return _Breaks(self)

    # The end.

    def breaks(self, error: BaseException) -> None:
        """An exchange has ended with ``error``: close the connection. ConnectionLostError for psycopg's."""
        self.is_broken = True
        self.close()
        if isinstance(error, psycopg.Error):
            raise ConnectionLostError(str(error).strip()) from error

    def hear(self, timeout_s: float) -> None:
        """Take the notifications that have come, or come within ``timeout_s``.

        ConnectionLostError: the connection is closed, or the server was silent and does not answer.
        """
        pgconn = self.pgconn
        with self._breaks():
            if self._take_notifications():
                return
            if self._readable.poll(timeout_s * 1000):
                self._quiet_s = 0.0
                pgconn.consume_input()
                self._take_notifications()
                return
            self._quiet_s += timeout_s
            if self._quiet_s > _QUIET_S:
                self._quiet_s = 0.0
                if not self._is_alive():
                    raise ConnectionLostError("the server does not answer any more")

    def _take_notifications(self) -> bool:
        """Take those that libpq has; whether there were some."""
        count = len(self._heard)
        while (one := self.pgconn.notifies()) is not None:
            self._heard.append(_notification_of(one))
        return len(self._heard) > count

    def cancel(self) -> None:
        """Have the server end what it runs; from any thread, and within a bounded time."""
        with contextlib.suppress(psycopg.Error, ConnectionLostError):
            asked = self.pgconn.cancel_conn()
            asked.start()
            steps = generators.cancel(asked)
            _wait_for_socket(steps, time.monotonic() + CANCEL_TIMEOUT_S)

    def close(self) -> None:
        """Give the connection up."""
        self.pgconn.finish()


def _enqueue_once(pgconn: Any, commands: deque[Callable[[], None]], text: str, params: Parameters) -> None:
    """Add a statement whose text never comes again: it is not prepared, nor counted."""
    data = text.encode()
    commands.append(lambda: pgconn.send_query_params(data, params.values, params.types, params.formats))


class _Breaks:
    """Whatever goes wrong inside is a lost connection, and the connection is closed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._wire.breaks(error)


def _sends_close(pgconn: Any, name: str) -> bool:
    """Ask for the end of a portal; False when libpq cannot."""
    try:
        pgconn.send_close_portal(name.encode())
    except psycopg.NotSupportedError:
        return False
    return True


def _wait_for_socket(steps: Generator[Any, Any, T], deadline: float) -> T:
    """Drive a generator that says its socket each time. ConnectionLostError when time is up."""
    try:
        descriptor, wants = next(steps)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise ConnectionLostError("time is up")
            poll = select.poll()
            poll.register(descriptor, _POLL[int(wants)])
            if poll.poll(left_s * 1000):
                descriptor, wants = steps.send(wants)
    except StopIteration as over:
        return over.value  # type: ignore[no-any-return]
