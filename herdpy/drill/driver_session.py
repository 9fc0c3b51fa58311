"""A session through HerdPy's driver, which looks for leaders and for outcomes itself. See `sessions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import herdpy
from herdpy.drill.history import OperationOutcome
from herdpy.drill.sessions import FailedError, SessionAnswer, Way

T = TypeVar("T")

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
        try:
            cursor = self._connected().execute(sql, parameters or None)
            rows = cursor.fetchall() if cursor.description else []
        except herdpy.Error as error:
            raise _failed(error) from error
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

        try:
            return herdpy.run_transaction(self._connected(), run, timeout_s=self._way.patience_s)
        except herdpy.Error as error:
            raise _failed(error) from error

    def resolve(self, request_id: str) -> OperationOutcome | None:
        """The driver has asked already."""
        return None

    def close(self) -> None:
        """See `Session.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> herdpy.Connection:
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


def _failed(error: herdpy.Error) -> FailedError:
    return FailedError(_OUTCOMES[error.outcome], error.sqlstate, error.message)
