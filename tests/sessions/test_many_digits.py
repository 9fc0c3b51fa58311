"""NUMERIC results of more digits than DuckDB's DECIMAL has: fast where they fit, exact where they do not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import pytest

import herdpy
from herdpy_sql.columnar import query as columnar_query

SEED = 20_261
EXACT = Context(prec=200)


@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(f"herdpy://{tmp_path_factory.mktemp('digits')}", autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE TABLE n (k INT PRIMARY KEY, a NUMERIC(20, 4), b NUMERIC(25, 6), c NUMERIC(15, 2))"
        )
        yield cursor


def fill(cursor: Any, digits: int) -> list[tuple[Decimal, Decimal, Decimal]]:
    """Rows whose values have up to ``digits`` digits before the point."""
    chosen = random.Random(SEED + digits)

    def value(scale: int, most: int) -> Decimal:
        whole = chosen.randrange(10 ** min(digits, most))
        return Decimal(f"{chosen.choice('+-')}{whole}.{chosen.randrange(10**scale):0{scale}d}")

    rows = [(value(4, 16), value(6, 19), value(2, 13)) for _ in range(50)]
    cursor.execute("TRUNCATE n")
    cursor.executemany("INSERT INTO n VALUES (%s, %s, %s, %s)", [(k, *row) for k, row in enumerate(rows)])
    return rows


def product(*values: Decimal) -> Decimal:
    found = Decimal(1)
    for value in values:
        found = EXACT.multiply(found, value)
    return found


def total(values: list[Decimal]) -> Decimal:
    found = Decimal(0)
    for value in values:
        found = EXACT.add(found, value)
    return found


@pytest.mark.parametrize("digits", [1, 3, 8, 12, 19])
def test_sums_of_products_are_exact(cursor: Any, digits: int) -> None:
    rows = fill(cursor, digits)
    found = cursor.execute("SELECT sum(a * b), sum(a * b * c), sum(b * b) + sum(a) FROM n").fetchone()
    wanted = (
        total([product(a, b) for a, b, _ in rows]),
        total([product(*row) for row in rows]),
        EXACT.add(total([product(b, b) for _, b, _ in rows]), total([a for a, _, _ in rows])),
    )
    assert [str(value) for value in found] == [f"{value:f}" for value in wanted]


@pytest.mark.parametrize("digits", [3, 19])
def test_rows_are_exact(cursor: Any, digits: int) -> None:
    rows = fill(cursor, digits)
    cursor.execute("SELECT a * b * c FROM n WHERE b IS NOT NULL ORDER BY k")
    assert [str(value) for (value,) in cursor.fetchall()] == [f"{product(*row):f}" for row in rows]


def test_an_error_of_the_statement_is_its_own(cursor: Any) -> None:
    fill(cursor, 3)
    with pytest.raises(herdpy.DataError, match="division by zero"):
        cursor.execute("SELECT sum(a * b * c) / (count(*) - 50) FROM n").fetchall()


def test_many_digits_are_computed_natively_where_they_fit(cursor: Any) -> None:
    """What the careful query is for does not happen, so it is not asked."""
    fill(cursor, 3)
    session = cursor.connection.shared_link.link.session
    (prepared,) = session.plans.statements("SELECT sum(a * b * c) FROM n")
    query = prepared.planned(session.catalog, "auto").plan.source
    assert "pg_numsum" not in query.sql
    assert "pg_numsum" in query.careful.sql
    assert query.at_once


@pytest.mark.parametrize("digits", [1, 4, 9, 13])
def test_products_of_short_numbers_are_exact(cursor: Any, digits: int) -> None:
    """Computed in 64 bits where they fit, in 128 where they do not."""
    short = [row[2] for row in fill(cursor, digits)]
    found = cursor.execute(
        "SELECT sum(c * c), sum(c * (1 - c)), avg(c * c * c), max(c + c - 1) FROM n"
    ).fetchone()
    cubes = total([product(c, c, c) for c in short])
    assert [str(found[0]), str(found[1]), str(found[3])] == [
        f"{total([product(c, c) for c in short]):f}",
        f"{total([product(c, 1 - c) for c in short]):f}",
        f"{max(c + c - 1 for c in short):f}",
    ]
    assert abs(found[2] - EXACT.divide(cubes, len(short))) < Decimal("1e-6") * (1 + abs(found[2]))


def test_products_of_short_numbers_are_computed_in_64_bits(cursor: Any) -> None:
    fill(cursor, 3)
    session = cursor.connection.shared_link.link.session
    (prepared,) = session.plans.statements("SELECT sum(c * c * a) FROM n")
    query = prepared.planned(session.catalog, "auto").plan.source
    assert "(t1.c0 * t1.c0)" in query.sql
    assert "AS DECIMAL(19,2)" in query.careful.sql


def test_what_does_not_fit_is_not_tried_each_time(cursor: Any) -> None:
    rows = fill(cursor, 13)
    sql = "SELECT sum(c * c) AS tried FROM n"
    before = {*columnar_query._TOO_DARING}
    wanted = total([product(c, c) for _, _, c in rows])
    assert [cursor.execute(sql).fetchone()[0] for _ in range(3)] == [wanted] * 3
    skipped = columnar_query._TOO_DARING.keys() - before
    assert skipped
    rows = fill(cursor, 2)
    columnar_query._TOO_DARING.update(dict.fromkeys(skipped, 1))
    wanted = total([product(c, c) for _, _, c in rows])
    assert [cursor.execute(sql).fetchone()[0] for _ in range(3)] == [wanted] * 3
    assert not any(columnar_query._TOO_DARING[text] for text in skipped)


def test_comparisons_with_numbers_of_any_scale(cursor: Any) -> None:
    """What is computed has more digits than the column; between two values it equals neither."""
    cursor.execute("TRUNCATE n")
    values = [
        Decimal(text) for text in ("-1.00", "-0.01", "0.00", "0.33", "0.34", "1.00", "9999999999999.99")
    ]
    cursor.executemany("INSERT INTO n (k, c) VALUES (%s, %s)", list(enumerate(values)))
    for text in ("1/3", "-1/300", "0", "1", "99999999999999/1", "-99999999999999/1", "34/100"):
        above, below = text.split("/") if "/" in text else (text, "1")
        exact = EXACT.divide(Decimal(above), Decimal(below))
        other = f"(SELECT {above}.0 / {below} + 0 * max(k) FROM n)"
        sql = f"SELECT array_agg(c ORDER BY c) FROM n WHERE c {{}} {other}"
        for symbol, test in (
            ("<", Decimal.__lt__), ("<=", Decimal.__le__), ("=", Decimal.__eq__),
            ("<>", Decimal.__ne__), (">=", Decimal.__ge__), (">", Decimal.__gt__),
        ):  # fmt: skip
            found = cursor.execute(sql.format(symbol)).fetchone()[0]
            assert (found or []) == [value for value in values if test(value, exact)], (symbol, text)
