"""SQL on the cluster that all tests of Spark share."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import herdpy
from herdpy.dev import LocalCluster
from herdpy.log.lsn import LSN


class ClusterSql:
    """A connection to whichever server leads; it goes on with the next one when that changes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._connection = herdpy.connect(cluster.url, autocommit=True)

    def __call__(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement; its rows."""
        cursor = self._connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    def columns(self, table: str) -> list[str]:
        """Names of the columns of a table."""
        description = self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description
        assert description is not None
        return [column[0] for column in description]

    def position(self) -> LSN:
        """Of the newest commit of this connection."""
        ((position,),) = self("SELECT herdpy.commit_position()")
        return LSN.parse(position)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
