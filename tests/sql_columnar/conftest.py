"""The schema of the columnar tests, in a catalog of ours and in PostgreSQL, and how both are asked."""

# ruff: noqa: E501 - a row is one line
from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlglot

from herdpy.codec.arrow import datums_to_array
from herdpy_sql.catalog import Catalog, Column, KeyPart, Table
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import ColumnarQuery, to_datums, translate
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.parser import HerdPostgres
from herdpy_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Base,
    SqlType,
)
from herdpy_sql.values import from_text, to_text

CLOCK = Clock(1_700_000_000_123_456, 1_700_000_001_000_000)


def _columns(**types: SqlType) -> tuple[Column, ...]:
    return tuple(Column(name, type_, not_null=name == "id") for name, type_ in types.items())


ITEMS = _columns(
    id=INTEGER,
    small=SMALLINT,
    big=BIGINT,
    price=SqlType(Base.NUMERIC, precision=10, scale=2),
    rate=NUMERIC,
    ratio=DOUBLE,
    single=REAL,
    name=TEXT,
    code=SqlType(Base.VARCHAR, length=8),
    tag=SqlType(Base.CHAR, length=4),
    active=BOOLEAN,
    born=DATE,
    seen=TIMESTAMP,
    logged=TIMESTAMPTZ,
    at=TIME,
    key=UUID,
    raw=BYTEA,
    doc=JSON,
)
ORDERS = _columns(
    id=INTEGER, item=INTEGER, qty=INTEGER, amount=SqlType(Base.NUMERIC, precision=12, scale=4), placed=DATE
)

ITEM_ROWS = """
1|10|1000000000000|9.99|1.5|0.5|0.25|apple|A-1|ab|t|2020-01-31|2020-01-31 12:34:56.789|2020-01-31 12:34:56+00|08:30:00|00000000-0000-0000-0000-000000000001|\\x0102|{"a": 1}
2|-20|-5|100.00|2.250|1e10|1.5|Äpfel|B-2|abc|f|1999-12-31|1999-12-31 23:59:59|1999-12-31 23:59:59.5+00|23:59:59.999999|f0000000-0000-0000-0000-000000000002|\\x|[1, 2]
3|0|0|0.00|0|-1.5|-0.5|zebra|c|a|t|2024-02-29|2024-02-29 00:00:00|2024-02-29 06:00:00+00|00:00:00|a0000000-0000-0000-0000-00000000000f|\\xff00|null
4|32767|9223372036854775807|-12345.67|-100.125|3.141592653589793|3.14|apple|A-1|abcd|f|1970-01-01|1970-01-01 00:00:00|1970-01-01 00:00:00+00|12:00:00.5|~|~|~
5|~|~|~|~|~|~|~|~|~|~|~|~|~|~|~|~|~
6|7|42|12.50|1.50|1e-7|1e10|naïve café|ÉÉ|é|t|2021-06-15|2021-06-15 06:07:08|2021-06-15 06:07:08+02|06:07:08|00000000-0000-0000-0000-00000000000a|\\x00|"x"
7|7|42|12.50|1.500|100|7|100%_done|x_y|%|t|2021-06-15|2021-06-15 06:07:08.5|2021-06-15 06:07:09+00|06:07:09|00000000-0000-0000-0000-00000000000b|\\x61|{}
8|-7|-42|33.33|12345678901234567890.123456789|-2.5|2.5|日本語テキスト|日本|日|f|2022-10-30|2022-10-30 01:30:00|2022-10-30 01:30:00+00|01:30:00|10000000-0000-0000-0000-00000000000c|\\xdeadbeef|1.50
"""
ORDER_ROWS = """
1|1|3|29.9700|2020-02-01
2|1|1|9.9900|2020-02-03
3|2|2|200.0000|2000-01-01
4|4|10|0.3333|2021-01-01
5|99|1|1.0000|~
6|~|5|~|2021-01-02
7|6|2|25.0000|2021-06-15
8|7|4|50.0001|2021-06-16
"""


def _rows(text: str, columns: tuple[Column, ...]) -> list[tuple[Any, ...]]:
    out = []
    for line in text.strip().splitlines():
        cells = line.split("|")
        out.append(
            tuple(None if c == "~" else from_text(col.type)(c) for c, col in zip(cells, columns, strict=True))
        )
    return out


TABLES = {
    "items": (Table(1, "items", ITEMS, (KeyPart(0),), "items_pkey"), _rows(ITEM_ROWS, ITEMS)),
    "orders": (Table(2, "orders", ORDERS, (KeyPart(0),), "orders_pkey"), _rows(ORDER_ROWS, ORDERS)),
}
CATALOG = Catalog(1, 3, {table.id: table for table, _ in TABLES.values()})


class Answer:
    """What a statement gave: column names, type OIDs and rows of text, or a SQLSTATE."""

    def __init__(
        self, names: list[str], oids: list[int], rows: list[tuple[str | None, ...]], state: str = ""
    ) -> None:
        self.names, self.oids, self.rows, self.state = names, oids, rows, state
        self.message = ""
        self.sql = ""

    def same(self, other: Answer, *, ordered: bool) -> bool:
        """Whether two answers agree."""
        if self.state or other.state:
            return self.state == other.state
        mine, theirs = list(self.rows), list(other.rows)
        if not ordered:
            mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
        return (self.names, self.oids, mine) == (other.names, other.oids, theirs)

    def __repr__(self) -> str:
        if self.state:
            return f"{self.state} {self.message}"
        return f"{list(zip(self.names, self.oids, strict=True))} {self.rows}"


def sources(query: ColumnarQuery) -> dict[str, pa.Table]:
    """The Arrow tables that a query's scans ask for."""
    out = {}
    for scan in query.scans:
        rows = TABLES[scan.table.name][1]
        arrays = [datums_to_array(scan.table.fields[p], [row[p] for row in rows]) for p in scan.positions]
        out[scan.name] = pa.table(arrays, names=[scan.table.columns[p].name for p in scan.positions])
    return out


def ours(sql: str, params: tuple[Any, ...] = (), clock: Clock = CLOCK) -> Answer:
    """Ask the columnar engine."""
    query = None
    try:
        query = translate(sqlglot.parse_one(sql, dialect=HerdPostgres), CATALOG)
        table = query.run(sources(query), params, clock)
    except SqlError as error:
        answer = Answer([], [], [], error.sqlstate)
        answer.message = error.message
        answer.sql = query.sql if query is not None else ""
        return answer
    types = [column.type for column in query.columns]
    shown = [to_text(t) for t in types]
    rows = [
        tuple(None if v is None else f(v) for v, f in zip(row, shown, strict=True))
        for row in to_datums(table, types)
    ]
    answer = Answer([c.name for c in query.columns], [t.oid for t in types], rows)
    answer.sql = query.sql
    return answer


def theirs(connection: psycopg.Connection[Any], sql: str) -> Answer:
    """Ask PostgreSQL."""
    result = connection.pgconn.exec_params(sql.encode(), [])
    if result.error_message:
        answer = Answer([], [], [], (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode())
        answer.message = result.error_message.decode().strip()
        return answer
    names = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
    oids = [result.ftype(i) for i in range(result.nfields)]
    rows = [
        tuple(None if (v := result.get_value(r, i)) is None else v.decode() for i in range(result.nfields))
        for r in range(result.ntuples)
    ]
    return Answer(names, oids, rows)


def load(connection: psycopg.Connection[Any]) -> None:
    """Create and fill the tables in PostgreSQL."""
    connection.execute("SET timezone = 'UTC'")
    for table, rows in TABLES.values():
        columns = ", ".join(f"{c.name} {c.type}" for c in table.columns)
        connection.execute(f"DROP TABLE IF EXISTS {table.name}")
        connection.execute(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY (id))")
        for row in rows:
            cells = [
                None if v is None else to_text(c.type)(v) for v, c in zip(row, table.columns, strict=True)
            ]
            marks = ", ".join(f"%s::{c.type}" for c in table.columns)
            connection.execute(f"INSERT INTO {table.name} VALUES ({marks})", cells)


@pytest.fixture(scope="session")
def reference(postgres: str) -> Iterator[Callable[[str], Answer]]:
    """Ask PostgreSQL, over the same tables."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS columnar_tests")
        connection.execute("SET search_path = columnar_tests")
        load(connection)
        yield lambda sql: theirs(connection, sql)


@pytest.fixture(scope="session")
def engine() -> Callable[..., Answer]:
    """Ask the columnar engine."""
    return ours


__all__ = ["Decimal", "datetime"]
