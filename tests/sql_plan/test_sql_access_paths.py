"""Whatever way leads to the rows, the rows are the same: by key, by index, by full scan, by columns."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from runner import CLOCK, Session

from herdpy_sql.execute.query import PointSelect, SelectPlan
from herdpy_sql.execute.sources import FullScan, IndexScan, KeyGet, KeyGets, KeyScan

COLUMNS = {
    "a": ["-1", "0", "1", "2", "1.0", "0.5", "1.5", "3000000000", "-3000000000", "NULL"],
    "b": ["''", "'a'", "'ab'", "'b'", "'é'", "NULL"],
    "n": ["0", "1", "1.5", "1.50", "1.505", "-2", "99999999", "1e10", "NULL"],
    "f": ["0", "-1.5", "2.25", "'NaN'", "'Infinity'", "'-0'", "NULL"],
    "d": ["'2024-01-01'", "'1999-12-31'", "'infinity'", "NULL"],
    "s": ["-32768", "7", "32767", "40000", "NULL"],
    "x": ["'a'", "'a '", "'bc'", "NULL"],
}


def make_session() -> Session:
    session = Session()
    session.run(
        "CREATE TABLE t (a INT, b TEXT, n NUMERIC(8, 2), f DOUBLE PRECISION, d DATE, s SMALLINT, x CHAR(3),"
        " PRIMARY KEY (a, b), UNIQUE (s, d))"
    )
    values = [
        "(0, '', 0, 0, '2024-01-01', 7, 'a')",
        "(0, 'a', 1.5, -1.5, '1999-12-31', 7, 'bc')",
        "(0, 'b', NULL, 'NaN', 'infinity', NULL, NULL)",
        "(1, 'a', -2, 2.25, NULL, 32767, 'a')",
        "(1, 'ab', 999999.99, '-Infinity', '2024-01-01', -32768, 'bc')",
        "(1, 'é', 1.5, NULL, '-infinity', 0, 'a')",
        "(2, 'a', 1.51, 'Infinity', NULL, 32767, NULL)",
        "(2147483647, 'b', -999999.99, '-0', '2024-01-01', NULL, 'abc')",
        "(-2147483648, 'b', 0, 0, '1999-12-31', 7, '')",
    ]
    values[-1] = values[-1].replace("1999-12-31", "2000-01-01")
    session.run(f"INSERT INTO t VALUES {', '.join(values)}")
    session.run("CREATE INDEX t_nf ON t (n DESC, f)")
    session.run("CREATE INDEX t_f ON t (f NULLS FIRST, b DESC NULLS FIRST)")
    session.run("CREATE INDEX t_d ON t (d DESC NULLS LAST)")
    session.run("CREATE INDEX t_x ON t (x, s)")
    return session


@pytest.fixture(scope="module")
def session() -> Session:
    return make_session()


KEYS = ["ab", "nf", "fb", "sd", "xs", "ba", "an", "abn"]
"""Columns that a key or an index begins with, and some that none does."""


@st.composite
def row_comparisons(draw: st.DrawFn) -> str:
    columns = draw(st.sampled_from(KEYS))
    values = [draw(st.sampled_from(COLUMNS[column])) for column in columns]
    op = draw(st.sampled_from(["<", "<=", ">", ">="]))
    return f"({', '.join(columns)}) {op} ({', '.join(values)})"


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    value = st.sampled_from(COLUMNS[column])
    kind = draw(st.integers(0, 11))
    if kind >= 10:
        return draw(row_comparisons())
    if kind == 0:
        return f"{column} IN ({', '.join(draw(st.lists(value, min_size=1, max_size=3)))})"
    if kind == 1:
        return f"{column} BETWEEN {draw(value)} AND {draw(value)}"
    if kind == 2:
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 3:
        return f"({column} = {draw(value)} OR {column} = {draw(value)})"
    op = draw(st.sampled_from(["=", "=", "=", "<", "<=", ">", ">=", "<>"]))
    if kind == 4:
        return f"{draw(value)} {op} {column}"
    return f"{column} {op} {draw(value)}"


predicates = st.lists(comparisons(), min_size=1, max_size=4).map(" AND ".join)
orders = st.lists(
    st.tuples(
        st.sampled_from(sorted(COLUMNS)),
        st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " NULLS LAST"]),
    ).map("".join),
    max_size=3,
    unique_by=lambda item: item[0],
)


def canonical(rows: list[tuple[object, ...]]) -> list[str]:
    return sorted(map(repr, rows))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=predicates)
def test_index_and_scan_agree(session: Session, predicate: str) -> None:
    sql = f"SELECT * FROM t WHERE {predicate}"
    by_path = session.rows(sql, engine="own")
    by_scan = session.rows(sql, engine="own", scan_only=True)
    assert canonical(by_path) == canonical(by_scan), session.plan(sql, engine="own").explain()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=predicates)
def test_columnar_agrees(session: Session, predicate: str) -> None:
    sql = f"SELECT a, b FROM t WHERE {predicate}"
    assert canonical(session.rows(sql, engine="own")) == canonical(session.rows(sql, engine="columnar"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    predicate=st.one_of(st.just("true"), predicates),
    order=orders,
    limit=st.one_of(st.just(""), st.integers(0, 4).map(" LIMIT {}".format)),
    offset=st.sampled_from(["", " OFFSET 1"]),
)
def test_order_and_limit_agree(
    session: Session, predicate: str, order: list[str], limit: str, offset: str
) -> None:
    # The whole key at the end makes the order total.
    sql = f"SELECT * FROM t WHERE {predicate} ORDER BY {', '.join([*order, 'a', 'b'])}{limit}{offset}"
    if any(item[0] in "ab" for item in order):
        keys = [item for item in ("a", "b") if not any(one[0] == item for one in order)]
        sql = f"SELECT * FROM t WHERE {predicate} ORDER BY {', '.join([*order, *keys])}{limit}{offset}"
    by_path = session.rows(sql, engine="own")
    by_scan = session.rows(sql, engine="own", scan_only=True)
    assert repr(by_path) == repr(by_scan), session.plan(sql, engine="own").explain()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    predicate=predicates,
    on=st.sampled_from(
        ["u.a = t.a", "u.a = t.a AND u.b = t.b", "u.n = t.n", "u.s = t.s AND u.d = t.d", "u.f = t.n"]
    ),
    kind=st.sampled_from(["JOIN", "LEFT JOIN"]),
    extra=st.sampled_from(["", " AND u.n > 0", " AND t.b = 'a'"]),
)
def test_joins_agree(session: Session, predicate: str, on: str, kind: str, extra: str) -> None:
    inner = " AND ".join(
        f"t.{part}" if part[0] not in "('-0123456789N" else "true" for part in predicate.split(" AND ")
    )
    inner = inner.replace("t.NULL", "NULL") if "BETWEEN" not in predicate else "t.a < 2"
    sql = f"SELECT t.a, t.b, u.a, u.b FROM t {kind} t AS u ON {on}{extra} WHERE {inner}"
    by_path = session.rows(sql, engine="own")
    by_scan = session.rows(sql, engine="own", scan_only=True)
    assert canonical(by_path) == canonical(by_scan), session.plan(sql, engine="own").explain()


def source_of(session: Session, sql: str) -> object:
    plan = session.plan(sql, engine="own")
    if isinstance(plan, PointSelect):
        return plan.get
    assert isinstance(plan, SelectPlan)
    return plan.pipeline.steps[0].source


@pytest.mark.parametrize(
    ("where", "kind", "name"),
    [
        ("a = 1 AND b = 'x'", KeyGet, None),
        ("a = 1 AND b IN ('x', 'y')", KeyGets, None),
        ("a = 1 AND (b = 'x' OR b = 'y')", KeyGets, None),
        ("a = 1", KeyScan, None),
        ("a > 1 AND a < 5", KeyScan, None),
        ("a >= 1", KeyScan, None),
        ("b = 'x'", FullScan, None),
        ("n = 1.5", IndexScan, "t_nf"),
        ("n = 1.5 AND f > 0", IndexScan, "t_nf"),
        ("f > 0 AND f < 1", IndexScan, "t_f"),
        ("s = 1 AND d = '2024-01-01'", IndexScan, "t_s_d_key"),
        ("s = 1", IndexScan, "t_s_d_key"),
        ("d = '2024-01-01'", IndexScan, "t_d"),
        ("d = '2024-01-01' AND a = 1", KeyScan, None),
        ("d = '2024-01-01' AND a > 1", IndexScan, "t_d"),
        ("a + 0 = 1", FullScan, None),
        ("n = 1.5 OR a = 1", FullScan, None),
        ("a <> 1", FullScan, None),
        ("a = s", FullScan, None),
        ("x = 'a'", IndexScan, "t_x"),
        ("(a, b) > (1, 'a')", KeyScan, None),
        ("a > 1 OR (a = 1 AND b >= 'a')", KeyScan, None),
        ("(x, s) <= ('a', 1)", IndexScan, "t_x"),
        ("(b, a) > ('a', 1)", FullScan, None),
    ],
)
def test_choice(session: Session, where: str, kind: type, name: str | None) -> None:
    source = source_of(session, f"SELECT * FROM t WHERE {where}")
    assert type(source) is kind
    if name is not None:
        assert isinstance(source, IndexScan)
        assert source.index.name == name


def test_limit_reads_no_further(session: Session) -> None:
    seen = []
    view = session.view
    original = view.scan

    def counting(*args, **options):
        for pair in original(*args, **options):
            seen.append(pair)
            yield pair

    view.scan = counting
    try:
        assert len(session.rows("SELECT * FROM t ORDER BY a, b LIMIT 2")) == 2
    finally:
        del view.scan
    assert len(seen) <= 3


@pytest.mark.parametrize("page", ["(a, b) > (1, 'a')", "(a, b) >= (1, 'ab')", "(a, b) <= (1, 'a')"])
def test_a_page_begins_where_it_should(session: Session, page: str) -> None:
    """Both columns bound the range: what is read is what is wanted, and nothing before it."""
    plan = session.plan(f"SELECT a, b FROM t WHERE {page}", engine="own")
    assert isinstance(plan, SelectPlan)
    (step,) = plan.pipeline.steps
    read = [step.decode(image) for _, image in step.source.pairs(session.view, (), (), CLOCK)]
    wanted = session.rows(f"SELECT a, b FROM t WHERE {page}", engine="own", scan_only=True)
    assert read == wanted


def same(session: Session, sql: str) -> bool:
    """Whether path and scan give the same rows in the same order (0.0 and -0.0 sort as equals)."""
    by_path = session.rows(sql, engine="own")
    by_scan = session.rows(sql, engine="own", scan_only=True)
    return repr(by_path).replace("-0.0", "0.0") == repr(by_scan).replace("-0.0", "0.0")


DIRECTIONS = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]


@pytest.mark.parametrize("columns", [("n", "f"), ("f", "b"), ("d", "s"), ("x", "s")], ids="".join)
@pytest.mark.parametrize("first", DIRECTIONS)
@pytest.mark.parametrize("second", DIRECTIONS)
def test_every_direction(session: Session, columns: tuple[str, str], first: str, second: str) -> None:
    order = f"{columns[0]}{first}, {columns[1]}{second}"
    sql = f"SELECT {', '.join(columns)} FROM t ORDER BY {order} LIMIT 5"
    assert same(session, sql)
    sql = f"SELECT {columns[0]} FROM t ORDER BY {columns[0]}{first} LIMIT 5"
    assert same(session, sql)
