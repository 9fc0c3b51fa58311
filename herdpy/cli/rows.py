"""The rows that an export writes, as Arrow batches: of the engine in this process, or of servers.

A server sends them by COPY (query) TO STDOUT (FORMAT arrow), and they are taken as they come: no more of them
are in memory than a few batches.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.cli import servers, target
from herdpy.cli.errors import CliError

if TYPE_CHECKING:
    from herdpy_sql.types import SqlType

_READ_ONLY = (
    "SET default_transaction_read_only = on"  # an export changes nothing, DELETE ... RETURNING neither
)


@dataclass(slots=True)
class CopiedRows:
    """An answer.

    Attributes:
        types: of the columns, exactly.
        batches: the rows; to be taken once.
        count: how many there are; None where nobody knows before the end.
    """

    schema: pa.Schema
    types: Sequence[SqlType]
    batches: Iterator[pa.RecordBatch]
    count: int | None


def no_rows() -> CliError:
    """The error for a statement that is no query."""
    return CliError("this statement gives no rows", hint="export takes a SELECT.")


@contextmanager
def of_directory(
    connection: Any, sql: str, parameters: Sequence[object], batch_rows: int
) -> Iterator[CopiedRows]:
    """What the engine in this process answers. Errors as the driver raises them; 25006 for a change."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_ONLY)
        cursor.execute(sql, parameters) if parameters else cursor.execute(sql)
        if cursor.description is None:
            raise no_rows()
        types = [column.type for column in cursor._result.columns]  # SqlTypes: exact texts need them
        table = cursor.fetch_arrow_table()
        yield CopiedRows(table.schema, types, iter(table.to_batches(batch_rows)), table.num_rows)


@contextmanager
def of_servers(url: str, tablespace: str, sql: str) -> Iterator[CopiedRows]:
    """What the server that leads answers.

    Raises:
        CliError: none lets us in, or it went away. The driver's errors: what the server refuses; 25006 for
            what would write.
    """
    with servers.session(url, leader_of=tablespace) as session, session.errors():
        session.rows(_READ_ONLY)
        types = _types(session, sql)
        statement = f"COPY ({sql}\n) TO STDOUT (FORMAT arrow)".encode()  # the query may end in a comment
        with session.connection.cursor().copy(statement) as copy, of_stream(copy) as (kind, batches):
            yield CopiedRows(kind, types, batches, None)


@contextmanager
def of_stream(copy: Any) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and batches of what psycopg's ``copy`` sends. They end when it has ended without error."""
    # Arrow takes a short read for the end; a buffered one is short only there.
    copied = io.BufferedReader(_Copied(copy))
    with pa.ipc.open_stream(pa.PythonFile(copied, "r")) as reader:

        def batches() -> Iterator[pa.RecordBatch]:
            yield from reader
            copied.read()  # the server's word, which comes after the last batch

        yield reader.schema, batches()


def _types(session: servers.ServerSession, sql: str) -> list[SqlType]:
    """The types of a query's columns."""
    from psycopg import pq

    wire = target.needed("herdpy_server.wire")
    types = target.needed("herdpy_sql.types")
    server = session.connection.pgconn
    for result in (server.prepare(b"", sql.encode()), server.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise session.error(result)
    if not result.nfields:
        raise no_rows()
    return [wire.type_of_oid(result.ftype(at)) or types.TEXT for at in range(result.nfields)]


class _Copied(io.RawIOBase):
    """What COPY sends, as a file."""

    def __init__(self, copy: Any) -> None:
        super().__init__()
        self._copy = copy
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            data = self._copy.read()
            if not data:
                return 0
            self._left = memoryview(data)
        wanted = memoryview(buffer).cast("B")
        size = min(len(wanted), len(self._left))
        wanted[:size] = self._left[:size]
        self._left = self._left[size:]
        return size
