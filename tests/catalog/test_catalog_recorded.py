"""Every query that psql, its completion of words and pgjdbc were seen to send is answered."""

from __future__ import annotations

import pytest

from herdpy.dbapi import Connection
from tests.catalog.catalog_data import recorded


def _oid(database: Connection) -> int:
    [(oid,)] = database.execute("SELECT 't'::regclass::oid").fetchall()
    assert isinstance(oid, int)
    return oid


@pytest.mark.parametrize("name", ["psql.sql", "psql_completion.sql", "pgjdbc.sql"])
def test_is_answered(database: Connection, name: str) -> None:
    queries = recorded(name, _oid(database))
    assert len(queries) > 20
    for query in queries:
        cursor = database.execute(query)
        assert cursor.description, query
        cursor.fetchall()


def test_rows_of_jdbc_keys_and_indexes(database: Connection) -> None:
    queries = recorded("pgjdbc.sql", _oid(database))
    keys = next(q for q in queries if "_pg_expandarray" in q and "KEY_SEQ" in q)
    rows = database.execute(keys.replace("'t'", "'child'")).fetchall()
    names = [(row[3], row[4], row[5]) for row in rows]
    assert names == [("n", 1, "child_pkey"), ("id", 2, "child_pkey")]
    indexes = next(q for q in queries if "ASC_OR_DESC" in q)
    rows = database.execute(indexes).fetchall()
    shown = [(r[5], r[7], r[8], r[9]) for r in rows if r[5] == "t_a_idx"]
    assert shown == [("t_a_idx", 1, "a", "D"), ("t_a_idx", 2, "b", "A")]


def test_pgbench_looks_for_its_table(database: Connection) -> None:
    query = (
        "select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c "
        "join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) cross join lateral "
        "(select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) "
        "left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) "
        "left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) where c.relname = 't' "
        "and o.n is not null group by 1, 2 order by 1 asc limit 1"
    )
    assert database.execute(query).fetchall() == [(2, None, 0)]
