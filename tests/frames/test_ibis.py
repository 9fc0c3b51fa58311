"""ibis: its PostgreSQL backend on a server, and its SQL on either kind, with answers as Arrow."""

from __future__ import annotations

import decimal

import ibis
import pytest
from ibis import _

import herdpy
from herdpy.pandas import read_sql

FRUIT = "INSERT INTO fruit VALUES (1, 'apple', 0.35), (2, 'pear', 0.50), (3, 'pear', 0.60)"


@pytest.fixture
def fruit(conn):
    conn.execute("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(8, 2))")
    conn.execute(FRUIT)
    return conn


def totals(table):
    """Sums by name."""
    return table.group_by("name").agg(total=_.price.sum(), n=_.count()).order_by("name")


WANTED = {"name": ["apple", "pear"], "total": [decimal.Decimal("0.35"), decimal.Decimal("1.10")], "n": [1, 2]}


def test_its_sql(fruit):
    """An expression over a table that is only described becomes PostgreSQL's SQL, for any connection."""
    table = ibis.table({"id": "int32", "name": "string", "price": "decimal(8, 2)"}, name="fruit")
    text = str(ibis.to_sql(totals(table), dialect="postgres"))
    assert read_sql(text, fruit).to_dict("list") == WANTED


def test_in_memory(fruit):
    """What a query answers, as a table of ibis' own engine: on the whole it is shared, not copied."""
    table = ibis.memtable(fruit.execute("SELECT * FROM fruit").fetch_arrow_table())
    assert totals(table).to_pyarrow().to_pydict() == WANTED


def test_its_postgres_backend(frames_server):
    port = frames_server.port
    with herdpy.connect(f"herdpy://ann@127.0.0.1:{port}", autocommit=True) as conn:
        conn.execute("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(8, 2))")
        conn.execute(FRUIT)
        backend = ibis.postgres.connect(host="127.0.0.1", port=port, user="ann", database="herdpy")
        assert backend.list_tables() == ["fruit"]
        table = backend.table("fruit")
        assert table.schema() == ibis.schema({"id": "!int32", "name": "!string", "price": "decimal(8, 2)"})
        assert totals(table).to_pandas().to_dict("list") == WANTED
        dear = table.filter(_.price > 0.4).mutate(rank=ibis.row_number().over(order_by=_.price))
        assert dear.select("id", "rank").order_by("id").to_pandas().to_numpy().tolist() == [[2, 0], [3, 1]]
        backend.disconnect()
        conn.execute("DROP TABLE fruit")
