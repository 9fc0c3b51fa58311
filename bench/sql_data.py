"""Tables that the SQL benchmark fills alike in HerdPy, PostgreSQL and DuckDB: orders of customers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

TABLES = (
    "CREATE TABLE customer (id INT PRIMARY KEY, name TEXT NOT NULL, region INT NOT NULL)",
    "CREATE TABLE sale (id BIGINT PRIMARY KEY, customer INT NOT NULL, code TEXT NOT NULL, day DATE NOT NULL,"
    " amount NUMERIC(12, 2) NOT NULL, pieces INT NOT NULL)",
)
INDEXES = (
    "CREATE INDEX sale_code ON sale (code)",
    "CREATE INDEX sale_day ON sale (day, id)",
)
_FIRST_DAY = 19_000


def tables(rows: int) -> dict[str, pa.Table]:
    """``rows`` sales of a tenth as many customers; the same for the same number."""
    random = np.random.default_rng(rows)
    customers = max(rows // 10, 1)
    ids = np.arange(rows, dtype=np.int64)
    cents = random.integers(1, 10_000_000, rows)
    amount = pa.array(cents).cast(pa.decimal128(19, 0))
    return {
        "customer": pa.table(
            {
                "id": np.arange(customers, dtype=np.int32),
                "name": [f"customer {i}" for i in range(customers)],
                "region": (np.arange(customers) % 25).astype(np.int32),
            }
        ),
        "sale": pa.table(
            {
                "id": ids,
                "customer": random.integers(0, customers, rows).astype(np.int32),
                "code": [f"code {i * 7919 % rows:08d}" for i in range(rows)],
                "day": pa.array((_FIRST_DAY + ids * 700 // rows).astype(np.int32)).cast(pa.date32()),
                "amount": _hundredths(amount),
                "pieces": random.integers(1, 100, rows).astype(np.int32),
            }
        ),
    }


def _hundredths(cents: pa.Array) -> pa.Array:
    """Whole cents as amounts with two digits after the point: the same integers, another scale."""
    wide = cents.cast(pa.decimal128(38, 0))
    return pa.Array.from_buffers(pa.decimal128(38, 2), len(wide), wide.buffers()).cast(pa.decimal128(12, 2))


def load_herdpy(connection: Any, made: dict[str, pa.Table]) -> None:
    """Make and fill the tables, then look at them."""
    for statement in TABLES:
        connection.execute(statement)
    for name, table in made.items():
        connection.cursor().adbc_ingest(name, table, mode="append")
    for statement in INDEXES:
        connection.execute(statement)
    connection.execute("CHECKPOINT")
    connection.execute("ANALYZE")


def load_postgres(connection: Any, made: dict[str, pa.Table]) -> None:
    """The same in PostgreSQL, through a psycopg connection."""
    for statement in TABLES:
        connection.execute(statement)
    for name, table in made.items():
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(include_header=False))
        with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
            copy.write(sink.getvalue().to_pybytes())
    for statement in (*INDEXES, "VACUUM ANALYZE"):
        connection.execute(statement)


def load_duckdb(connection: Any, made: dict[str, pa.Table]) -> None:
    """The same in DuckDB's own tables."""
    for statement in TABLES:
        connection.execute(statement)
    for name, table in made.items():
        connection.register("arriving", table)
        connection.execute(f"INSERT INTO {name} SELECT * FROM arriving")
        connection.unregister("arriving")
