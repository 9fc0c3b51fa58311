"""No expression makes Python's stack overflow: nesting is limited, long runs are flattened."""

import pytest
from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import Params, Scope, bind, columns_used, compile_expr, is_constant, remap_columns
from tests.sql_expr.evaluation import CLOCK, Columns, bound

LONG = 5_000
ONE = Columns({"a": t.INTEGER})


def as_type(node, name):
    return exp.Cast(this=node, to=exp.DataType.build(name))  # exp.cast() would copy what is inside


def nested(levels, wrap):
    """Built by hand: how deeply text may nest is the parser's limit, not this layer's."""
    node = exp.column("a")
    for _ in range(levels):
        node = wrap(node)
    return node


WRAPS = {
    "not": lambda node: exp.Not(this=exp.Is(this=node, expression=exp.Null())),
    "right": lambda node: exp.Add(this=exp.Literal.number(1), expression=exp.Paren(this=node)),
    "call": lambda node: exp.Abs(this=node),
    "cast": lambda node: as_type(as_type(node, "bigint"), "int"),
    "coalesce": lambda node: exp.Coalesce(this=node, expressions=[exp.Literal.number(1)]),
    "case": lambda node: exp.Case(
        this=node, ifs=[exp.If(this=exp.Literal.number(1), true=exp.Literal.number(2))]
    ),
    "in": lambda node: exp.In(this=as_type(node, "int"), expressions=[exp.Literal.number(1)]),
}


@pytest.mark.parametrize("name", WRAPS)
def test_deep_nesting_is_refused(name):
    with pytest.raises(SqlError) as caught:
        bind(nested(1_500, WRAPS[name]), ONE, Params())
    assert caught.value.sqlstate == "54001"


@pytest.mark.parametrize("name", [name for name in WRAPS if name != "in"])
def test_nesting_within_the_limit_runs(name):
    expr = bind(nested(90, WRAPS[name]), ONE, Params())
    compile_expr(expr)((1,), (), CLOCK)
    assert len(columns_used(remap_columns(expr, lambda column: 3))) == 1
    assert hash(expr) == hash(bind(nested(90, WRAPS[name]), ONE, Params()))


@pytest.mark.parametrize(
    ("joint", "piece", "wanted"),
    [
        (" + ", "a", LONG),
        (" || ", "a::text", "1" * LONG),
        (" AND ", "a = 1", True),
        (" OR ", "a = 2", False),
        (" + ", "1", LONG),
    ],
)
def test_long_runs(joint, piece, wanted):
    expr = bound(joint.join([piece] * LONG), ONE)
    assert compile_expr(expr)((1,), (), CLOCK) == wanted
    assert is_constant(expr) == ("a" not in piece)
    assert hash(expr) == hash(expr)
    assert remap_columns(expr, lambda column: column.index) == expr


def test_run_that_changes_type_on_the_way():
    expr = bound("a" + " + a" * 40 + " + 0.5 - a * 2" + " + a" * 40, ONE)
    assert str(compile_expr(expr)((1,), (), CLOCK)) == "79.5"
    assert compile_expr(expr)((None,), (), CLOCK) is None


def test_run_overflows_where_it_does():
    expr = bound("a" + " + a" * 40, ONE)
    with pytest.raises(SqlError) as caught:
        compile_expr(expr)((2**31 - 1,), (), CLOCK)
    assert caught.value.sqlstate == "22003"


def test_long_in_list():
    expr = bound(f"a IN ({', '.join(map(str, range(LONG)))})", ONE)
    run = compile_expr(expr)
    assert run((LONG - 1,), (), CLOCK) is True
    assert run((LONG,), (), CLOCK) is False


def test_like_does_not_backtrack():
    text = "a" * 3_000
    expr = bound(f"'{text}' LIKE '%{'a%' * 200}b'", ONE)
    assert compile_expr(expr)((), (), CLOCK) is False


def test_huge_results_are_refused():
    for text in ("repeat('x', 2000000000)", "lpad('x', 2000000000)", "repeat(repeat('ab', 10000), 100000)"):
        with pytest.raises(SqlError) as caught:
            compile_expr(bound(text))((), (), CLOCK)
        assert caught.value.sqlstate == "54000"


def test_no_columns():
    with pytest.raises(SqlError) as caught:
        bind(exp.column("x"), Scope(), Params())
    assert caught.value.sqlstate == "42703"
