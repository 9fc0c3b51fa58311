"""INSERT ... SELECT of an Arrow answer: as batches it comes to what it comes to row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import herdpy
from herdpy.log import InsertBatch
from herdpy_server.store import Workspace
from herdpy_sql import storage
from herdpy_sql.execute import insert
from tests.remote.many_cases import TYPES

SOURCE = f"""CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE s ({TYPES}, e mood, l int[], jb jsonb, iv interval);
INSERT INTO s (k, i, s, n, m, d, r, t, v, c, b, y, a, h, ts, tz, u, j, e, l, jb, iv)
SELECT g, nullif(g % 7, 0) * 1000, g, g / 8.0, CASE g % 3 WHEN 0 THEN 1.50 * g END, g / 3.0, g / 3.0,
    'no ' || g, 'abc', 'x', g % 2 = 0, '\\x00ff', '2020-01-01', '12:34', '-infinity', '2020-01-01 00:00+02',
    md5(g::text)::uuid, '{{"a": 1}}', CASE WHEN g % 2 = 0 THEN 'ok'::mood END, ARRAY[g, NULL],
    '{{"b": 1, "a": 2.50}}', '1 mon 2 days'
FROM generate_series(1, 300) g"""
ALL = "k, i, s, n, m, d, r, t, v, c, b, y, a, h, ts, tz, u, j, e, l, jb, iv"
CASES: dict[str, tuple[str, str]] = {
    "all types": (
        f"CREATE TABLE d ({TYPES}, e mood, l int[], jb jsonb, iv interval)",
        f"({ALL}) SELECT {ALL} FROM s",
    ),
    "a hidden key": ("CREATE TABLE d (a bigint, b text)", "SELECT k, t FROM s ORDER BY k DESC"),
    "other types": (
        "CREATE TABLE d (k smallint PRIMARY KEY, n numeric(6, 1), t varchar(6), ts timestamptz)",
        "SELECT k, d, t, a FROM s",
    ),
    "defaults": (
        "CREATE SEQUENCE q; CREATE TABLE d (k bigint, one int DEFAULT nextval('q'), c text DEFAULT 'c',"
        " two int DEFAULT nextval('q'), three int GENERATED ALWAYS AS IDENTITY, n text)",
        "(k) SELECT k FROM s ORDER BY k",
    ),
    "one default for all": (
        "CREATE TABLE d (k bigint, a boolean DEFAULT (now() > '2000-01-01'), b numeric(6, 2) DEFAULT 1.5 + 1,"
        " c mood DEFAULT 'ok', n int DEFAULT NULL, r double precision DEFAULT random() * 0)",
        "(k) SELECT k FROM s",
    ),
    "generated": (
        "CREATE TABLE d (k bigint, x bigint GENERATED ALWAYS AS (k * 2) STORED)",
        "SELECT k FROM s",
    ),
    "generated of a default": (
        "CREATE TABLE d (k bigint, c text DEFAULT 'c', g text NOT NULL GENERATED ALWAYS AS (c || t) STORED"
        " CHECK (g <> 'c'), t text)",
        "(t, k) SELECT t, k FROM s",
    ),
    "a check": ("CREATE TABLE d (k bigint CHECK (k > 0), i int)", "SELECT k, i FROM s"),
    "an index": (
        "CREATE TABLE d (k bigint PRIMARY KEY, i int); CREATE INDEX x ON d (i);"
        " CREATE UNIQUE INDEX y ON d (i, k)",
        "SELECT k, i FROM s",
    ),
    "a partial index": (
        "CREATE TABLE d (k bigint PRIMARY KEY, i int); CREATE UNIQUE INDEX y ON d (k) WHERE i > 9",
        "SELECT k, i FROM s",
    ),
    "a parent": ("CREATE TABLE d (k bigint REFERENCES s, i int)", "SELECT k, i FROM s"),
    "two parents": (
        "CREATE TABLE p (a int PRIMARY KEY, b int, UNIQUE (b, a)); INSERT INTO p VALUES (1, 7);"
        " CREATE TABLE d (k bigint REFERENCES s, a int REFERENCES p, b int, i int,"
        " FOREIGN KEY (a, b) REFERENCES p (a, b))",
        "SELECT k, 1, CASE WHEN k % 2 = 0 THEN 7 END, i FROM s",
    ),
    "itself": (
        "CREATE TABLE d (k bigint PRIMARY KEY, above bigint REFERENCES d)",
        "SELECT k, k % 300 + 1 FROM s ORDER BY k",
    ),
    "a parent itself": (
        "CREATE TABLE d (k bigint PRIMARY KEY); CREATE TABLE c (k bigint REFERENCES d ON DELETE CASCADE)",
        "SELECT k FROM s",
    ),
    "a parent at the end": (
        "CREATE TABLE d (k bigint REFERENCES s DEFERRABLE INITIALLY DEFERRED)",
        "SELECT k * 2 FROM s",
    ),
    "conflicts": (
        "CREATE TABLE d (k int PRIMARY KEY, n int)",
        "SELECT i, k FROM s WHERE i IS NOT NULL ON CONFLICT DO NOTHING",
    ),
    "a view with a check": (
        "CREATE TABLE base (k bigint); CREATE VIEW d AS SELECT * FROM base WHERE k < 1000 WITH CHECK OPTION",
        "SELECT k FROM s",
    ),
    "NULL": ("CREATE TABLE d (k bigint, i int NOT NULL)", "SELECT k, i FROM s ORDER BY k"),
    "a duplicate": (
        "CREATE TABLE d (k bigint PRIMARY KEY)",
        "SELECT nullif(k, 200) + 1 - (k / 290) FROM s ORDER BY k",
    ),
    "a failing check": ("CREATE TABLE d (k bigint CHECK (k < 250))", "SELECT k FROM s ORDER BY k"),
    "a missing parent": ("CREATE TABLE d (k bigint REFERENCES s)", "SELECT k * 2 FROM s ORDER BY k"),
    "two missing parents": (
        "CREATE TABLE p (a bigint PRIMARY KEY);"
        " CREATE TABLE d (a bigint REFERENCES p, k bigint REFERENCES s)",
        "SELECT CASE WHEN k > 100 THEN k END, k * 4 FROM s ORDER BY k",
    ),
    "nobody above": (
        "CREATE TABLE d (k bigint PRIMARY KEY, above bigint REFERENCES d)",
        "SELECT k, k % 300 + 2 FROM s ORDER BY k",
    ),
    "half a key": (
        "CREATE TABLE p (a bigint, b int, PRIMARY KEY (a, b)); INSERT INTO p SELECT k, 1 FROM s;"
        " CREATE TABLE d (k bigint PRIMARY KEY, b int, FOREIGN KEY (k, b) REFERENCES p MATCH FULL)",
        "SELECT k, CASE WHEN k <> 200 THEN 1 END FROM s ORDER BY k",
    ),
    "a failing expression": (
        "CREATE TABLE d (k bigint, x bigint GENERATED ALWAYS AS (1000 / (k - 150)) STORED)",
        "SELECT k FROM s ORDER BY k",
    ),
    "a failing default": ("CREATE TABLE d (k bigint, x int DEFAULT 1 / 0)", "(k) SELECT k FROM s"),
    "NULL generated": (
        "CREATE TABLE d (k bigint, x bigint NOT NULL GENERATED ALWAYS AS (nullif(k, 150)) STORED)",
        "SELECT k FROM s ORDER BY k",
    ),
    "a failing check of what is generated": (
        "CREATE TABLE d (k bigint, x bigint GENERATED ALWAYS AS (k * 2) STORED CHECK (x < 300))",
        "SELECT k FROM s ORDER BY k",
    ),
    "beyond SMALLINT": ("CREATE TABLE d (i smallint)", "SELECT k * 200 FROM s ORDER BY k"),
    "a failing view": (
        "CREATE TABLE base (k bigint); CREATE VIEW d AS SELECT * FROM base WHERE k < 250 WITH CHECK OPTION",
        "SELECT k FROM s ORDER BY k",
    ),
}
BATCHES = {
    *("all types", "a hidden key", "other types", "defaults", "one default for all"),
    *("generated", "generated of a default", "a check", "an index"),
    *("a parent", "two parents", "itself", "a parent itself"),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[herdpy.Connection]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('select')}/db", autocommit=True) as found:
        for statement in SOURCE.split(";\n"):
            found.execute(statement)
        found.execute("SET herdpy.engine = columnar")
        yield found


def stored(connection: herdpy.Connection, table: str) -> list[Any]:
    """The rows as datums: Python has no -infinity."""
    found: Any = connection.execute(f"SELECT * FROM {table}").result
    rows: list[Any] = found.rows
    return rows


def outcome(connection: herdpy.Connection, made: str, query: str) -> Any:
    """What becomes of it, and what is there then; all of it is undone."""
    connection.execute(f"BEGIN; {made}")
    try:
        connection.execute("SAVEPOINT one")
        try:
            became: tuple[Any, ...] = ("done", connection.execute(f"INSERT INTO d {query}").rowcount)
        except herdpy.Error as error:
            became = type(error), error.sqlstate, error.message, error.detail, error.fields
            connection.execute("ROLLBACK TO one")
        return became, sorted(map(str, stored(connection, "d")))
    finally:
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("name", CASES)
def test_alike(connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    batches: list[int] = []
    insert_batch = Workspace.insert_batch

    def noted(self: Workspace, table: Any, batch: Any) -> int:
        count = insert_batch(self, table, batch)
        assert isinstance(self.records[-1], InsertBatch)
        batches.append(count)
        return count

    monkeypatch.setattr(Workspace, "insert_batch", noted)
    monkeypatch.setattr(insert, "BATCH_ROWS", 128)
    monkeypatch.setattr(insert, "_FEW_ROWS", 10**9)
    by_rows = outcome(connection, *CASES[name])
    assert not batches
    monkeypatch.setattr(insert, "_FEW_ROWS", 64)
    by_columns = outcome(connection, *CASES[name])
    assert by_columns == by_rows
    assert batches == [128, 128, 44] or name not in BATCHES
    assert (by_rows[0][0] == "done") == (list(CASES).index(name) < list(CASES).index("NULL"))


def test_a_table_of_a_query_has_batches(
    connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for few in (10**9, 64):
        monkeypatch.setattr(insert, "_FEW_ROWS", few)
        connection.execute(f"CREATE TABLE made AS SELECT {ALL} FROM s")
        seen.append(stored(connection, "made"))
        connection.execute("DROP TABLE made")
    assert seen[0] == seen[1]
    assert len(seen[0]) == 300


def test_wide_rows_go_in_smaller_batches(
    connection: herdpy.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    insert_batch = Workspace.insert_batch

    def noted(self: Workspace, table: Any, batch: Any) -> int:
        sizes.append((batch.num_rows, batch.nbytes))
        return insert_batch(self, table, batch)

    monkeypatch.setattr(Workspace, "insert_batch", noted)
    monkeypatch.setattr(storage, "BATCH_BYTES", 10_000)
    became, rows = outcome(connection, "CREATE TABLE d (k bigint, t text)", "SELECT k, repeat(t, 100) FROM s")
    assert (became, len(rows)) == (("done", 300), 300)
    assert sum(count for count, _ in sizes) == 300
    assert all(count > 1 and nbytes < 11_000 for count, nbytes in sizes)  # with the hidden key of each row
