"""One connection to one server, over libpq: requests that end, one way or the other. Below ``remote``.

A request is a list of steps that go to the server in one piece (libpq's pipeline) with one Sync at their end,
so they are one transaction where none is open. Whatever breaks is ConnectionLostError. While an answer does
not come, the server is asked now and then whether it is alive; one that does not answer is lost, too.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import generators, pq

from herdpy.dbapi.remote.errors import ConnectionLostError, notice_of
from herdpy.dbapi.remote.exchanges import after_copy, copied, pipelined
from herdpy.dbapi.remote.limit import StatementLimit
from herdpy.dbapi.remote.prepared import Key, PreparedStatements
from herdpy.dbapi.remote.sent import Step, step
from herdpy.dbapi.remote.values import Parameters

T = TypeVar("T")

PROBE_AFTER_S = 1.0
"""A server that has not answered for so long is looked at, then after twice as long, and so on."""
CANCEL_TIMEOUT_S = 5.0
_COPY_CHUNK = 256 << 10
_COPIES = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)
_CLOSING = "_herdpy_close"
_UNDO_CLOSE = f"ROLLBACK TO SAVEPOINT {_CLOSING}"
_POLL = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}


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

    def belongs(self, limit: StatementLimit, said: list[Any]) -> None:
        """The link that has it says how long statements may take, and keeps what the server says."""
        self._limit = limit
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
        if len(steps) == 1:
            sql, params = steps[0]
            ready = self._prepared.ready(sql, params)
            if ready is not None:
                return self._run_alone(ready, params, deadline)
        commands: deque[Callable[[], None]] = deque()
        wanted: list[bool] = []  # whether a command's result is a step's
        fresh: list[Key] = []
        for sql, params in steps:
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
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query_prepared(name, params.values, params.formats)
            found: list[Any] = list(self._wait(generators.execute(pgconn), deadline))
            if found and found[-1].status in _COPIES:
                raise ConnectionLostError("COPY as a prepared statement: nobody moves its data")
        return found

    def forget_prepared(self) -> bool:
        """Prepare statements anew when they come again; whether any was prepared."""
        return self._prepared.forget()

    def script(self, text: str) -> list[Any]:
        """Run a text of several statements by the simple query; the results, the last may be an error."""
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query(text.encode())
            found: list[Any] = list(self._wait(generators.execute(pgconn), None))
            if found and found[-1].status in _COPIES:
                raise ConnectionLostError("COPY in a text of several statements: nobody moves its data")
        return found

    def copy_in(self, sql: str, pieces: Sequence[Any]) -> Any:
        """Run COPY ... FROM STDIN with this data; its result, which may be an error."""
        pgconn = self.pgconn
        with self._breaks():
            pgconn.send_query_params(sql.encode(), None)
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
            pgconn.send_query_params(sql.encode(), None)
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

    def cancel(self) -> None:
        """Have the server end what it runs; from any thread, and within a bounded time."""
        with suppress(psycopg.Error, ConnectionLostError):
            asked = self.pgconn.cancel_conn()
            asked.start()
            steps = generators.cancel(asked)
            _wait_for_socket(steps, time.monotonic() + CANCEL_TIMEOUT_S)

    def close(self) -> None:
        """Give the connection up."""
        self.pgconn.finish()


class _Breaks:
    """Whatever goes wrong inside is a lost connection, and the connection is closed."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        self._wire.is_broken = True
        self._wire.close()
        if isinstance(error, psycopg.Error):
            raise ConnectionLostError(str(error).strip()) from error


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
