"""Statements' texts without constants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_sql.parse.normalised import LONGEST_TEXT, normalised

TEXTS = {
    "SELECT 1": "SELECT $1",
    "select a-5, a - 5, -5, (-5), b=-3 from t": "select a-$1, a - $2, $3, ($4), b=$5 from t",
    "select 'it''s' || E'a\\'b' where x in (1,-2, $3)": "select $4 || $5 where x in ($6,$7, $3)",
    "select /* a /* b */ c */ 1e-5, .5, $$x$$, $a$y$a$, t1.c2;": "select $1, $2, $3, $4, t1.c2",
    'select "A 1"."c""2", x[1] from "T"  limit -1': 'select "A 1"."c""2", x[$1] from "T" limit $2',
    "insert into t values (1, 'a'), (-2, 'b') -- x": "insert into t values ($1, $2), ($3, $4)",
    "create table t (a numeric(10,2) default 5)": "create table t (a numeric(10,2) default 5)",
    "select 1 from t group by 1, 2 having count(*) > 3 order by 1, f(a, 2)": (
        "select $1 from t group by 1, 2 having count(*) > $2 order by 1, f(a, $3)"
    ),
    "set x = 'unterminated": "set x = $1",
    "select date '2020-01-01', b'101', U&'d\\0061'": "select date $1, $2, $3",
    "": "",
}


@pytest.mark.parametrize("text", TEXTS)
def test_constants_become_parameters(text: str) -> None:
    assert normalised(text).text == TEXTS[text]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE b = 1", "select  a\nfrom T where B = 2 -- traceparent='00-1'"),
        ("select 'a'", "select $$b$$"),
    ],
)
def test_what_is_written_otherwise_is_alike(one: str, other: str) -> None:
    assert normalised(one).likeness == normalised(other).likeness


@pytest.mark.parametrize(
    ("one", "other"),
    [('select "A"', 'select "a"'), ("select a", "select b"), ("select 1 order by 1", "select 1 order by 2")],
)
def test_what_means_something_else_is_not(one: str, other: str) -> None:
    assert normalised(one).likeness != normalised(other).likeness


@given(st.text(alphabet="selct '\"$-/*.1eE(),;\\ab\n", max_size=60))
def test_any_text_is_taken(text: str) -> None:
    once = normalised(text)
    assert len(once.text) <= 4 * len(text) + 4


def test_a_long_text_is_cut() -> None:
    text = "select " + ", ".join(["1"] * LONGEST_TEXT)
    found = normalised(text)
    assert found.text.endswith("...")
    assert found.likeness == normalised(text + ", 2").likeness
