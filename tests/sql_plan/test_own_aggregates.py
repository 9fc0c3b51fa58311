"""Aggregates on own plans say what the columnar engine says: names, types and values, by any access path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from runner import Session
from test_sql_access_paths import make_session, predicates

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.query import AggregatePlan

EXACT = ["a", "s", "n", "a + s", "a::bigint * a", "n * 2", "coalesce(a, 0)", "n::numeric / 3"]
ORDERED = [*EXACT, "b", "d", "x", "f", "b::varchar(2)", "upper(b)", "-f"]
FILTERS = ["", "", " FILTER (WHERE n > 0)", " FILTER (WHERE b = 'a' OR s > 5)"]


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["star", "count", "distinct", "sum", "avg", "extreme", "extreme"]))
    if kind == "star":
        text = "count(*)"
    elif kind == "count":
        text = f"count({draw(st.sampled_from(ORDERED))})"
    elif kind == "distinct":
        function, column = draw(st.sampled_from([("count", "b"), ("count", "n"), ("sum", "s"), ("avg", "a")]))
        text = f"{function}(DISTINCT {column})"
    elif kind == "extreme":
        text = f"{draw(st.sampled_from(['min', 'max']))}({draw(st.sampled_from(ORDERED))})"
    else:
        text = f"{kind}({draw(st.sampled_from(EXACT))})"
    return text + draw(st.sampled_from(FILTERS))


@st.composite
def lists(draw: st.DrawFn) -> str:
    items = draw(st.lists(aggregates(), min_size=1, max_size=3))
    wrap = draw(st.sampled_from(["{}", "{}", "coalesce({}::text, 'none')", "{} IS NULL", "{} AS named"]))
    return ", ".join([wrap.format(items[0]), *items[1:]])


@pytest.fixture(scope="module")
def session() -> Session:
    return make_session()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=lists(), predicate=st.one_of(st.just("true"), predicates))
def test_engines_agree(session: Session, items: str, predicate: str) -> None:
    sql = f"SELECT {items} FROM t WHERE {predicate}"
    told = [_told(session, sql, engine="own"), _told(session, sql, engine="own", scan_only=True)]
    told.append(_told(session, sql, engine="columnar"))
    assert isinstance(session.plan(sql, engine="own"), AggregatePlan)
    assert told[0] == told[1] == told[2], sql


def _told(session: Session, sql: str, **how: object) -> object:
    try:
        plan = session.plan(sql, **how)
        rows = session.datums(plan, session.execute(plan))
    except SqlError as error:
        return error.sqlstate
    return [(column.name, column.type) for column in plan.columns or ()], [
        [_shown(v) for v in r] for r in rows
    ]


def _shown(value: object) -> str:
    return "0.0" if value == 0 and isinstance(value, float) else repr(value)  # of -0 and 0 either may come


def test_many_rows_are_gathered_piece_by_piece() -> None:
    session = Session()
    session.run("CREATE TABLE m (k INT, i INT, n NUMERIC, PRIMARY KEY (k, i))")
    session.run(
        "INSERT INTO m SELECT 1, i, CASE WHEN i % 3 > 0 THEN i::numeric / 7 END"
        " FROM generate_series(1, 2500) i"
    )
    sql = (
        "SELECT count(*), count(n), sum(i), sum(n), avg(i), min(n), max(n), count(DISTINCT i % 10),"
        " sum(DISTINCT i / 1000), count(*) FILTER (WHERE i > 2000) FROM m WHERE k = $1"
    )
    assert "Aggregate" in session.plan(sql).explain()[0]
    assert session.rows(sql, (1,)) == session.rows(sql, (1,), engine="columnar")
    assert session.rows(sql, (2,)) == session.rows(sql, (2,), engine="columnar")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(f) FROM t WHERE a = 1",
        "SELECT a, count(*) FROM t WHERE a = 1 GROUP BY a",
        "SELECT count(*) OVER () FROM t WHERE a = 1",
        "SELECT string_agg(b, ',') FROM t WHERE a = 1",
        "SELECT count(*) FROM t WHERE a = 1 LIMIT 1",
        "SELECT count(DISTINCT f) FROM t WHERE a = 1",
        "SELECT count(*) FROM t WHERE a = 1 HAVING count(*) > 1",
        "SELECT (SELECT max(s) FROM t), count(*) FROM t WHERE a = 1",
        "SELECT max(b) FROM t",
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE a BETWEEN 0 AND 1",
    ],
)
def test_the_rest_is_columnar(session: Session, sql: str) -> None:
    assert session.plan(sql).engine == "columnar"


def test_the_end_of_a_key_is_one_row(session: Session) -> None:
    for function in ("min", "max"):
        assert session.plan(f"SELECT {function}(a) FROM t").explain()[:2] == ["Aggregate", "  -> Limit"]
    assert session.plan("SELECT max(d) FROM t").engine == "columnar"  # NULLs may come first
