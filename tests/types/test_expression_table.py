"""A broad table of expressions, put to both engines and to PostgreSQL: name, type, value and SQLSTATE agree."""

# ruff: noqa: E501 - an expression is one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import herdpy
from tests.differential.diff_run import Statement, on_postgres, same, texts_on_herdpy

EXPRESSIONS = """
sha224('a'::bytea)
sha256('a'::bytea)
sha384('a'::bytea)
sha512('a'::bytea)
md5('a')
md5('a'::bytea)
'{1,2}'::int[]
'{1,2}'::integer[]
'{a}'::text[]
'{a}'::varchar(3)[]
'{1.5}'::numeric(4,2)[]
'{t}'::bool[]
'{1}'::int8[]
'{2020-01-01}'::date[]
'{}'::int[]
ARRAY[1,2]::int[]
ARRAY[1,2]::bigint[]
(ARRAY[1,2])[1]
('{1,2}'::int[])[1]
('{1,2}'::int[])[1:2]
CAST('{1,2}' AS int[])
'{1,2}'::int[]::text[]
'{{1,2}}'::int[][]
'1'::numeric(1, 2, 3)
'a'::text(3)
1::int(3)
'a'::uuid(3)
1::real(3)
CAST('{1,2}' AS int[])
int '5'
'a'::char(0)
'a'::varchar(0)
'a'::char(-1)
'a'::varchar(20000000)
'a'::char(20000000)
'a'::varchar(10485760)
'a'::varchar('x')
'a'::varchar(1.5)
'a'::varchar(2, 3)
'ab'::varchar(1)
'ab'::char(1)
'ab'::char
'ab'::character varying
'ab'::character(3)
'ab'::bpchar
1::float(0)
1::float(1)
1::float(24)
1::float(25)
1::float(53)
1::float(54)
1::float(60)
1::float
1::real
1::double precision
1.5::numeric(0)
1.5::numeric(1001)
1.5::numeric(3, 4)
1.5::numeric(3, 1001)
1.5::numeric(3,1)
1.25::decimal(3,1)
1::dec(4)
'12:00:00.56'::timestamp
'1 day'::interval
interval '1 day'
date '2020-01-01'
time '12:00'
timestamp '2020-01-01'
timestamptz '2020-01-01 00:00+00'
true
'x'
'x'::text
NULL
NULL::int
1
1.5
10000000000
-1
- 1.5
+ 1
1 + 1
1.0 / 3
1 / 0
1 % 0
1.5 / 0
1e0 / 0
2 ^ 3
2 ^ 0.5
2.0 ^ 3
'a' || 'b'
'a' || 1
1 || 'a'
'a' LIKE 'a%'
'a' NOT LIKE 'a%'
'a' LIKE 'a' ESCAPE 'xx'
'a' LIKE 'a' ESCAPE ''
'a' LIKE 'a' ESCAPE 'x'
'a%' LIKE 'ax%' ESCAPE 'x'
'a' ILIKE 'A' ESCAPE 'xx'
'a' ILIKE 'A'
'a' SIMILAR TO 'a' ESCAPE 'xx'
'a' SIMILAR TO 'a'
'a' ~ 'a'
'a' ~* 'A'
'a' !~ 'b'
'a' ~ '('
length('abc')
char_length('abc')
character_length('abc')
octet_length('é')
bit_length('abc')
upper('a')
lower('A')
initcap('ab cd')
trim('  a ')
trim(both 'x' from 'xax')
ltrim(' a')
rtrim('a ')
btrim(' a ')
left('abc', 2)
right('abc', 2)
substring('abc' from 2)
substring('abc' from 2 for 1)
substring('abc', 2, 1)
substr('abc', 2)
position('b' in 'abc')
strpos('abc', 'b')
replace('abc', 'b', 'x')
translate('abc', 'ab', 'xy')
repeat('a', 3)
reverse('abc')
lpad('a', 3)
lpad('a', 3, 'x')
rpad('a', 3, 'x')
split_part('a,b', ',', 1)
split_part('a,b', ',', 0)
overlay('abc' placing 'x' from 2)
ascii('a')
chr(97)
chr(0)
concat('a', 1, NULL)
concat_ws(',', 'a', 'b')
to_hex(255)
abs(-1)
abs(-1.5)
sign(-1.5)
ceil(1.5)
ceiling(1.5)
floor(1.5)
round(1.5)
round(1.55, 1)
round(2.5::float8)
trunc(1.5)
trunc(1.55, 1)
sqrt(4)
sqrt(-1)
cbrt(27)
exp(0)
ln(1)
ln(0)
log(100)
log(2, 8)
log10(100)
log10(100.5)
log2(8)
power(2, 3)
pow(2, 3)
mod(5, 3)
div(5, 3)
pi()
degrees(0)
radians(0)
sin(0)
asin(2)
atan2(0, 1)
greatest(1, 2)
least(1, 2.5)
coalesce(NULL, 1)
nullif(1, 1)
CASE WHEN true THEN 1 ELSE 2.5 END
CASE 1 WHEN 1 THEN 'a' END
1 IN (1, 2)
1 BETWEEN 0 AND 2
NOT true
true AND false
NULL IS NULL
true IS TRUE
true IS NOT UNKNOWN
1 = 1
1 <> 2
1 IS DISTINCT FROM 2
(1, 2) = (1, 2)
1 = ANY (ARRAY[1])
EXISTS (SELECT 1)
(SELECT 1)
(SELECT 1 AS q)
ARRAY(SELECT 1)
5 & 3
5 | 3
5 # 3
~ 5
1 << 3
8 >> 1
1::smallint
70000::smallint
'x'::int
'1.5'::int
1.5::int
2.5::float8::int
'x'::numeric
'x'::bool
'yes'::bool
'x'::date
'2020-13-01'::date
'x'::uuid
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid
'\\x00ff'::bytea
'{"a": 1}'::json
'{"a": 1}'::jsonb
'{'::json
'{"a": 1}'::jsonb -> 'a'
'{"a": 1}'::jsonb ->> 'a'
extract(year from date '2020-01-01')
extract(epoch from timestamp '2020-01-01')
extract(fortnight from date '2020-01-01')
date_trunc('month', timestamp '2020-05-05')
date_trunc('fortnight', timestamp '2020-05-05')
date '2020-01-01' + 1
date '2020-01-02' - date '2020-01-01'
timestamp '2020-01-02' - timestamp '2020-01-01'
date '2020-01-01' + interval '1 day'
age(timestamp '2020-01-02', timestamp '2020-01-01')
make_date(2020, 1, 1)
make_date(2020, 13, 1)
to_char(1.5, '9.9')
to_char(date '2020-01-01', 'YYYY')
to_date('2020', 'YYYY')
to_number('1.5', '9.9')
timestamp '2020-01-01' AT TIME ZONE 'UTC'
timestamp '2020-01-01' AT TIME ZONE 'Nowhere'
encode('a'::bytea, 'hex')
decode('61', 'hex')
decode('6', 'hex')
encode('a', 'nothing')
array_length(ARRAY[1], 1)
cardinality(ARRAY[1])
array_append(ARRAY[1], 2)
array_to_string(ARRAY[1, 2], ',')
string_to_array('a,b', ',')
unnest(ARRAY[1])
generate_series(1, 1)
regexp_replace('abc', 'b', 'x')
regexp_match('abc', 'b')
regexp_split_to_array('a,b', ',')
jsonb_build_object('a', 1)
to_json(1)
to_jsonb('a'::text)
json_typeof('1')
count(*)
count(1)
sum(1)
sum(1.5)
avg(1)
min(1)
max('a')
bool_and(true)
every(true)
bit_and(1)
string_agg('a', ',')
array_agg(1)
json_agg(1)
stddev(1)
variance(1)
var_pop(1)
row_number() OVER ()
rank() OVER (ORDER BY 1)
lag(1) OVER ()
sum(1) OVER ()
nothing(1)
upper(1)
abs('x')
abs(true)
1 + 'x'
1 + true
'a' + 'b'
1::nothing
1::int4
1::int8
1::int2
1::float4
1::float8
1::decimal
1::text
1::varchar
1::char
1::bool
true::int
2147483647 + 1
9223372036854775807 + 1
99999999999999999999
32767::smallint + 1::smallint
-32768::smallint
'infinity'::float8
'nan'::float8
'1e400'::float8
1e400::float8
1.5 :: int + 1
(1 + 1)::text
upper('a') || 'b'
coalesce(NULL, NULL)
version() IS NOT NULL
'a' COLLATE "C"
'a' COLLATE "nothing"
num_nulls(1, NULL)
gcd(12, 8)
lcm(4, 6)
factorial(5)
factorial(-1)
width_bucket(5, 0, 10, 5)
scale(1.50)
min_scale(1.50)
trim_scale(1.50)
starts_with('abc', 'a')
quote_literal('a')
quote_ident('A b')
format('%s', 1)
format('%d', 1)
"""

OVER_COLUMNS = """
ROW(i, s) = ROW(1, 'a')
(i, s) = (b, v)
(i, n) < (1, 1.5)
(i, s) IS NULL
(i, s) IS NOT NULL
ROW(i, s) IS DISTINCT FROM ROW(b, v)
(i, s) IS NOT DISTINCT FROM (b, v)
(i, s) IN ((1, 'a'), (2, NULL))
(i, s) IN ((1, 'a', 2))
(i, s) IN (1, 2)
(i, s) = (1, 2, 3)
i BETWEEN SYMMETRIC 3 AND 1
i NOT BETWEEN SYMMETRIC b AND n
(i, s) BETWEEN (0, '') AND (2, 'z')
(i, n) BETWEEN SYMMETRIC (2, 9) AND (0, 0)
n BETWEEN 1 AND f
d BETWEEN t AND z
i IN (1, NULL)
i NOT IN (2, NULL)
i IN (NULL)
i IN (1, 2.5, 3::float8)
n IN (1, '2.50')
n IN (i, b, r)
c IN ('a', 'ab  ')
c = v
c = s
v = s
c IN (s, v)
z = t
z = '2024-03-01 10:00'
d = '2024-03-01'
d = t
d <> 'nonsense'
i = 's'
i = s
o = i
a = '{1,2}'
a < '{1,NULL}'
m = '{1,2}'
m = '{{1,2}}'
array[[1, 2]] = '{1,2}'
a = m
f = n
f = r
r = n
n = 1.0
r <> 1.50
i = 1.5
b = '9223372036854775807'
i IS DISTINCT FROM NULL
NULL IS NOT DISTINCT FROM s
o IS TRUE
o IS NOT FALSE
(i = 1) IS UNKNOWN
i IS TRUE
NOT i
NOT o
o AND i
o AND NULL
o OR NULL
NOT (o AND i = 1 OR s = 'a')
i <> 0 AND 10 / i > 2
i = 0 OR 10 / i > 2
CASE WHEN i = 1 THEN n WHEN i = 2 THEN r ELSE 7 END
CASE i WHEN 1 THEN 'one' WHEN 2.0 THEN 'two' END
CASE s WHEN 'a' THEN i WHEN v THEN b ELSE f END
CASE WHEN i THEN 1 END
CASE WHEN o THEN 1 ELSE s END
CASE WHEN o THEN a ELSE '{7}' END
CASE i WHEN 1 THEN CASE s WHEN 'a' THEN 'both' ELSE s END ELSE 'none' END
CASE WHEN true THEN i ELSE 1 / 0 END
coalesce(n, r, 7)
coalesce(NULL, i)
coalesce(i, 's')
coalesce(s, v)
coalesce(d, z)
nullif(i, 1)
nullif(n, 1.5)
nullif(i, 1::bigint)
nullif(d, t)
nullif(s, 'a')
nullif('a', s)
nullif(NULL, i)
nullif(i, NULL)
nullif(i, 's')
nullif(a, '{1,2}')
greatest(i, n, r)
least(i, 2.5::float8, b)
greatest(s, 'b')
least(NULL, i)
greatest(i, o)
greatest(d, t, z)
i = ANY('{}')
i <> ALL('{}'::int[])
NULL = ANY('{}'::int[])
i = ANY('{}'::text[])
i = ANY('{1,NULL}')
i = ANY(ARRAY[2, 2.5])
i <> ALL('{1,NULL}')
i < ANY(ARRAY[1, 2])
i >= ALL('{1,NULL}')
i < ANY('{{1,2},{3,4}}'::int[])
i = ANY('{x}')
s = ANY('{a,b}'::varchar[])
i = ANY(a)
i > ALL(a)
s LIKE ANY(ARRAY['a%', 'b'])
s LIKE ALL('{a%,%b%}')
s NOT LIKE ANY('{a%,b}')
s NOT LIKE ALL('{b%,NULL}')
s ILIKE ANY(ARRAY['A', 'B'])
s LIKE 'a!%' ESCAPE '!'
s NOT ILIKE 'A%'
c LIKE 'a   '
c LIKE v
i LIKE 'a'
s ~ '^a'
s !~ 'B'
s ~* 'A'
s !~* v
c ~ 'a '
i ~ 'a'
s SIMILAR TO '(a|b)%'
s NOT SIMILAR TO 'a'
s ~ '(a)\\1'
s ~* '(A)\\1|B'
s !~ '\\ma\\M'
s ~ '^a(?!b)'
c ~* '^(?=A)'
s ~ v
s ~ '\\q'
s ~ 'a**'
regexp_like(s, '^a')
regexp_like(s, '\\mA', 'i')
regexp_like(s, 3)
regexp_like(s)
regexp_replace(s, '(.)\\1|a', 'x')
regexp_replace(s, '\\m.', '<\\&>', 'g')
substring(s from '\\ma')
date_trunc('month', t)
date_trunc('Hour', z, 'Europe/Paris')
date_trunc(s, t)
date_trunc(v, d)
date_trunc("month", t)
date_trunc(month, t)
date_trunc(1, t)
date_trunc(NULL, t)
timestamp_trunc('year', t)
ARRAY[a, '{1,2}']
ARRAY[m, a]
ARRAY[m, '{1,2}']
ARRAY['{}', m]
ARRAY['{}'::integer[], '{}'::integer[][]]
i + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + NULL + 1
i + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 - n - f
s || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || NULL || v
s || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || c || v || i
"""
"""Over the columns of ``held``, so that nothing is known before the statement runs."""

TABLE, COLUMNS = (
    [line for line in text.strip().splitlines() if line] for text in (EXPRESSIONS, OVER_COLUMNS)
)
HELD = """
CREATE TABLE held (id integer PRIMARY KEY, i integer, b bigint, n numeric(6,2), r numeric, f float8, s text,
  v varchar(5), c char(4), d date, t timestamp, z timestamptz, a integer[], m integer[][], o boolean);
INSERT INTO held VALUES
  (1, 1, 1, 1.50, 1.500, 1.5, 'a', 'a', 'a', '2024-03-01', '2024-03-01', '2024-03-01 10:00+00', '{1,2}',
   '{{1,2}}', true),
  (2, 2, 9223372036854775807, 2.50, 0.1, 0.1, 'ab ', 'ab', 'ab', '2024-03-02', '2024-03-01 10:00',
   '2024-03-01 00:00+00', '{3}', '{{3},{4}}', false),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with herdpy.connect(tmp_path_factory.mktemp("table") / "db", autocommit=True) as connection:
        _fill(connection)
        yield connection


@pytest.fixture(scope="module")
def reference(postgres: str) -> Iterator[Any]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("DROP SCHEMA IF EXISTS expression_table CASCADE")
        connection.execute("CREATE SCHEMA expression_table")
        connection.execute("SET search_path = expression_table")
        _fill(connection)
        yield connection


def _fill(connection: Any) -> None:
    for sql in HELD.strip().rstrip(";").split(";\n"):
        connection.execute(sql)


@pytest.mark.parametrize("engine", ["columnar", "own", "auto"])
def test_expressions_are_those_of_postgresql(own: Any, reference: Any, engine: str) -> None:
    _compare(own, reference, engine, [f"SELECT {expression}" for expression in TABLE])


@pytest.mark.parametrize("engine", ["columnar", "own", "auto"])
def test_expressions_over_columns_are_those_of_postgresql(own: Any, reference: Any, engine: str) -> None:
    _compare(own, reference, engine, [f"SELECT {expression} FROM held ORDER BY id" for expression in COLUMNS])


def _compare(own: Any, reference: Any, engine: str, queries: list[str]) -> None:
    own.execute(f"SET herdpy.engine = '{engine}'")
    differing, asked = [], 0
    for sql in queries:
        statement = Statement(sql)
        got, want = texts_on_herdpy(own, sql), on_postgres(reference, statement)
        if engine == "own" and got.state == "0A000":
            continue
        asked += 1
        if not same(got, want, statement):
            differing.append(f"{sql}\n    {got}\n    {want}")
    assert asked > 40
    assert not differing, "\n".join([f"{len(differing)} of {asked}", *differing])
