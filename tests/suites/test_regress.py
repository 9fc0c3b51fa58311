"""How statements are judged, and that a statement never holds the runner."""

from __future__ import annotations

import time

import pytest

from tests.suites.regress import Play, Side, Suite, is_ordered, judge
from tests.suites.wire import Answer, Result, Wire


def rows(*values: str, tag: str = "SELECT", names: tuple[str, ...] = ("a",)) -> Answer:
    """An answer of one column."""
    return Answer([Result(tag=f"{tag} {len(values)}", names=names, rows=[(value,) for value in values])])


def error(code: str) -> Answer:
    """An answer that is an error."""
    return Answer([Result(sqlstate=code, message=code)])


@pytest.mark.parametrize(
    ("statement", "theirs", "ours", "category"),
    [
        ("SELECT a FROM t", rows("1", "2"), rows("2", "1"), "same"),
        ("SELECT a FROM t ORDER BY a", rows("1", "2"), rows("2", "1"), "rows"),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) t", rows("1", "2"), rows("2", "1"), "same"),
        ("SELECT a FROM t", rows("1", "1"), rows("1", "2"), "rows"),
        ("SELECT a FROM t", rows("1"), rows("1", names=("b",)), "rows"),
        ("DELETE FROM t", rows(tag="DELETE"), rows(tag="UPDATE"), "rows"),
        ("SELECT 1/0", error("22012"), error("22012"), "same"),
        ("SELECT 1/0", error("22012"), error("0A000"), "code"),
        ("SELECT 1/0", error("22012"), rows("1"), "missing"),
        ("SELECT 1", rows("1"), error("0A000"), "refused"),
        ("SELECT 1", rows("1"), Answer(ended="endless"), "endless"),
        ("SELECT 1", error("22012"), Answer(ended="lost"), "lost"),
    ],
)
def test_categories(statement, theirs, ours, category):
    assert judge(statement, theirs, ours) == category


def pairs(*values: tuple[str, str]) -> Answer:
    """An answer of two columns."""
    return Answer([Result(tag="SELECT", names=("a", "b"), rows=list(values))])


@pytest.mark.parametrize(
    ("order", "category"),
    [
        ("a", "same"),
        ("t.a DESC NULLS LAST LIMIT 2", "same"),
        ("1", "same"),
        ("a, b", "rows"),
        ("2", "rows"),
        ("a + 1", "rows"),
        ("f(a)", "rows"),
        ("c", "rows"),
    ],
)
def test_rows_that_tie_come_in_any_order(order, category):
    theirs, ours = pairs(("1", "x"), ("1", "y")), pairs(("1", "y"), ("1", "x"))
    assert judge(f"SELECT a, b FROM t ORDER BY {order}", theirs, ours) == category


def test_rows_and_copied_lines_count():
    assert judge("COPY t TO stdout", Answer(copied=[("1\n",)]), Answer(copied=[("2\n",)])) == "rows"


def test_order_by_within_parentheses_and_texts_orders_nothing():
    assert is_ordered("SELECT 1 order\n by (a)")
    assert not is_ordered("SELECT array_agg(a ORDER BY (a)) FROM t WHERE b = 'ORDER BY'")


def test_scripts_run_after_those_that_they_depend_on(tmp_path):
    (tmp_path / "sql").mkdir()
    for name in ("a", "b", "c", "d"):
        (tmp_path / "sql" / f"{name}.sql").write_text("")
    (tmp_path / "parallel_schedule").write_text("test: a b\n# c depends on b\n# b depends on a\ntest: c\n")
    suite = Suite.read(tmp_path)
    assert suite.order == ("a", "b", "c", "d")
    assert suite.before("c") == ["a", "b"]
    assert suite.before("a") == []


def wires(postgres: str, limit_s: float) -> tuple[Wire, Wire]:
    """Two sessions with one server."""
    given = dict(part.split("=", 1) for part in postgres.split())
    return Wire(given, limit_s), Wire(given, limit_s)


def test_a_statement_that_does_not_end_is_cancelled(postgres):
    wire, other = wires(postgres, 0.5)
    began = time.monotonic()
    answer = wire.read(wire.send("SELECT pg_sleep(600)"))
    assert answer.ended == "endless"
    assert time.monotonic() - began < 20
    assert wire.read(wire.send("SELECT 1")).results[0].rows == [("1",)]
    for one in (wire, other):
        one.close()


def test_a_lost_session_is_replaced(postgres):
    wire, other = wires(postgres, 20)
    answer = wire.read(wire.send("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert answer.ended == "lost"
    assert wire.read(wire.send("SELECT 1")).results[0].rows == [("1",)]
    for one in (wire, other):
        one.close()


_SCRIPT = """
CREATE TEMP TABLE t (a int, b text);
COPY t FROM stdin;
1\tone;
2\t\\N
\\.
SELECT count(*) AS n FROM t \\gset
\\if :{?n}
SELECT :n AS there;
\\else
SELECT 1/0;
\\endif
COPY nowhere FROM stdin;
SELECT 'SELECT ' || a FROM t ORDER BY a \\gexec
COPY t TO stdout;
"""


def test_a_script_is_played_to_both(postgres):
    sides = [Side(wire) for wire in wires(postgres, 20)]
    judged = Play("script", _SCRIPT, *sides).run()
    assert [one.category for one in judged] == ["same"] * 9
    assert judged[3].ours.results[0].rows == [("2",)]
    assert judged[4].ours.sqlstate == "42P01"
    assert [one.ours.results[0].rows for one in judged[6:8]] == [[("1",)], [("2",)]]
    assert judged[8].ours.copied == [("1\tone;\n",), ("2\t\\N\n",)]
    for side in sides:
        side.wire.close()
