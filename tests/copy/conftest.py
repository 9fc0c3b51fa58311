"""COPY on PostgreSQL and by HerdPy's readers and writers, asked the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pytest

from herdpy_server.copy import CopyTarget, reader, writer
from herdpy_server.wire.columns import column_to_text
from herdpy_sql.catalog import Catalog, Column, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.parse import split
from herdpy_sql.plan import CopyFrom, CopyTo, prepare
from herdpy_sql.types import SqlType

Rows = list[tuple[str | None, ...]]
Loaded = Rows | tuple[str, str, str | None]
"""The rows in text, or (SQLSTATE, message, context)."""


@dataclass
class Peer:
    """PostgreSQL's COPY."""

    conn: psycopg.Connection

    def make(self, name: str, columns: Sequence[tuple[str, SqlType]]) -> None:
        """A temporary table."""
        listed = ", ".join(f"{column} {sql_type}" for column, sql_type in columns)
        self.conn.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} ({listed})")
        self.conn.execute(f"TRUNCATE {name}")

    def load(self, name: str, options: str, data: bytes) -> Loaded:
        """COPY FROM STDIN: what is in the table afterwards, in text, or the error."""
        cursor = self.conn.cursor()
        try:
            with cursor.copy(f"COPY {name} FROM STDIN {options}") as copy:
                copy.write(data)
        except psycopg.Error as error:
            return str(error.sqlstate), error.diag.message_primary or "", error.diag.context
        result = self.conn.pgconn.exec_(f"SELECT * FROM {name}".encode())
        rows: Rows = []
        for row in range(result.ntuples):
            values = [result.get_value(row, column) for column in range(result.nfields)]
            rows.append(tuple(None if value is None else value.decode() for value in values))
        self.conn.execute(f"TRUNCATE {name}")
        return rows

    def dump(self, source: str, options: str) -> bytes | str:
        """COPY TO STDOUT: the data, or the error's SQLSTATE."""
        try:
            with self.conn.cursor().copy(f"COPY {source} TO STDOUT {options}") as copy:
                return b"".join(bytes(piece) for piece in copy)
        except psycopg.Error as error:
            return str(error.sqlstate)


def table_of(name: str, columns: Sequence[tuple[str, SqlType]]) -> Catalog:
    """A catalog with one table."""
    table = Table(1, name, tuple(Column(*column) for column in columns), (KeyPart(0),), f"{name}_pkey")
    return Catalog(1, 2, {1: table})


def plan_of(catalog: Catalog, sql: str) -> CopyFrom | CopyTo:
    """The plan of a COPY."""
    plan = prepare(split(sql)[0], catalog)
    assert isinstance(plan, CopyFrom | CopyTo)
    return plan


def target_of(name: str, columns: Sequence[tuple[str, SqlType]], direction: str, options: str) -> CopyTarget:
    """What a COPY of all columns reads or writes."""
    plan = plan_of(table_of(name, columns), f"COPY {name} {direction} {options}")
    return CopyTarget(name, tuple(columns), plan.options)


def read(target: CopyTarget, pieces: Sequence[bytes]) -> list[pa.RecordBatch]:
    """The batches of data that comes in these pieces."""
    source = reader(target)
    found: list[pa.RecordBatch] = []
    for piece in pieces:
        found += source.feed(piece)
    found += source.finish()
    return found


def load(target: CopyTarget, pieces: Sequence[bytes]) -> Loaded:
    """As Peer.load."""
    try:
        batches = read(target, pieces)
    except SqlError as error:
        return error.sqlstate, error.message, error.fields.get("where")
    rows: Rows = []
    for batch in batches:
        texts = [
            column_to_text(array, sql_type, target.style).to_pylist()
            for array, sql_type in zip(batch.columns, target.types, strict=True)
        ]
        rows += zip(*texts, strict=True)
    return rows


def dump(target: CopyTarget, batches: Sequence[pa.RecordBatch]) -> bytes:
    """What the writer makes of batches."""
    sink = writer(target)
    found = list(sink.start(target.schema))
    for batch in batches:
        pieces = sink.batch(batch)
        found += pieces.to_pylist() if isinstance(pieces, pa.Array) else pieces
    found += sink.end()
    return b"".join(found)


@pytest.fixture(scope="session")
def copy_peer(postgres: str) -> Iterator[Peer]:
    """PostgreSQL in UTC."""
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute("SET client_min_messages TO error")
        yield Peer(conn)
