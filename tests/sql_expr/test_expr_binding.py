"""What binding decides: types of parameters and literals, errors, what planners ask."""

import pytest

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import (
    Params,
    Scope,
    bind,
    coerce,
    columns_used,
    compile_expr,
    is_constant,
    split_conjuncts,
    unify,
)
from herdpy_sql.expr.nodes import Between, Cast, Const, In, Like, Random
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.styles import in_zone
from tests.sql_expr.evaluation import CLOCK, Columns, answer, bound, parse

VARCHAR3 = SqlType(Base.VARCHAR, 3)
N52 = SqlType(Base.NUMERIC, precision=5, scale=2)
COLUMNS = Columns(
    {"i": t.INTEGER, "s": t.TEXT, "n": N52, "d": t.DATE, "b": t.BOOLEAN, "z": t.TIMESTAMPTZ, "f": t.DOUBLE}
    | {"c": SqlType(Base.CHAR, 4), "v": VARCHAR3, "u": t.UUID, "j": t.JSON, "r": t.REAL, "k": t.BIGINT}
)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("i = $1", [t.INTEGER]),
        ("$1 = i", [t.INTEGER]),
        ("i + $1", [t.INTEGER]),
        ("n = $1", [t.NUMERIC]),
        ("v = $1", [t.TEXT]),
        ("c = $1", [SqlType(Base.CHAR)]),
        ("d = $1 and s like $2", [t.DATE, t.TEXT]),
        ("d + i + $1::int", [t.INTEGER]),
        ("$1", [t.TEXT]),
        ("$1 is null", [t.TEXT]),
        ("$1::bigint", [t.BIGINT]),
        ("$1::varchar(3)", [t.VARCHAR]),
        ("$2 = i", [t.TEXT, t.INTEGER]),
        ("i in ($1, $2)", [t.INTEGER, t.INTEGER]),
        ("i between $1 and $2", [t.INTEGER, t.INTEGER]),
        ("$1 between 1 and 2", [t.INTEGER]),
        ("coalesce($1, i)", [t.INTEGER]),
        ("case when $1 then $2 else 1.5 end", [t.BOOLEAN, t.NUMERIC]),
        ("s || $1", [t.TEXT]),
        ("$1 and b", [t.BOOLEAN]),
        ("abs($1)", [t.DOUBLE]),
        ("length($1)", [t.TEXT]),
        ("u = $1", [t.UUID]),
        ("z > $1", [t.TIMESTAMPTZ]),
        ("i = $1 and k = $1", [t.INTEGER]),
        ("nullif(i, $1)", [t.INTEGER]),
        ("substr(s, $1 + 1, $2)", [t.INTEGER, t.INTEGER]),
    ],
)
def test_parameters_take_the_type_of_their_place(text, types):
    params = Params()
    try:
        bound(text, COLUMNS, params)
    except SqlError as error:
        pytest.fail(str(error))
    assert list(params.types) == types


def test_preset_types_are_kept():
    params = Params([t.DOUBLE])
    expr = bound("i = $1", COLUMNS, params)
    assert params.types == (t.DOUBLE,)
    assert compile_expr(expr)((3,), (3.5,), CLOCK) is False


def test_expected_type():
    params = Params()
    assert bind(parse("'12'"), Scope(), params, t.INTEGER) == Const(t.INTEGER, 12)
    assert bind(parse("$1"), Scope(), params, N52).type == N52
    assert params.types == (t.NUMERIC,)
    assert bind(parse("'x'"), Scope(), params).type == t.UNKNOWN


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("nope", "42703"),
        ("i = s", "42883"),
        ("j = j", "42883"),
        ("i || i", "42883"),
        ("i like 'x'", "42883"),
        ("i and b", "42804"),
        ("not i", "42804"),
        ("case when i then 1 end", "42804"),
        ("case when b then i else s end", "42804"),
        ("coalesce(i, s)", "42804"),
        ("i = 'x'", "22P02"),
        ("d = 'x'", "22007"),
        ("length(i)", "42883"),
        ("f % 2", "42883"),
        ("b::bigint", "42846"),
        ("i::uuid", "42846"),
        ("i::nosuch", "42704"),
        ("'1' + '2'", "42725"),
        ("i::varchar(0)", "22023"),
        ("i::numeric(2000)", "22023"),
        ("$0", "42P02"),
        ("$70000", "42P02"),
        ("greatest(j, j)", "42883"),
        ("(i, i) = (1, 2, 3)", "42601"),
        ("t.*", "42601"),
    ],
)
def test_wrong_sql(text, sqlstate):
    assert answer(text, COLUMNS) == ("error", sqlstate)


@pytest.mark.parametrize(
    "text",
    [
        *("sum(i)", "s ~ 'x'", "random()", "gen_random_uuid()"),
    ],
)
def test_left_to_the_other_engine(text):
    assert answer(text, COLUMNS)[0] == "not own"


@pytest.mark.parametrize("text", ["(select 1)", "i in (select 1)", "exists (select 1)", "array(select 1)"])
def test_queries_only_where_the_scope_binds_them(text):
    assert answer(text, COLUMNS) == ("error", "0A000")


def test_random_only_where_the_scope_allows():
    expr = bind(parse("gen_random_uuid()"), Scope(volatile=True), Params())
    assert isinstance(expr, Random)
    run = compile_expr(expr)
    assert len({run((), (), CLOCK) for _ in range(10)}) == 10


def test_shapes_that_planners_look_for():
    assert len(split_conjuncts(bound("i = 1 and (s = 'x' and b) and (i = 2 or b)", COLUMNS))) == 4
    assert split_conjuncts(None) == ()
    assert isinstance(bound("i in (1, 2)", COLUMNS), In)
    assert isinstance(bound("i not in (1, 2)", COLUMNS), In)
    assert isinstance(bound("i = any(array[1, 2])", COLUMNS), In)
    assert isinstance(bound("d between '2024-01-01' and $1", COLUMNS, Params()), Between)
    assert isinstance(bound("s like 'a%'", COLUMNS), Like)
    assert is_constant(bound("1 + 2 * length('abc')", COLUMNS))
    assert not is_constant(bound("now()", COLUMNS))
    assert not is_constant(bound("now()::date", COLUMNS))
    assert bound("i = 1 and true", COLUMNS) == bound("i = 1", COLUMNS)
    assert bound("1 = 2 and true", COLUMNS) == Const(t.BOOLEAN, False)
    assert columns_used(bound("i = 1 and false", COLUMNS))  # it may not stand where rows are grouped
    assert columns_used(bound("i = null", COLUMNS))
    assert bound("I = 1", COLUMNS) == bound("i = 1", COLUMNS)


# (value, type, context, datum or SQLSTATE)
COERCIONS = [
    ("1.5", t.INTEGER, "assignment", 2),
    ("2.5", t.INTEGER, "assignment", 3),
    ("-2.5", t.INTEGER, "assignment", -3),
    ("2.5::float8", t.INTEGER, "assignment", 2),
    ("1.5", t.INTEGER, "implicit", "42804"),
    ("40000", t.SMALLINT, "assignment", "22003"),
    ("'abcd'::text", VARCHAR3, "assignment", "22001"),
    ("'abcd'", VARCHAR3, "assignment", "22001"),
    ("'abc  '", VARCHAR3, "assignment", "abc"),
    ("'abcd'::text", VARCHAR3, "explicit", "abc"),
    ("'abcd'", VARCHAR3, "explicit", "abc"),
    ("1", t.TEXT, "assignment", "1"),
    ("1", t.TEXT, "implicit", "42804"),
    ("true", t.TEXT, "assignment", "true"),
    ("'1'::text", t.INTEGER, "assignment", "42804"),
    ("'1'::text", t.INTEGER, "explicit", 1),
    ("true", t.INTEGER, "assignment", "42804"),
    ("true", t.INTEGER, "explicit", 1),
    ("1", t.BOOLEAN, "assignment", "42804"),
    ("1000", N52, "assignment", "22003"),
    ("null", N52, "assignment", None),
    ("'x'", t.INTEGER, "assignment", "22P02"),
    ("date '2024-01-01'", t.TIMESTAMP, "implicit", 1_704_067_200_000_000),
    ("timestamp '2024-01-01 10:00'", t.DATE, "implicit", "42804"),
    ("timestamp '2024-01-01 10:00'", t.DATE, "assignment", 19_723),
    ("1e400", t.DOUBLE, "implicit", "22003"),
    ("'5'::json", t.TEXT, "assignment", "5"),
    ("1", t.UUID, "explicit", "42846"),
    ("'{}'", t.JSON, "assignment", "{}"),
    ("'{'", t.JSON, "assignment", "22P02"),
]


@pytest.mark.parametrize(("text", "target", "context", "wanted"), COERCIONS)
def test_coercion(text, target, context, wanted):
    params = Params()
    try:
        expr = coerce(bind(parse(text), Scope(), params), target, context, params)
        assert expr.type == target
        got = compile_expr(expr)((), (), CLOCK)
    except SqlError as error:
        got = error.sqlstate
    assert got == wanted


def test_coercion_that_changes_nothing_costs_nothing():
    params = Params()
    column = bind(parse("i"), COLUMNS, params)
    assert coerce(column, t.INTEGER, "assignment", params) is column
    wider = coerce(column, t.BIGINT, "assignment", params)
    assert isinstance(wider, Cast)
    assert wider.function is None


def test_unify():
    params = Params()
    exprs = [bind(parse(text), Scope(), params) for text in ("1", "2.5", "'3'", "$1", "null")]
    found, unified = unify(exprs, params, "VALUES")
    assert found == t.NUMERIC
    assert [one.type for one in unified] == [t.NUMERIC] * 5
    assert params.types == (t.NUMERIC,)
    with pytest.raises(SqlError):
        unify([bind(parse(text), Scope(), params) for text in ("1", "true")], params, "VALUES")


def test_session_zone_is_used():
    from herdpy_sql.clock import Clock

    clock = Clock(1_704_067_200_000_000, 1_704_067_200_000_000, in_zone("America/New_York"))
    assert answer("now()::text", clock=clock) == ("text", "2023-12-31 19:00:00-05")
    assert answer("current_date", clock=clock) == ("date", "2023-12-31")
    assert answer("'2024-07-01 00:00'::timestamptz", clock=clock)[1] == "2024-07-01 04:00:00+00"
    assert answer("extract(hour from now())", clock=clock)[1] == "19"
    text = "'2024-03-09 12:00'::timestamptz + interval '1 day'"
    assert answer(text, clock=clock)[1] == "2024-03-10 16:00:00+00"
