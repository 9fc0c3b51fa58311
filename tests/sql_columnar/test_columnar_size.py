"""How large a query for DuckDB becomes: in proportion to the statement, and bounded."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot

from herdpy_sql.columnar import emit, engine, translate
from herdpy_sql.columnar.macros import BARE, MACROS, copies
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.parser import HerdPostgres
from herdpy_sql.values.styles import PLAIN
from tests.sql_columnar.conftest import CATALOG, sources


def _nested(form: str, leaf: str, depth: int) -> str:
    for _ in range(depth):
        leaf = form.format(leaf)
    return leaf


FORMS = {
    "product": ("({} * ratio)", "ratio"),
    "sum": ("({} + ratio)", "ratio"),
    "difference": ("(ratio - {})", "ratio"),
    "quotient": ("({} / 1.5::float8)", "ratio"),
    "power": ("({} ^ 1.0::float8)", "abs(ratio)"),
    "real": ("({} * single)", "single"),
    "nullif": ("nullif({}, 7.5)", "ratio"),
    "nullif of text": ("nullif({}, 'q')", "name"),
    "coalesce": ("coalesce({}, ratio)", "ratio"),
    "greatest": ("greatest({}, rate)", "rate"),
    "greatest of mixed scales": ("greatest({}, price, 1.5, 2)", "price"),
    "case": ("CASE WHEN {} > 1 THEN ratio ELSE 1.5 END", "ratio"),
    "text and back": ("({}::text)::date", "born"),
    "text to number": ("(({}::text)::integer)", "id"),
    "float to integer": ("(({}::float8)::integer)", "id"),
    "round": ("round(({})::numeric, 1)", "ratio"),
    "moment": ("date_trunc('hour', {} + interval '1 day 1 hour')", "logged"),
    "left": ("left(right({}, 5), 6)", "name"),
    "pad": ("lpad({}, 5, 'x')", "name"),
    "substring": ("substring({}, 1, 50)", "name"),
    "overlay": ("overlay({} placing 'x' from 1)", "name"),
    "shift": ("(({}) >> 1)", "big"),
    "exp": ("exp(ln({}))", "abs(ratio) + 1"),
    "difference of times": ("({} - seen + seen)", "seen"),
    "array": ("({} || id)", "ARRAY[id]"),
}


def _bound(sql: str) -> str:
    """The text that DuckDB makes of a query: macros are expanded in it."""
    query = translate(sqlglot.parse_one(sql, dialect=HerdPostgres), CATALOG)
    database = engine.database(None, 2, None, PLAIN)
    engine.provide(database, query.sql, query.routines, PLAIN)
    with database.cursor() as cursor:
        for name, table in sources(query).items():
            cursor.register(name, table.rename_columns([f"c{i}" for i in range(table.num_columns)]))
        rows = cursor.execute(f"EXPLAIN (FORMAT JSON) {query.sql}").fetchall()
    return query.sql + "".join(text for _, text in rows)


@pytest.mark.parametrize("name", FORMS)
def test_text_grows_with_the_number_of_operators(name: str) -> None:
    form, leaf = FORMS[name]
    sizes = [len(_bound(f"SELECT {_nested(form, leaf, depth)} FROM items")) for depth in (4, 8, 16)]
    assert sizes[2] - sizes[1] < 4 * max(sizes[1] - sizes[0], 500), sizes


def test_a_guarded_division_is_there_twice_however_many_there_are() -> None:
    parts = [f"{n} / id > 0" for n in range(1, 13)]
    sizes = [
        len(translate(sqlglot.parse_one(f"SELECT id FROM items WHERE {' AND '.join(parts[:n])}", dialect=HerdPostgres), CATALOG).sql)
        for n in (3, 6, 12)
    ]  # fmt: skip
    assert sizes[2] < 4 * sizes[1]


@pytest.mark.parametrize("sql", [
    "SELECT sum(ratio * single * ratio * single * ratio * single * ratio * single * ratio) FROM items",
    "SELECT id, ratio + single - ratio * 2 / 3::float8 * ratio + ratio - single * 1.5 + 4 * ratio FROM items",
    "SELECT id FROM items WHERE id > 0 AND 6 / id > 1 AND 12 % id = 0 AND (id > 3 OR 1 / (id - 1) >= 0 OR small / id > 5)",
    "SELECT id, nullif(nullif(nullif(nullif(ratio, 1), 2), 0.5), id) FROM items",
    "SELECT generate_series(1, 3)::float8 * 1.5 / 2::float8 * 3 * 4.5",
    "SELECT id % 2, sum(ratio * single * 1.5) * 2.5 * max(single) / 3::float8 FROM items GROUP BY id % 2",
    "SELECT ratio * single * 1.5, count(*) FROM items GROUP BY ratio * single * 1.5",
    "SELECT id, (SELECT max(o.qty) FROM orders o WHERE o.item = i.id)::float8 * 2 * ratio * 3 FROM items i",
    "SELECT 1e200::float8 * 1e50::float8 * 1e80::float8", "SELECT 1e-200::float8 * 1e-100::float8 * 1e-80::float8",
    "SELECT ratio * ratio * ratio / (ratio - ratio) FROM items", "SELECT 1e308::float8 + 1e308::float8 + ratio FROM items",
    "SELECT CASE WHEN ratio <> 0 THEN 1.5 * ratio * ratio * ratio / ratio END FROM items",
    "SELECT sum(ratio * ratio * ratio) OVER (ORDER BY id) * 2.5 * ratio FROM items ORDER BY id",
])  # fmt: skip
def test_bound_operands_mean_what_they_mean(
    sql: str, engine: Callable[..., Any], reference: Callable[[str], Any]
) -> None:
    got, want = engine(sql), reference(sql)
    assert got.same(want, ordered=False), f"{got}\n{want}\n{got.sql}"


def test_no_macro_but_the_bare_ones_repeats_an_argument() -> None:
    """DuckDB itself is asked: a marked argument of each macro is once in the plan that it makes of a call."""
    database = engine.database(None, 2, None, PLAIN)
    engine.provide(database, "\n".join([*MACROS, *(f"{name}_bare" for name in BARE)]), (), PLAIN)
    with database.cursor() as cursor:
        defined = dict(
            cursor.execute(
                "SELECT function_name, macro_definition FROM duckdb_functions() "
                "WHERE NOT internal AND function_type = 'macro'"
            ).fetchall()
        )
    for name in (re.match(r"CREATE MACRO (\w+)", macro)[1] for macro in MACROS):  # type: ignore[index]
        parameters = re.search(rf"CREATE MACRO {name}\(([\w, ]*)\)", "\n".join(MACROS))[1].split(", ")  # type: ignore[index]
        body = re.sub(r"(\w+) := \1", r"\1", re.sub(r"'[^']*'", "''", defined[name]))
        head = body.split("lambda v", 1)[0]
        for parameter in parameters:
            inside = re.findall(rf"(?<![\w.']){parameter}(?![\w'(])", body.split("lambda v", 1)[-1])
            assert len(re.findall(rf"(?<![\w.']){parameter}(?![\w'(])", head)) <= 1, (name, body)
            assert "lambda v" not in body or not inside, (name, body)
    assert all(f"{name}_bare" in defined and copies(name) > 2 for name in BARE)


def test_a_text_without_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit, "MAX_TEXT", 100_000)
    long = sqlglot.parse_one(
        f"SELECT name || '{'x' * 60_000}' || '{'y' * 60_000}' FROM items", dialect=HerdPostgres
    )
    with pytest.raises(SqlError, match="too complex") as caught:
        translate(long, CATALOG)
    assert caught.value.sqlstate == "54001"
