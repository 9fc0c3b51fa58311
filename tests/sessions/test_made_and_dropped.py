"""What was made and dropped leaves nothing behind: no definition, plan or catalog, nothing of the store."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.sessions.plans import KEPT_VERSIONS

ROUNDS = 2 * KEPT_VERSIONS
BOUNDED = {"Prepared", "Statement", "SqlType", "EnumType"}
"""What the cache of texts (``plan_cache``) and the functions' caches by type keep, as many as they may."""


def _ours() -> Counter[str]:
    """Living objects of our own classes, by class, but for those whose number has a bound of its own."""
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith(("herdpy", "_struct")) and kind.__name__ not in BOUNDED:
            found[kind.__name__] += 1
    return found


def _do(database: Database, session: Any, *statements: str) -> None:
    for one in statements:
        database.run(session.execute(one))


def _table(database: Database, session: Any, name: str) -> None:
    _do(
        database,
        session,
        f"CREATE TABLE {name} (a int PRIMARY KEY, b text, c serial)",
        f"CREATE INDEX {name}_b ON {name} (b)",
        f"INSERT INTO {name} VALUES (1, 'x')",
        f"SELECT b FROM {name} WHERE a = 1",
        f"UPDATE {name} SET b = 'y' WHERE a = 1",
        f"ANALYZE {name}",
        f"DROP TABLE {name}",
    )


def _view(database: Database, session: Any, name: str) -> None:
    _do(
        database,
        session,
        f"CREATE VIEW {name} AS SELECT 1 AS a",
        f"SELECT * FROM {name}",
        f"DROP VIEW {name}",
    )


def _sequence(database: Database, session: Any, name: str) -> None:
    _do(database, session, f"CREATE SEQUENCE {name}", f"SELECT nextval('{name}')", f"DROP SEQUENCE {name}")


def _type(database: Database, session: Any, name: str) -> None:
    _do(database, session, f"CREATE TYPE {name} AS ENUM ('a')", f"SELECT 'a'::{name}", f"DROP TYPE {name}")


def _index(database: Database, session: Any, name: str) -> None:
    _do(database, session, f"CREATE INDEX {name} ON kept (b)", f"DROP INDEX {name}")


def _prepared(database: Database, session: Any, name: str) -> None:
    _do(
        database,
        session,
        f"CREATE TABLE {name} (a int)",
        f"PREPARE p_{name} AS SELECT a FROM {name}",
        f"EXECUTE p_{name}",
        f"DEALLOCATE p_{name}",
        f"DROP TABLE {name}",
    )


def _session(database: Database, session: Any, name: str) -> None:
    """A session that ends with a temporary table, a prepared statement and settings of its own."""
    own = database.session()
    _do(
        database,
        own,
        f"CREATE TEMP TABLE {name} (a int PRIMARY KEY, c serial)",
        f"INSERT INTO {name} VALUES (1)",
        f"PREPARE p AS SELECT a FROM {name}",
        "EXECUTE p",
        "SET my.own = '1'",
    )
    database.run(own.close())


@pytest.mark.parametrize("make", [_table, _view, _sequence, _type, _index, _prepared, _session])
def test_it_leaves_nothing(tmp_path: Path, make: Callable[[Database, Any, str], None]) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        _do(database, session, "CREATE TABLE kept (a int PRIMARY KEY, b int)")
        for number in range(ROUNDS):
            make(database, session, f"n{number}")
        _settle(database, session)
        before = _ours()
        for number in range(ROUNDS, 3 * ROUNDS):
            make(database, session, f"n{number}")
        _settle(database, session)
        more = {kind: count for kind, count in (_ours() - before).items() if count > ROUNDS // 8}
        assert more == {}


def _settle(database: Database, session: Any) -> None:
    """Let plans of what was dropped grow old, and the store write what it has."""
    for _ in range(2 * KEPT_VERSIONS):
        _do(database, session, "COMMENT ON TABLE kept IS 'one'", "COMMENT ON TABLE kept IS 'two'")
    database.run(database.session().execute("CHECKPOINT"))


def test_statements_go_on_after_their_plans_went(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        _do(
            database,
            session,
            "CREATE TABLE kept (a int PRIMARY KEY, b int)",
            "INSERT INTO kept VALUES (1, 2)",
        )
        _do(database, session, "PREPARE p (int) AS SELECT b FROM kept WHERE a = $1")
        for _ in range(2):
            assert list(database.run(session.execute("EXECUTE p (1)")).rows) == [(2,)]
            assert list(database.run(session.execute("SELECT b FROM kept WHERE a = 1")).rows) == [(2,)]
            _settle(database, session)
