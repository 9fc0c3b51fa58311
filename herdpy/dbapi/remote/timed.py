"""The link of a connection with a ``request_timeout``: each call has so long, whatever becomes of servers.

Above ``remote``. A call that was given its own time keeps that. When the time is up the statement is
cancelled (57014); what became of a commit whose answer did not come is asked for all the same, within
failover_timeout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from herdpy.dbapi.link import Result
from herdpy.dbapi.remote.link import RemoteLink
from herdpy.dbapi.remote.options import RemoteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation


class TimedLink(RemoteLink):
    """A session on the server that leads, whose calls end in time."""

    def __init__(self, options: RemoteOptions, autocommit: bool) -> None:
        super().__init__(options, autocommit)
        assert options.request_timeout_s is not None
        self._seconds = options.request_timeout_s

    def _timed(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._limit.until is not None else self.limited(self._seconds)

    def execute(self, sql: str, params: Sequence[object] = (), source: Translation | None = None) -> Result:
        """See Link."""
        with self._timed():
            return super().execute(sql, params, source)

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> Result:
        """See Link."""
        with self._timed():
            return super().execute_many(statement, rows)

    def execute_script(self, text: str) -> list[Result]:
        """See Link."""
        with self._timed():
            return super().execute_script(text)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """See Link."""
        with self._timed():
            return super().ingest(table, data, schema, mode, within)

    def commit(self) -> None:
        """See Link."""
        with self._timed():
            super().commit()

    def rollback(self) -> None:
        """See Link."""
        with self._timed():
            super().rollback()
