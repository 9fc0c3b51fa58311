"""A session with a server through libpq, as psql has one, in which no statement lasts beyond a limit."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from psycopg import OperationalError, pq

_CHUNK = 1 << 16
#: How long a server may take to end a statement that was cancelled, in seconds.
_GRACE_S = 5.0
_Row = tuple[str | None, ...]


@dataclass
class Result:
    """What a server answered to one statement of a query."""

    tag: str = ""
    names: tuple[str, ...] = ()
    rows: list[_Row] = field(default_factory=list)
    sqlstate: str = ""
    message: str = ""


@dataclass
class Answer:
    """What a server answered to a query.

    Attributes:
        ended: how it ended: `done`, `endless` (the time was over), `lost` (the connection was).
        asks: the server waits for data of COPY.
        copied: the lines of COPY TO STDOUT.
    """

    results: list[Result] = field(default_factory=list)
    ended: str = "done"
    asks: bool = False
    copied: list[_Row] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sqlstate(self) -> str:
        """The code of its error, or nothing."""
        return next((one.sqlstate for one in self.results if one.sqlstate), "")

    @property
    def message(self) -> str:
        """The text of its error, or nothing."""
        return next((one.message for one in self.results if one.sqlstate), "")


class Wire:
    """One session. `limit_s` is how long a statement may last."""

    def __init__(self, parameters: Mapping[str, str], limit_s: float) -> None:
        self._parameters = dict(parameters)
        self._limit_s = limit_s
        self._connection: pq.abc.PGconn | None = None
        self._began = self._deadline = 0.0
        if not self.connect():
            raise OperationalError("there is no session to be had")

    def connect(self, **other: str) -> bool:
        """Begin a new session, with other parameters where they are given; whether there is one."""
        wanted = {**self._parameters, **other}
        info = " ".join(f"{name}='{_escaped(value)}'" for name, value in wanted.items())
        connection = pq.PGconn.connect(info.encode())
        if connection.status != pq.ConnStatus.OK:
            connection.finish()
            return False
        self.close()
        connection.nonblocking = 1
        self._connection, self._parameters = connection, wanted
        return True

    def warm_up(self) -> None:
        """Let a server of HerdPy's start what answers queries, which no statement's limit is meant for."""
        self._live.exec_(b"SELECT sum(n) FROM generate_series(1, 3) n GROUP BY n % 2")

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.finish()
            self._connection = None

    def parameter(self, name: str) -> str:
        """A parameter that the server reports."""
        value = self._connection.parameter_status(name.encode()) if self._connection else None
        return value.decode() if value else ""

    def send(self, query: str) -> Answer:
        """Send a query. What is answered comes by :meth:`read`."""
        self._began = time.monotonic()
        self._deadline = self._began + self._limit_s
        answer = Answer()
        with self._losing(answer):
            if self._connection is None or self._connection.status != pq.ConnStatus.OK:
                self.connect()
            self._live.send_query(query.encode())
        return answer

    def read(self, answer: Answer) -> Answer:
        """Read until the query is done, or until the server asks for data of COPY (`asks`)."""
        if answer.ended == "done":
            with self._losing(answer):
                try:
                    self._read(answer)
                except TimeoutError:
                    self._give_up(answer)
        answer.seconds = time.monotonic() - self._began
        return answer

    def give(self, answer: Answer, data: str | None) -> None:
        """Give a server that asks the data; None refuses it."""
        answer.asks = False
        with self._losing(answer):
            rest = memoryview((data or "").encode())
            while rest:
                if self._live.put_copy_data(rest[:_CHUNK]):
                    rest = rest[_CHUNK:]
                elif not self._ready(writing=True):
                    self._give_up(answer)
                    return
            while not self._live.put_copy_end(b"no data" if data is None else None):
                if not self._ready(writing=True):
                    self._give_up(answer)
                    return

    @property
    def _live(self) -> pq.abc.PGconn:
        if self._connection is None or self._connection.status != pq.ConnStatus.OK:
            raise OperationalError("there is no connection")
        return self._connection

    @contextlib.contextmanager
    def _losing(self, answer: Answer) -> Iterator[None]:
        """An error of libpq here means that the connection is lost."""
        try:
            yield
        except OperationalError as error:
            answer.ended = "lost"
            answer.results.append(Result(sqlstate="08006", message=str(error)))

    def _read(self, answer: Answer) -> None:
        connection = self._live
        while (result := self._next_result()) is not None:
            if result.status == pq.ExecStatus.COPY_IN:
                answer.asks = True
                return
            if result.status != pq.ExecStatus.COPY_OUT:
                answer.results.append(_read_result(result))
            elif not self._copy_out(answer):
                raise TimeoutError
        if connection.status != pq.ConnStatus.OK:
            answer.ended = "lost"

    def _next_result(self) -> pq.abc.PGresult | None:
        """The next result of the query, None at its end; TimeoutError when the time is over."""
        connection = self._live
        while (unsent := connection.flush()) or connection.is_busy():
            if not self._ready(writing=unsent == 1):
                raise TimeoutError
            connection.consume_input()
        return connection.get_result()

    def _copy_out(self, answer: Answer) -> bool:
        """Read the lines of COPY TO STDOUT; False when the time is over."""
        connection = self._live
        while True:
            size, data = connection.get_copy_data(1)
            if size > 0:
                answer.copied.append((bytes(data).decode(errors="replace"),))
            elif size < 0:
                return True
            elif not self._ready():
                return False
            else:
                connection.consume_input()

    def _ready(self, *, writing: bool = False) -> bool:
        """Wait until the socket can be used; False when the time is over."""
        socket = self._live.socket
        left = self._deadline - time.monotonic()
        return left > 0 and any(select.select([socket], [socket] if writing else [], [], left))

    def _give_up(self, answer: Answer) -> None:
        """Cancel a statement that lasted too long; the session is replaced when that does not end it."""
        answer.ended = "endless"
        self._live.get_cancel().cancel()
        self._deadline = time.monotonic() + _GRACE_S
        try:
            while (result := self._next_result()) is not None:
                if result.status in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT):
                    raise TimeoutError
        except TimeoutError:
            self.connect()


def _read_result(result: pq.abc.PGresult) -> Result:
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        code = result.error_field(pq.DiagnosticField.SQLSTATE) or b"08006"
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        return Result(sqlstate=code.decode(), message=message.decode(errors="replace").strip())
    fields = range(result.nfields)
    return Result(
        tag=(result.command_status or b"").decode(),
        names=tuple((result.fname(column) or b"").decode(errors="replace") for column in fields),
        rows=[
            tuple(_text(result.get_value(row, column)) for column in fields) for row in range(result.ntuples)
        ],
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
