"""Arrays and JSON that become text inside an expression have PostgreSQL's form, whichever engine runs it."""

# ruff: noqa: E501 - a statement is one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import herdpy
from tests.differential.diff_run import Statement, on_postgres, same, texts_on_herdpy

SCHEMA = """
CREATE TABLE d (id integer PRIMARY KEY, a integer[], s text[], m numeric(6,2)[], g integer[][], f float8[], b boolean[], j json, k jsonb, t timestamp[], u uuid[]);
INSERT INTO d VALUES
 (1, '{2,3}', '{a,"b c",NULL,"x,y",""}', '{1.50,2}', '{{1,2},{3,4}}', '{1e20,0.1,NaN}', '{t,f}', '{"b" :  [1,  2.50], "a":"x"}', '{"b": [1, 2.50], "a": "x"}', '{2020-01-01}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'),
 (2, '{}', '{}', '{}', '{}', '{}', '{}', ' [1,{"z":1 ,"y": null}] ', '[1, {"z": 1, "y": null}]', '{}', '{}'),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (4, '{NULL}', '{"quo\\"te","back\\\\slash",null}', '{-0.10}', '{{5},{6}}', '{-0}', '{NULL}', '"s"', '"s"', '{2020-01-01 00:00:00.5,infinity}', '{NULL}');
"""

QUERIES = [
    *[
        f"SELECT id, {form.format(c)} FROM d"
        for c in ("a", "s", "m", "g", "f", "b", "t", "u", "j", "k")
        for form in ("{0}::text", "{0}::varchar(7)", "'<' || {0} || '>'" if c in "jk" else "'<' || {0}::text || '>'", "concat({0}, '!')", "concat_ws('-', {0}, 'z')", "length({0}::text)", "format('%s', {0})", "upper({0}::text)", "left({0}::text, 4)", "coalesce({0}::text, 'none')", "quote_literal({0})", "md5({0}::text)")
    ],
    *[f"SELECT string_agg({c}::text, ';' ORDER BY id) FROM d" for c in ("a", "s", "m", "g", "f", "j", "k")],
    *[f"SELECT count(*), {c}::text FROM d GROUP BY {c}::text" for c in ("a", "s", "j", "k")],
    *[f"SELECT id FROM d WHERE {c}::text LIKE '%2%'" for c in ("a", "m", "g", "f", "j", "k")],
    "SELECT id, ARRAY[id, 2]::text, ARRAY[1.5, id]::text, ARRAY['a', NULL]::text, ARRAY[a]::text FROM d WHERE id < 3",
    "SELECT (a || 7)::text, array_append(s, 'q')::text, array_cat(a, a)::text FROM d",
    "SELECT a::text = '{2,3}', k::text = '{\"a\": \"x\", \"b\": [1, 2.50]}' FROM d",
    "SELECT CASE WHEN id = 1 THEN a::text ELSE s::text END FROM d",
    "SELECT array_agg(id ORDER BY id)::text, array_agg(k ORDER BY id)::text FROM d",
    "SELECT array_agg(j ORDER BY id)::text FROM d",
    "SELECT j #> '{b}', k #> '{b}', j -> 'b', k -> 'b', j ->> 'b', k ->> 'b', j #>> '{b}', k #>> '{b}' FROM d",
    "SELECT (j -> 'b')::text, (k -> 'b')::text, (j #> '{b,1}')::text, (j -> 1)::text, (j -> 1 -> 'y')::text FROM d",
    "SELECT key, value FROM d, json_each(j) WHERE id = 1",
    "SELECT key, value FROM d, jsonb_each(k) WHERE id = 1",
    "SELECT key, value FROM d, json_each_text(j) WHERE id = 1",
    "SELECT key, value FROM d, jsonb_each_text(k) WHERE id = 1",
    "SELECT v.e FROM d, json_array_elements(j) AS v(e) WHERE id = 2",
    "SELECT v.e FROM d, jsonb_array_elements(k) AS v(e) WHERE id = 2",
    "SELECT v.e FROM d, json_array_elements_text(j) AS v(e) WHERE id = 2",
    "SELECT to_json(a), to_jsonb(a), to_json(s), to_json(m), to_json(g), to_json(f[1]), to_json(j), to_jsonb(j), to_json(k) FROM d",
    "SELECT json_build_object('a', a, 'j', j, 'k', k), jsonb_build_object('a', a, 'j', j, 'k', k) FROM d",
    "SELECT row_to_json(d) FROM d WHERE id <> 1", "SELECT json_agg(j ORDER BY id), jsonb_agg(k ORDER BY id), json_agg(a ORDER BY id) FROM d",
    "SELECT json_object_agg(id, j), jsonb_object_agg(id, k) FROM d WHERE id = 1",
    "SELECT jsonb_pretty(k) FROM d", "SELECT json_object_agg(id, a), jsonb_object_agg(id, a) FROM d WHERE id < 3",
    "SELECT '{\"a\": 1, \"a\":  [2 ]}'::json -> 'a', '[ 1, [2 , 3] ]'::json -> -1, '{\"a\": \"x\\ty\"}'::json ->> 'a'",
    "SELECT json_object_keys('{\"b\": 1, \"a\": 2, \"b\": 3}')", "SELECT * FROM json_each('{\"b\": 1, \"a\": 2, \"b\": null}')",
    "SELECT * FROM json_each('[1]')", "SELECT json_array_elements('{}')", "SELECT json_array_elements(' [ ] ')",
    "SELECT ' null '::json ->> 'a', '[null, \"\\u0041\"]'::json ->> 0, '[null, \"\\u0041\"]'::json ->> 1",
    "SELECT quote_ident('a$b'), quote_ident('select'), quote_ident('abc'), quote_ident('Abc')",
    "SELECT quote_nullable(a), quote_nullable(s), quote_ident(s[1]), quote_literal(k), quote_literal(id) FROM d",
    "SELECT array_to_json(a), array_to_json(g), array_to_string(a, ','), array_to_string(f, ','), array_to_string(m, ','), array_to_string(b, ',') FROM d",
    "SELECT '[1,  2]'::json, '[1,  2]'::jsonb, '[1,  2]'::json::text, '[1,  2]'::jsonb::text, '[1,  2]'::json::jsonb::text, '{\"a\":1.10, \"b\":1e2}'::jsonb::text FROM d WHERE id = 1",
    "SELECT string_to_array('a,b', ',')::text, regexp_split_to_array('a b', ' ')::text, string_to_array('a', NULL)::text",
    "SELECT unnest(s) || '.' FROM d WHERE id = 1", "SELECT (s[1:2])::text, (g[1:1])::text, (a[2])::text FROM d",
    "SELECT max(a)::text, min(s)::text FROM d", "SELECT DISTINCT a::text FROM d", "SELECT id, a::text FROM d ORDER BY a::text",
    "SELECT json_typeof(j), jsonb_typeof(k), json_array_length(j) FROM d WHERE id = 2",
]  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(tmp_path_factory.mktemp("texts") / "db", autocommit=True) as connection:
        _fill(connection)
        yield connection


@pytest.fixture(scope="module")
def reference(postgres: str) -> Iterator[Any]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS texts CASCADE")
        connection.execute("CREATE SCHEMA texts")
        connection.execute("SET search_path = texts")
        _fill(connection)
        yield connection


def _fill(connection: Any) -> None:
    for sql in SCHEMA.strip().rstrip(";").split(";\n"):
        connection.execute(sql)


@pytest.mark.parametrize("engine", ["columnar", "own"])
def test_texts_are_those_of_postgresql(own: Any, reference: Any, engine: str) -> None:
    own.execute(f"SET herdpy.engine = '{engine}'")
    differing, asked = [], 0
    for sql in QUERIES:
        statement = Statement(sql)
        got, want = texts_on_herdpy(own, sql), on_postgres(reference, statement)
        if engine == "own" and got.state == "0A000":
            continue
        asked += 1
        if not same(got, want, statement):
            pairs = [
                f"      {a} / {b}"
                for a, b in zip(sorted(got.rows, key=str), sorted(want.rows, key=str), strict=False)
                if a != b
            ]
            differing.append("\n".join([f"{sql}\n    {str(got)[:150]}\n    {str(want)[:150]}", *pairs[:3]]))
    assert asked > 40
    assert not differing, "\n".join([f"{len(differing)} of {asked}", *differing])
