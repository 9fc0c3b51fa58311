"""executemany with ON CONFLICT: what single statements would have done, whichever way the rows go in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import herdpy.dbapi

UPSERT = "INSERT INTO t VALUES (%s, %s) ON CONFLICT (k) DO UPDATE SET n = t.n * 2 + excluded.n"
IGNORE = "INSERT INTO t VALUES (%s, %s) ON CONFLICT (k) DO NOTHING"


@pytest.mark.parametrize("statement", [UPSERT, IGNORE])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("keys", [range(3000), [*range(1500), *range(0, 3000, 2)]], ids=["new", "again"])
def test_as_single_statements(tmp_path: Path, statement: str, indexed: bool, keys: range | list[int]) -> None:
    rng = random.Random(1)
    rows = [(key, rng.randrange(100)) for key in keys]
    wanted = {7: 1}
    count = 0
    for key, n in rows:
        if key not in wanted:
            wanted[key] = n
        elif statement is UPSERT:
            wanted[key] = wanted[key] * 2 + n
        else:
            continue
        count += 1
    with herdpy.dbapi.connect(tmp_path / "db") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (k bigint PRIMARY KEY, n numeric)")
        if indexed:
            cursor.execute("CREATE INDEX t_n ON t (n)")
        cursor.execute("INSERT INTO t VALUES (7, 1)")
        cursor.executemany(statement, rows)
        assert cursor.rowcount == count
        connection.commit()
        cursor.execute("SELECT k, n FROM t")
        assert {k: int(n) for k, n in cursor.fetchall()} == wanted
        cursor.execute("SELECT count(*) FROM t WHERE n = %s", (wanted[11],))
        assert cursor.fetchone()[0] == sum(n == wanted[11] for n in wanted.values())
