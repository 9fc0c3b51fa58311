"""What writing plans promise the session: locks first, all or nothing, no state between runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from runner import CLOCK, Session

from herdpy_sql.definitions import decode_table, encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan
from herdpy_sql.parse import split
from herdpy_sql.plan import SourceChanged, prepare
from herdpy_sql.storage import MustWait


@pytest.fixture
def session() -> Session:
    session = Session()
    session.run("CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a < 1000), b TEXT NOT NULL DEFAULT 'd')")
    session.run("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z')")
    return session


class Recorder:
    """A view that notes calls, and refuses the lock of one row."""

    def __init__(self, view: object, busy: bytes | None = None) -> None:
        self.view = view
        self.busy = busy
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        attribute = getattr(self.view, name)
        if name not in {"insert", "insert_many", "update", "delete", "lock_row"}:
            return attribute

        def noted(table, *args):
            self.calls.append(name)
            if name == "lock_row" and args[0] == self.busy:
                raise MustWait("the other transaction")
            return attribute(table, *args)

        return noted


@pytest.mark.parametrize(
    "sql", ["UPDATE t SET a = a + 1", "DELETE FROM t", "UPDATE t SET id = id + 10 WHERE a > 15 OR id = 1"]
)
def test_all_rows_are_locked_before_one_is_written(session: Session, sql: str) -> None:
    view = Recorder(session.view)
    session.plan(sql).run(view, (), CLOCK)
    assert view.calls[:3] == ["lock_row"] * 3
    assert set(view.calls[3:]) <= {"update", "delete"}
    assert len(view.calls) == 6


@pytest.mark.parametrize("sql", ["UPDATE t SET a = a + 1", "DELETE FROM t", "SELECT * FROM t FOR UPDATE"])
def test_waiting_leaves_nothing_behind(session: Session, sql: str) -> None:
    table = session.view.catalog.by_name["t"]
    view = Recorder(session.view, busy=table.key_codec.encode((3,)))
    before = session.rows("SELECT * FROM t ORDER BY id")
    with pytest.raises(MustWait):
        session.plan(sql).run(view, (), CLOCK)
    assert set(view.calls) == {"lock_row"}
    assert session.rows("SELECT * FROM t ORDER BY id") == before


def test_a_violation_is_found_before_the_first_write(session: Session) -> None:
    view = Recorder(session.view)
    with pytest.raises(SqlError) as caught:
        session.plan("UPDATE t SET a = a * 40").run(view, (), CLOCK)
    assert caught.value.sqlstate == "23514"
    assert caught.value.fields == {"table": "t", "constraint": "t_a_check"}
    assert "update" not in view.calls


def test_a_statement_does_not_meet_its_own_rows(session: Session) -> None:
    session.run("CREATE INDEX t_a ON t (a)")
    assert session.run("UPDATE t SET a = a + 100 WHERE a > 5 AND a < 500").count == 3
    assert session.run("INSERT INTO t SELECT id + 10, a, b FROM t WHERE id BETWEEN 0 AND 100").count == 3
    assert session.rows("SELECT id, a FROM t ORDER BY id") == [
        (1, 110),
        (2, 120),
        (3, 130),
        (11, 110),
        (12, 120),
        (13, 130),
    ]


def test_changed_source_rows_are_noticed(session: Session) -> None:
    plan = session.plan("UPDATE t SET a = a + 1 WHERE id IN (SELECT id FROM t WHERE b = 'x')")
    assert plan.source is not None
    tables = {s.name: session.view.arrow(s.table, s.positions) for s in plan.source.scans}
    answer = plan.source.run(tables, (), CLOCK)
    session.run("UPDATE t SET b = 'w' WHERE id = 1")
    with pytest.raises(SourceChanged):
        plan.run(session.view, (), CLOCK, answer)
    session.run("DELETE FROM t WHERE id = 1")
    with pytest.raises(SourceChanged):
        plan.run(session.view, (), CLOCK, answer)


def test_a_plan_may_run_again_with_other_parameters(session: Session) -> None:
    plan = session.plan("UPDATE t SET a = $2 WHERE id = $1 RETURNING a")
    assert [session.execute(plan, (i, i * 7)).rows for i in (1, 2, 9)] == [[(7,)], [(14,)], []]
    select = session.plan("SELECT a FROM t WHERE id = $1")
    assert [session.execute(select, (i,)).rows for i in (1, 2, 9, None)] == [[(7,)], [(14,)], [], []]


def test_run_many(session: Session) -> None:
    insert = session.plan("INSERT INTO t (id, a) VALUES ($1, $2)")
    outcome = insert.run_many(session.view, iter([(i, i) for i in range(10, 20)]), CLOCK)
    assert outcome.count == 10
    assert session.rows("SELECT id, b FROM t WHERE id = 15") == [(15, "d")]
    pairs = session.plan("INSERT INTO t (id) VALUES ($1), ($2)")
    assert pairs.run_many(session.view, [(20, 21), (22, 23)], CLOCK).count == 4
    update = session.plan("UPDATE t SET a = 0 WHERE id >= $1 AND id < $2")
    assert update.run_many(session.view, [(10, 12), (12, 15)], CLOCK).count == 5
    with pytest.raises(SqlError) as caught:
        insert.run_many(session.view, [(30, 1), (31, 1000)], CLOCK)
    assert caught.value.sqlstate == "23514"


def test_not_null_names_its_column(session: Session) -> None:
    for sql in ("INSERT INTO t VALUES (4, 1, NULL)", "UPDATE t SET b = NULL WHERE id = 1"):
        with pytest.raises(SqlError) as caught:
            session.run(sql)
        assert caught.value.sqlstate == "23502"
        assert caught.value.fields == {"table": "t", "column": "b"}


def test_defaults_are_evaluated_for_each_row() -> None:
    session = Session()
    session.run(
        "CREATE TABLE t (id INT PRIMARY KEY, u UUID DEFAULT gen_random_uuid(), w TIMESTAMPTZ DEFAULT now())"
    )
    session.run("INSERT INTO t (id) VALUES (1), (2)")
    (first, when), (second, same) = session.rows("SELECT u, w FROM t ORDER BY id LIMIT 2")
    assert first != second
    assert when == same == CLOCK.transaction_us


def test_definitions_survive_their_bytes(session: Session) -> None:
    session.run("CREATE UNIQUE INDEX t_ab ON t (a DESC NULLS LAST, b)")
    table = session.view.catalog.by_name["t"]
    again = decode_table(encode_table(table))
    assert again == table
    view = session.view
    view._catalog = view._catalog.with_table(again)
    with pytest.raises(SqlError):
        session.run("INSERT INTO t VALUES (9, 5000)")
    session.run("INSERT INTO t VALUES (9, 50)")
    assert session.rows("SELECT b FROM t WHERE id = 9") == [("d",)]


@pytest.mark.parametrize(
    ("sql", "read_only", "tag"),
    [
        ("SELECT * FROM t WHERE id = 1", True, "SELECT 7"),
        ("SELECT * FROM t", True, "SELECT 7"),
        ("SELECT * FROM t WHERE id = 1 FOR UPDATE", False, "SELECT 7"),
        ("INSERT INTO t VALUES (1)", False, "INSERT 0 7"),
        ("UPDATE t SET a = 1", False, "UPDATE 7"),
        ("DELETE FROM t", False, "DELETE 7"),
        ("DROP TABLE t", False, "DROP TABLE"),
        ("BEGIN", True, "BEGIN"),
    ],
)
def test_plans_say_what_they_are(session: Session, sql: str, read_only: bool, tag: str) -> None:
    plan = session.plan(sql)
    assert isinstance(plan, Plan)
    assert plan.read_only is read_only
    assert plan.command_tag(7) == tag


def test_preset_parameter_types_are_kept(session: Session) -> None:
    from herdpy_sql.types import BIGINT, SMALLINT

    (statement,) = split("SELECT a FROM t WHERE id = $1 AND a < $2")
    plan = prepare(statement, session.view.catalog, param_types=[SMALLINT, None])
    assert plan.param_types[0] == SMALLINT
    plan = prepare(statement, session.view.catalog, param_types=[BIGINT])
    assert plan.param_types[0] == BIGINT
    assert plan.run(session.view, (2**40, 100), CLOCK).rows == []


def test_forced_engines(session: Session) -> None:
    with pytest.raises(SqlError) as caught:
        session.plan("SELECT a, count(*) FROM t GROUP BY a", engine="own")
    assert caught.value.sqlstate == "0A000"
    assert session.plan("SELECT * FROM t WHERE id = 1", engine="columnar").engine == "columnar"
    assert session.plan("UPDATE t SET a = 1 WHERE id = 1", engine="columnar").engine == "columnar"
