"""The tables that the catalog is asked about, and the queries that clients were seen to ask it with."""

from __future__ import annotations

from pathlib import Path

from herdpy_sql.parse import split

DEFINITIONS = (
    "CREATE TABLE t (id int PRIMARY KEY, a varchar(10) NOT NULL DEFAULT 'x', b numeric(10,2), c timestamp, "
    "d double precision DEFAULT 1.5, CONSTRAINT u UNIQUE (a, b), CONSTRAINT positive CHECK (d > 0))",
    "CREATE INDEX t_a_idx ON t (a DESC, b)",
    "CREATE TABLE nokey (x bigint, y double precision, z char(3))",
    'CREATE TABLE "Mixed Case" ("K" int PRIMARY KEY, "order" text)',
    'CREATE UNIQUE INDEX mixed_u ON "Mixed Case" ("order")',
    "CREATE TABLE child (id int, n int, u uuid, j json, PRIMARY KEY (n, id))",
    "INSERT INTO t VALUES (1, 'a', 1.5, '2024-01-01 10:00:00', 2)",
)

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str, oid: int) -> list[str]:
    """The queries of a file; ``oid`` stands where a table's id was."""
    return [
        statement.text.replace(":oid", str(oid)) for statement in split((RECORDED / name).read_text("utf-8"))
    ]
