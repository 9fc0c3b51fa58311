"""A drill client's way to the database through PostgreSQL's JDBC driver, in a Java program of its own.

Layer: beside `sessions`, below `clients`. The program (OneAddress.java) knows one server, which forwards its
writes, and gives its commits no names: it is what a program is that was written for PostgreSQL. What a lost
answer leaves unknown stays so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from herdpy.drill.history import OperationOutcome
from herdpy.drill.sessions import FailedError, SessionAnswer, Way, is_lost, only_reads, way_parameters
from herdpy.testing.java import JavaProgram, JavaProgramError, compiled, pgjdbc_jars

T = TypeVar("T")

_SOURCE = Path(__file__).with_name("OneAddress.java")
_REQUEST_S = 120.0
_MEMORY = ("-Xmx64m",)
_CONNECT_S = 5
_SETTINGS = "-c herdpy.forward=on -c lock_timeout=10s"


class JdbcSession:
    """One Java program with one connection, started when it is first needed."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._program: JavaProgram | None = None
        self._in_transaction = False

    @property
    def server(self) -> str | None:
        """See `ClientSession.server`."""
        address = self._way.address
        return None if address is None else f"{address[0]}:{address[1]}"

    def execute(self, sql: str, *parameters: object) -> SessionAnswer:
        """See `ClientSession.execute`."""
        return self._execute(sql, parameters, commits=not only_reads(sql))

    def transaction(self, work: Callable[[], T], isolation: str | None = None) -> T:
        """See `ClientSession.transaction`. It is tried once."""
        self._request("begin", isolation=isolation or "")
        self._in_transaction = True
        try:
            result = work()
            self._request("commit", commits=True)
            return result
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_transaction = False

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """Commits have no names."""
        return None

    def close(self) -> None:
        """See `ClientSession.close`."""
        program, self._program = self._program, None
        if program is not None:
            program.stop()

    def _execute(self, sql: str, parameters: tuple[object, ...], *, commits: bool) -> SessionAnswer:
        if not self._in_transaction:
            self._request("connect")  # whatever is lost behind it may have been done
        answer = self._request(
            "execute",
            commits=commits and not self._in_transaction,
            sql=sql.replace("%s", "?"),
            parameters=list(parameters),
        )
        return SessionAnswer([tuple(row) for row in answer["rows"]], answer["count"])

    def _roll_back(self) -> None:
        try:
            self._request("rollback")
        except FailedError:  # the connection ends, and the transaction with it
            self.close()

    def _request(self, operation: str, *, commits: bool = False, **fields: object) -> dict[str, Any]:
        program = self._started()
        try:
            return program.request(operation, timeout_s=_REQUEST_S, **fields)
        except JavaProgramError as error:
            lost = commits and (is_lost(error.name) or error.name.endswith("Exception"))
            outcome = OperationOutcome.UNKNOWN if lost else OperationOutcome.NOT_DONE
            text = str(error).removeprefix(f"{error.name}: ")
            raise FailedError(outcome, None if error.name == "lost" else error.name, text) from error

    def _started(self) -> JavaProgram:
        if self._program is None:
            host, port = self._way.address or ("localhost", 5432)
            parameters = way_parameters(self._way)
            url = f"jdbc:postgresql://{host}:{port}/{parameters['dbname']}"
            program = JavaProgram(_SOURCE, url, java_options=_MEMORY, extra_classpath=[pgjdbc_jars()])
            self._program = program.__enter__()
            properties = {
                "user": parameters["user"],
                "password": parameters["password"],
                "options": _SETTINGS,
                "ApplicationName": "herdpy drill",
                "connectTimeout": _CONNECT_S,
                "socketTimeout": round(self._way.patience_s),
            }
            given = {name: str(value) for name, value in properties.items() if value is not None}
            self._program.request("open", properties=given)
        return self._program


class JdbcSessions:
    """Makes JdbcSessions."""

    kind = "jdbc"

    def open(self, way: Way) -> JdbcSession:
        """See `ClientSessions.open`."""
        return JdbcSession(way)


def prepare() -> None:
    """Compile the program, and fetch the driver. Raises KitError where Java, Maven or its repository lack."""
    pgjdbc_jars()
    compiled(_SOURCE)
