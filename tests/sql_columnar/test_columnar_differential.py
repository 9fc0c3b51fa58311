"""The columnar engine and PostgreSQL are asked the same SELECTs: names, types, rows and SQLSTATEs."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SELECTS = [
    line
    for line in Path(__file__).with_name("selects.sql").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("--")
]


def _ordered(sql: str) -> bool:
    return "order by" in sql.lower().rsplit(")", 1)[-1]


@pytest.mark.parametrize("sql", SELECTS)
def test_select_as_postgresql(sql: str, engine: Callable[..., Any], reference: Callable[[str], Any]) -> None:
    want, got = reference(sql), engine(sql)
    assert got.same(want, ordered=_ordered(sql)), f"{got}\nPostgreSQL: {want}\nDuckDB: {got.sql}"


_LEAVES = {
    "int": ["id", "small", "big", "7", "-3", "qty"],
    "numeric": ["price", "rate", "1.50", "0.3", "amount", "-2.0"],
    "float": ["ratio", "single", "2.5::float8", "1e3::float8"],
    "text": ["name", "code", "'apple'", "'é'", "''", "tag::text"],
    "bool": ["active", "true", "NULL::boolean"],
    "date": ["born", "placed", "date '2020-02-29'"],
}


def _expression(rng: random.Random, kind: str, depth: int) -> str:
    if depth == 0:
        return rng.choice(_LEAVES[kind])

    def one(inner: str) -> str:
        return _expression(rng, inner, depth - 1)

    makers: dict[str, list[Callable[[], str]]] = {
        "int": [
            lambda: f"({one('int')} {rng.choice('+-*')} {one('int')})",
            lambda: f"({one('int')} {rng.choice('/%')} {rng.choice(['id', 'qty', '7', '-3'])})",
            lambda: f"length({one('text')})",
            lambda: f"({one('date')} - {one('date')})",
            lambda: f"coalesce({one('int')}, {one('int')})",
            lambda: f"CASE WHEN {one('bool')} THEN {one('int')} ELSE {one('int')} END",
            lambda: f"nullif({one('int')}, {one('int')})",
        ],
        "numeric": [
            lambda: f"({one('numeric')} {rng.choice('+-*')} {one('numeric')})",
            lambda: f"({one('numeric')} {rng.choice('/%')} {rng.choice(['id', 'price', '1.5'])})",
            lambda: f"({one('int')} {rng.choice('+-*')} {one('numeric')})",
            lambda: f"round({one('numeric')}, {rng.randrange(4)})",
            lambda: f"({one('numeric')})::numeric(30, 5)",
            lambda: f"CASE WHEN {one('bool')} THEN {one('numeric')} ELSE {one('int')} END",
            lambda: f"greatest({one('numeric')}, {one('numeric')})",
            lambda: f"extract({rng.choice(['year', 'dow', 'month'])} FROM {one('date')})",
        ],
        "float": [
            lambda: f"({one('float')} {rng.choice('+-*/')} {one('float')})",
            lambda: f"({one('numeric')} + {one('float')})",
            lambda: f"floor({one('float')})",
        ],
        "text": [
            lambda: f"({one('text')} || {one('text')})",
            lambda: f"{rng.choice(['upper', 'lower', 'initcap', 'reverse'])}({one('text')})",
            lambda: f"substring({one('text')}, {rng.randrange(-2, 4)}, {rng.randrange(4)})",
            lambda: f"({one('numeric')})::text",
            lambda: f"left({one('text')}, {rng.randrange(-2, 4)})",
            lambda: f"replace({one('text')}, 'a', {one('text')})",
        ],
        "bool": [
            lambda: f"({one('int')} {rng.choice(['=', '<', '>=', '<>'])} {one('numeric')})",
            lambda: f"({one('text')} {rng.choice(['=', '<', '>'])} {one('text')})",
            lambda: f"({one('bool')} {rng.choice(['AND', 'OR'])} {one('bool')})",
            lambda: f"(NOT {one('bool')})",
            lambda: f"({one('numeric')} IS {rng.choice(['', 'NOT '])}NULL)",
            lambda: f"({one('text')} LIKE '%a%')",
            lambda: f"({one('int')} IN ({one('int')}, {one('int')}))",
            lambda: f"({one('numeric')} BETWEEN {one('numeric')} AND {one('numeric')})",
            lambda: f"({one('date')} IS DISTINCT FROM {one('date')})",
        ],
        "date": [
            lambda: f"({one('date')} {rng.choice('+-')} {rng.randrange(400)})",
            lambda: f"coalesce({one('date')}, {one('date')})",
        ],
    }
    return rng.choice(makers[kind])()


def _generated(seed: int) -> str:
    rng = random.Random(seed)
    kinds = list(_LEAVES)
    source = "(SELECT i.*, o.qty, o.amount, o.placed FROM items i LEFT JOIN orders o ON o.item = i.id) AS t"
    where = f" WHERE {_expression(rng, 'bool', 2)}" if rng.random() < 0.5 else ""
    if rng.random() < 0.35:
        key = _expression(rng, rng.choice(["int", "text", "bool", "date"]), 1)
        aggregates = ", ".join(
            f"{rng.choice(['sum', 'avg', 'min', 'max', 'count'])}({_expression(rng, rng.choice(['int', 'numeric']), 1)})"
            for _ in range(3)
        )
        return f"SELECT {key}, {aggregates} FROM {source}{where} GROUP BY {key}"
    items = ", ".join(_expression(rng, rng.choice(kinds), rng.randrange(1, 4)) for _ in range(3))
    return f"SELECT id, {items} FROM {source}{where}"


@pytest.mark.parametrize("seed", range(150))
def test_generated_select_as_postgresql(
    seed: int, engine: Callable[..., Any], reference: Callable[[str], Any]
) -> None:
    sql = _generated(seed)
    want, got = reference(sql), engine(sql)
    assert got.same(want, ordered=False), f"{sql}\n{got}\nPostgreSQL: {want}\nDuckDB: {got.sql}"
