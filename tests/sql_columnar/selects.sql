-- One SELECT a line; each is asked of both engines. Lines ending in ORDER BY compare the order too.
-- literals and output names
SELECT 1, 'a', NULL, 1.5, 10000000000, 12345678901234567890, true, -1, 1e3, 'x' AS "Weird Name"
SELECT 1::int, '1'::bigint, 'a'::text, 1::numeric(5,2), true::text, date '2020-01-01', timestamp '2020-01-01 01:02:03', interval '1 day'
SELECT id, id AS id, items.id, id + 1, upper(name), count(*) OVER () FROM items ORDER BY 1
SELECT CASE WHEN true THEN 1 END, CASE WHEN true THEN 1 ELSE id END, coalesce(small, 0), nullif(small, 7), (SELECT 1), EXISTS (SELECT 1) FROM items WHERE id = 1
SELECT * FROM items ORDER BY id
SELECT i.*, o.qty FROM items i JOIN orders o ON o.item = i.id ORDER BY o.id
SELECT * FROM items i JOIN orders o USING (id) ORDER BY id
SELECT * FROM orders NATURAL JOIN (SELECT id, qty FROM orders WHERE qty > 2) x ORDER BY id
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v ORDER BY 1
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x) ORDER BY x
-- integers
SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3, 7 / -2, mod(-7, 3), 2 ^ 10, 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 4, 256 >> 4
SELECT 1 / 0
SELECT 1 % 0
SELECT 2147483647 + 1
SELECT 9223372036854775807 + 1
SELECT small * 1000::smallint FROM items WHERE id = 4
SELECT small + small, small + id, small + big, id * big FROM items WHERE id = 1
SELECT id * 1000000000 FROM items WHERE id = 4
SELECT big + 1 FROM items WHERE id = 4
SELECT -2147483648::int
SELECT (-2147483648)::int / -1
SELECT abs(small), sign(small), abs(big), abs(-5) FROM items ORDER BY id
SELECT 10000000000 * 10000000000
SELECT small / 0 FROM items WHERE id = 5
SELECT '12' + 1, 1 + '12', '5'::int * 2
SELECT '1' + '2'
SELECT 'abc' + 1
SELECT true + 1
SELECT 'a' || 1, 1 || 'a', NULL || 'a', 'a' || true, 'a' || 1.50
SELECT 1 || 2
-- numeric
SELECT price + 1, price - rate, price * 2, price * price, price / 3, rate / 3, rate * rate, price % 7, rate + ratio FROM items ORDER BY id
SELECT 1.0 / 3, 2.0 / 3, 10.0 / 4, 1 / 3.0, 100000000000 / 3.0, 0.00001 / 3, 12345.678 / 0.001, 1.5 / 1.5
SELECT 1.0 / 0
SELECT 1.10 + 2.200, 1.10 * 2.200, 1.5 - 1.5, -1.50, 0.10 % 0.03, 5 % 1.5
SELECT 1.005::numeric(10,2), -1.005::numeric(10,2), 2.5::int, 3.5::int, -2.5::int, 2.5::float8::int, 3.5::float8::int
SELECT 12345.678::numeric(5,2)
SELECT price::numeric(4,2) FROM items WHERE id = 4
SELECT price::int, rate::bigint, price::float8, price::text, rate::text, price::numeric, rate::numeric(30,3) FROM items ORDER BY id
SELECT round(price), round(price, 1), round(price, -1), round(rate, 2), trunc(price), trunc(price, 1), trunc(rate, -1), ceil(price), floor(price), ceil(rate), floor(rate) FROM items ORDER BY id
SELECT round(2.5), round(-2.5), round(2.5::float8), round(3.5::float8), round(1.2345, 2), round(5, 1), trunc(2.789, 2), ceil(1.1), floor(-1.1), ceil(1.5::float8)
SELECT sqrt(2), sqrt(2.0), sqrt(16::numeric), power(2, 3), power(2.0, 3), exp(1), exp(1.0), ln(10), ln(10.0), log(100), log(100.0), log(2.0, 64.0)
SELECT sqrt(-1)
SELECT sqrt(-1.0)
SELECT ln(0)
SELECT abs(-1.50), sign(-1.50), -rate, abs(rate), sign(rate), -price FROM items ORDER BY id
SELECT sum(price), avg(price), min(price), max(price), count(price) FROM items
SELECT sum(rate), avg(rate), min(rate), max(rate), count(rate) FROM items
SELECT sum(small), sum(id), sum(big), avg(small), avg(id), avg(big), min(small), max(big) FROM items WHERE id <> 4
SELECT sum(small), avg(id), sum(price), count(*), min(name), avg(rate) FROM items WHERE false
SELECT sum(ratio), avg(ratio), min(ratio), max(ratio) FROM items WHERE id IN (1, 3)
SELECT sum(single), avg(single), min(single) FROM items WHERE id IN (1, 3)
SELECT stddev(id), var_pop(id) FROM items WHERE id = 1
SELECT id, price FROM items WHERE price > 12.499 ORDER BY id
SELECT id, rate FROM items WHERE rate > 1.5 ORDER BY rate, id
SELECT id, rate FROM items ORDER BY rate DESC, id
SELECT DISTINCT rate::numeric(30,3) FROM items ORDER BY 1
SELECT sum(price * qty) FROM items JOIN orders ON items.id = item
SELECT sum(CASE WHEN active THEN price ELSE 0 END), sum(coalesce(price, 0)) FROM items
SELECT sum(CASE WHEN active THEN 1 ELSE 0 END), avg(CASE WHEN active THEN 1.0 ELSE 0 END) FROM items
SELECT greatest(price, rate), least(1, 2.50), greatest(NULL, 1), least(small, id), greatest('a', 'b') FROM items ORDER BY id
SELECT coalesce(price, 0), coalesce(rate, 0), coalesce(NULL, NULL, 3), coalesce(name, 'none') FROM items ORDER BY id
SELECT price = rate, price < ratio, small = 7.0, big = 42::float8, rate = 1.5, rate <> 1.50 FROM items ORDER BY id
SELECT price * 1.08, (price * 1.08)::numeric(10,2), round(price * 1.08, 2) FROM items ORDER BY id
SELECT 1e400::numeric > 0, 0.1 + 0.2 = 0.3, 0.1::float8 + 0.2::float8 = 0.3
SELECT div(7, 2), div(-7.5, 2), mod(7.5, 2)
-- floats
SELECT ratio, ratio * 2, ratio / 3, ratio + 1, -ratio, ratio::text, single, single * 2, single::text, single + ratio, single::float8 FROM items ORDER BY id
SELECT 1e308::float8 * 10
SELECT 1.0::float8 / 0
SELECT 1e-200::float8 * 1e-200::float8
SELECT 'NaN'::float8, 'Infinity'::float8, '-inf'::float8, 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 1e300
SELECT 3e38::float4 * 10
SELECT 1e300::float8::float4
SELECT 1e10::float8::int
SELECT ratio::int FROM items WHERE id = 2
SELECT 1e15::float8, 1e14::float8, 123456789012345678::float8, 0.0001::float8, 0.00001::float8, 1e6::float4, 100000::float4, 1.1::float4, 0.1::float8, -0.0::float8
SELECT 1e15::float8::text, 0.1::float4::text, 1.1::float4::float8, 1.1::float4::numeric, 0.1::float8::numeric, 1e20::float8::numeric
SELECT sin(1), cos(1), tan(1), atan(1), atan2(1, 2), degrees(1), radians(180), pi(), cbrt(27)
SELECT asin(2)
SELECT power(0, -1)
SELECT power(-8::float8, 0.5)
SELECT exp(1000)
-- booleans and NULL logic
SELECT active, NOT active, active AND NULL, active OR NULL, active IS TRUE, active IS NOT FALSE, active IS UNKNOWN, active IS NOT UNKNOWN FROM items ORDER BY id
SELECT NULL = NULL, NULL IS NULL, 1 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL
SELECT id FROM items WHERE name = 'apple' AND NOT (price > 50) ORDER BY id
SELECT id FROM items WHERE small NOT IN (7, NULL) ORDER BY id
SELECT id FROM items WHERE small IN (7, 10) ORDER BY id
SELECT id FROM items WHERE id BETWEEN 2 AND 4 ORDER BY id
SELECT id FROM items WHERE id NOT BETWEEN SYMMETRIC 4 AND 2 ORDER BY id
SELECT id FROM items WHERE (id, small) IN ((1, 10), (2, -20)) ORDER BY id
SELECT (1, 2) < (1, 3), (1, 2) = (1, 2), ROW(1, 'a') = ROW(1, 'b'), (1, NULL) = (1, 2), (2, NULL) = (1, 2)
SELECT 't'::boolean, 'yes'::boolean, 'off'::boolean, '0'::boolean, 1::boolean, true::int, 'true'::text::boolean
SELECT 'maybe'::boolean
SELECT id FROM items WHERE small
SELECT id FROM items WHERE NOT 1
-- text
SELECT upper(name), lower(name), length(name), char_length(name), octet_length(name), initcap(name), reverse(name) FROM items ORDER BY id
SELECT name || '!', name || NULL, name || id, concat(name, NULL, id, active), concat_ws('-', name, NULL, code) FROM items ORDER BY id
SELECT substring('hello' FROM 2 FOR 3), substring('hello', 0, 3), substring('hello', -2, 5), substring('hello', 3), substr('hello', 2), substring('hello', 10), substring('hello', 2, 0)
SELECT substring('hello', 2, -1)
SELECT left('hello', 2), left('hello', -2), right('hello', 2), right('hello', -2), left('', 3), left('ab', 5)
SELECT position('l' IN 'hello'), strpos('hello', 'z'), position('' IN 'abc'), strpos('日本', '本')
SELECT trim('  a  '), ltrim('xxax', 'x'), rtrim('axx', 'x'), trim(BOTH 'x' FROM 'xax'), btrim('xyaxy', 'xy'), trim(LEADING FROM ' a '), trim(TRAILING 'x' FROM 'axx')
SELECT lpad('a', 3), lpad('a', 3, 'xy'), rpad('abc', 2), lpad('abc', 2), rpad('a', 5, 'xy'), lpad('a', -1), lpad('a', 3, '')
SELECT replace('banana', 'a', 'o'), replace('abc', '', 'x'), translate('12345', '143', 'ax'), repeat('ab', 3), repeat('ab', -1), split_part('a,b,c', ',', 2), split_part('a,b,c', ',', -1), split_part('a,b', ',', 5)
SELECT split_part('a,b', ',', 0)
SELECT chr(65), chr(8364), ascii('A'), ascii('é'), ascii(''), md5('abc'), starts_with('abc', 'ab'), overlay('abcdef' PLACING 'XX' FROM 2 FOR 3), to_hex(255)
SELECT name FROM items WHERE name LIKE '%p%' ORDER BY id
SELECT name FROM items WHERE name LIKE '100\%\_%' ORDER BY id
SELECT name FROM items WHERE name LIKE '100!%!_%' ESCAPE '!' ORDER BY id
SELECT name FROM items WHERE name NOT LIKE 'a%' ORDER BY id
SELECT name FROM items WHERE name ILIKE 'A%' ORDER BY id
SELECT 'äÄ' ILIKE 'ÄÄ', 'abc' LIKE '_b_', 'abc' LIKE 'abc%', '' LIKE '%', 'a' LIKE '', 'a\b' LIKE 'a\\b'
SELECT 'abc' ~ 'b', 'abc' ~ '^b', 'ABC' ~* 'b', 'abc' !~ 'b', 'abc' !~* 'B', 'a.c' ~ 'a\.c', 'abc' SIMILAR TO 'a%', 'abc' SIMILAR TO '(a|b)_c'
SELECT regexp_replace('foobar', 'o+', 'X'), regexp_replace('foobarbaz', 'b..', 'X', 'g'), regexp_replace('abc', '(b)', '[\1]'), substring('foobar' FROM 'o(.)b')
SELECT name, code, tag FROM items ORDER BY name, id
SELECT name FROM items ORDER BY name DESC NULLS LAST, id
SELECT name, tag FROM items ORDER BY tag DESC NULLS FIRST, id
SELECT min(name), max(name), min(tag), max(code) FROM items
SELECT 'abc' < 'abd', 'B' < 'a', 'é' > 'z', 'a' < 'ab', name < 'b' FROM items ORDER BY id
SELECT tag = 'ab', tag = 'ab  ', tag || 'x', length(tag), octet_length(tag), tag LIKE 'ab', tag LIKE 'ab%', tag::text, upper(tag), concat(tag, '|') FROM items ORDER BY id
SELECT 'abcdef'::varchar(3), 'ab'::char(4), 'ab'::char(4) || 'x', 'abcdef'::char(3), 'a'::varchar(3) || 'b', 123::varchar(2), code::varchar(2) FROM items WHERE id = 1
SELECT string_agg(name, ', ' ORDER BY id), string_agg(code, '' ORDER BY code DESC, id) FROM items
SELECT quote_literal('it''s')
SELECT 'a''b', E'a\nb', 'x'::text = 'x'::varchar, U&'d\0061t'
SELECT name COLLATE "C" FROM items ORDER BY name COLLATE "C", id
-- casts from text
SELECT '  12 '::int, '+5'::int, '-0'::int, '1.50'::numeric, ' 1e2 '::numeric, '1e2'::float8, '.5'::numeric, 'x'::text::varchar(1)
SELECT 'abc'::int
SELECT '1.5'::int
SELECT ''::int
SELECT '99999999999'::int
SELECT '1e2'::int
SELECT code::int FROM items WHERE id = 1
SELECT (id::text || '1')::int, (id::text)::numeric, (id::text)::float8, (id::text)::bigint FROM items ORDER BY id
SELECT (name)::numeric FROM items WHERE id = 1
SELECT (name)::date FROM items WHERE id = 1
SELECT 'x'::uuid
SELECT key, key::text, key = '00000000-0000-0000-0000-000000000001', key > 'a0000000-0000-0000-0000-000000000000' FROM items ORDER BY key, id
SELECT raw, raw = '\x0102', length(raw), raw || '\x00', raw::text, octet_length(raw) FROM items ORDER BY raw, id
SELECT '\x4142'::bytea, 'a\101'::bytea
SELECT doc, doc::text FROM items ORDER BY id
SELECT '{"a":1}'::json
SELECT '{bad'::json
-- dates and times
SELECT born, born + 1, born - 1, born - date '2020-01-01', born + interval '1 month', born - interval '1 day' FROM items ORDER BY id
SELECT seen, seen + interval '1 day 2 hours', seen - interval '1 month', seen - timestamp '2020-01-01', seen::date, seen::time, seen::text FROM items ORDER BY id
SELECT logged, logged + interval '1 hour', logged::date, logged::timestamp, logged AT TIME ZONE 'UTC', seen AT TIME ZONE 'UTC', logged AT TIME ZONE 'America/New_York', logged::text FROM items ORDER BY id
SELECT at, at + interval '1 hour', at - time '01:00', at::text FROM items ORDER BY id
SELECT extract(year FROM born), extract(month FROM born), extract(day FROM born), extract(dow FROM born), extract(doy FROM born), extract(week FROM born), extract(quarter FROM born), extract(epoch FROM born), extract(isodow FROM born), extract(isoyear FROM born) FROM items ORDER BY id
SELECT extract(hour FROM seen), extract(minute FROM seen), extract(second FROM seen), extract(epoch FROM seen), extract(milliseconds FROM seen), extract(microseconds FROM seen), extract(century FROM seen), extract(decade FROM seen) FROM items ORDER BY id
SELECT extract(hour FROM at), extract(second FROM at), extract(epoch FROM at) FROM items ORDER BY id
SELECT extract(hour FROM born) FROM items
SELECT extract(foo FROM seen) FROM items
SELECT date_trunc('month', seen), date_trunc('year', born), date_trunc('week', seen), date_trunc('hour', logged), date_trunc('quarter', seen), date_trunc('decade', seen), date_trunc('day', seen) FROM items ORDER BY id
SELECT date '2020-02-30'
SELECT 'foo'::date
SELECT '2020-13-01'::date
SELECT timestamp '2020-01-01 25:00:00'
SELECT date '2020-01-31' + interval '1 month', date '2020-03-31' - interval '1 month', timestamp '2020-01-01' - timestamp '2019-12-25 12:00', interval '1 day' * 2, interval '1 hour' / 2, interval '1 month' + interval '2 days'
SELECT interval '1 year 2 months 3 days 04:05:06.7', interval '-1 day', interval '36 hours', interval '1 week', interval '90 minutes', interval '1.5 days'
SELECT date '2020-01-01' < timestamp '2020-01-01 00:00:01', date '2020-01-01' = timestamptz '2020-01-01', seen < logged, born = '2020-01-31' FROM items WHERE id = 1
SELECT make_date(2020, 2, 29), date '2020-01-01' + time '03:04', '04:05'::time, 'infinity'::date, '-infinity'::timestamp, 'epoch'::date
SELECT min(born), max(seen), min(logged), max(at), count(DISTINCT born) FROM items
SELECT id FROM items WHERE born > '2020-01-01' AND seen < '2022-01-01 00:00' ORDER BY id
SELECT born - 'x' FROM items
SELECT born * 2 FROM items
SELECT born + 1.5 FROM items
-- grouping
SELECT name, count(*), sum(small), max(price) FROM items GROUP BY name ORDER BY name
SELECT name, count(*) FROM items GROUP BY 1 HAVING count(*) > 1 ORDER BY 1
SELECT upper(name) AS n, count(*) FROM items GROUP BY n ORDER BY n
SELECT id, name, price FROM items GROUP BY id ORDER BY id
SELECT i.id, i.name, count(o.id), sum(o.amount) FROM items i LEFT JOIN orders o ON o.item = i.id GROUP BY i.id ORDER BY i.id
SELECT name, id FROM items GROUP BY name
SELECT name FROM items GROUP BY upper(name)
SELECT upper(name) || 'x' FROM items GROUP BY upper(name) ORDER BY 1
SELECT count(*) FROM items HAVING count(*) > 100
SELECT name FROM items HAVING count(*) > 1
SELECT active, name, count(*), grouping(active, name) FROM items GROUP BY ROLLUP (active, name) ORDER BY 1, 2, 3, 4
SELECT active, count(*), grouping(active) FROM items GROUP BY GROUPING SETS ((active), ()) ORDER BY 3, 1
SELECT active, small, sum(id) FROM items GROUP BY CUBE (active, small) ORDER BY 1, 2, 3
SELECT active, small, sum(id) FROM items GROUP BY active, ROLLUP (small) ORDER BY 1, 2, 3
SELECT count(DISTINCT name), count(DISTINCT small), sum(DISTINCT small), avg(DISTINCT small) FROM items
SELECT count(*) FILTER (WHERE active), sum(price) FILTER (WHERE NOT active), count(*) FROM items
SELECT bool_and(active), bool_or(active), every(id > 0) FROM items
SELECT bit_and(small), bit_or(small) FROM items
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ratio), percentile_disc(0.5) WITHIN GROUP (ORDER BY id), mode() WITHIN GROUP (ORDER BY name) FROM items
SELECT sum(count(*)) FROM items
SELECT count(*) FROM items WHERE count(*) > 1
SELECT sum(name) FROM items
SELECT max(active) FROM items
SELECT count(*) + 1, count(*) * 2.5 FROM items
SELECT count(*) FROM items, orders
SELECT DISTINCT name, active FROM items ORDER BY name, active
SELECT DISTINCT small FROM items ORDER BY id
SELECT DISTINCT ON (name) name, id FROM items ORDER BY name, id DESC
SELECT DISTINCT ON (name) name, id FROM items ORDER BY id
SELECT stddev(small), variance(small), stddev_pop(id), var_pop(price), stddev_samp(price) FROM items WHERE id < 4
SELECT count(*), rate FROM items WHERE rate < 0 GROUP BY rate
SELECT regr_count(id, small), round(corr(id, small)::numeric, 9), round(regr_slope(id, small)::numeric, 9) FROM items
SELECT id FROM items WHERE small <> 0 AND 100 / small > 1 ORDER BY id
SELECT id FROM items WHERE small = 0 OR 100 / small > 1 ORDER BY id
-- windows
SELECT id, row_number() OVER (ORDER BY price DESC, id), rank() OVER (ORDER BY name), dense_rank() OVER (ORDER BY name), ntile(3) OVER (ORDER BY id) FROM items ORDER BY id
SELECT id, sum(price) OVER (ORDER BY id), avg(price) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), count(*) OVER (PARTITION BY name) FROM items ORDER BY id
SELECT id, lag(id) OVER w, lead(id, 2) OVER w, lag(price, 1, 0) OVER w, first_value(name) OVER w, last_value(id) OVER w, nth_value(id, 2) OVER w FROM items WINDOW w AS (ORDER BY id) ORDER BY id
SELECT id, percent_rank() OVER (ORDER BY name), cume_dist() OVER (ORDER BY name) FROM items ORDER BY id
SELECT id, sum(id) OVER (ORDER BY small RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), sum(id) OVER (ORDER BY id DESC) FROM items ORDER BY id
SELECT name, sum(count(*)) OVER (ORDER BY name) FROM items GROUP BY name ORDER BY name
SELECT id, sum(qty) FILTER (WHERE qty > 1) OVER (PARTITION BY item) FROM orders ORDER BY id
SELECT id FROM items WHERE row_number() OVER () = 1
SELECT row_number() FROM items
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY active ORDER BY id DESC) rn FROM items) x WHERE rn = 1 ORDER BY id
-- joins
SELECT i.id, o.id FROM items i LEFT JOIN orders o ON o.item = i.id ORDER BY i.id, o.id
SELECT i.id, o.id FROM items i RIGHT JOIN orders o ON o.item = i.id ORDER BY i.id, o.id
SELECT i.id, o.id FROM items i FULL JOIN orders o ON o.item = i.id ORDER BY i.id, o.id
SELECT id, name, qty FROM items FULL JOIN orders USING (id) ORDER BY id
SELECT i.id, o.id FROM items i, orders o WHERE i.id = o.item AND o.qty > 1 ORDER BY 1, 2
SELECT a.id, b.id FROM items a CROSS JOIN items b WHERE a.id < b.id AND a.name = b.name ORDER BY 1, 2
SELECT i.id, x.total FROM items i CROSS JOIN LATERAL (SELECT sum(qty) AS total FROM orders o WHERE o.item = i.id) x ORDER BY i.id
SELECT i.id, x.qty FROM items i LEFT JOIN LATERAL (SELECT qty FROM orders o WHERE o.item = i.id ORDER BY qty DESC LIMIT 1) x ON true ORDER BY i.id
SELECT (a.id) FROM (items a JOIN orders b ON a.id = b.item) ORDER BY 1
SELECT id FROM items JOIN orders ON items.id = orders.item
SELECT x.id FROM items
SELECT nope FROM items
SELECT items.nope FROM items
SELECT * FROM nope
SELECT * FROM items i JOIN orders i ON true
SELECT items.id FROM items i
SELECT * FROM items JOIN orders USING (nope)
SELECT * FROM items i JOIN orders o ON i.name
-- subqueries
SELECT id, (SELECT count(*) FROM orders o WHERE o.item = i.id), (SELECT max(amount) FROM orders o WHERE o.item = i.id) FROM items i ORDER BY id
SELECT id FROM items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.item = i.id) ORDER BY id
SELECT id FROM items WHERE id IN (SELECT item FROM orders) ORDER BY id
SELECT id FROM items WHERE id NOT IN (SELECT item FROM orders WHERE item IS NOT NULL) ORDER BY id
SELECT id FROM items WHERE id NOT IN (SELECT item FROM orders) ORDER BY id
SELECT id FROM items WHERE price > ANY (SELECT amount FROM orders) ORDER BY id
SELECT id FROM items WHERE price >= ALL (SELECT price FROM items WHERE price IS NOT NULL) ORDER BY id
SELECT id FROM items WHERE id = ANY (ARRAY[1, 3, 5]) ORDER BY id
SELECT (SELECT id FROM items)
SELECT (SELECT id, name FROM items WHERE id = 1)
SELECT (SELECT id FROM items WHERE false), 1 + (SELECT 2)
SELECT id FROM items WHERE (id, name) IN (SELECT id, name FROM items WHERE active) ORDER BY id
SELECT * FROM (SELECT id, price * 2 AS double FROM items) x WHERE double > 20 ORDER BY id
SELECT * FROM (SELECT id FROM items)
SELECT x FROM (SELECT id AS x FROM items ORDER BY id LIMIT 3) s ORDER BY x DESC
SELECT id FROM items ORDER BY (SELECT count(*) FROM orders o WHERE o.item = items.id) DESC, id
-- set operations
SELECT 1 UNION SELECT 2 UNION SELECT 1 ORDER BY 1
SELECT 1 UNION ALL SELECT 2.50 ORDER BY 1
SELECT 1 AS a UNION ALL SELECT NULL ORDER BY a
SELECT id FROM items INTERSECT SELECT item FROM orders ORDER BY id
SELECT id FROM items EXCEPT SELECT item FROM orders ORDER BY 1
SELECT name FROM items EXCEPT ALL SELECT 'apple' ORDER BY 1
SELECT id, name FROM items WHERE id < 3 UNION ALL SELECT item, 'order' FROM orders WHERE item < 3 ORDER BY 1, 2
(SELECT id FROM items ORDER BY id DESC LIMIT 2) UNION ALL (SELECT id FROM orders ORDER BY id LIMIT 1) ORDER BY 1
SELECT 1 UNION SELECT 'a'
SELECT 1, 2 UNION SELECT 1
SELECT id FROM items UNION SELECT name FROM items
SELECT born FROM items UNION SELECT seen FROM items ORDER BY 1
SELECT 'a' UNION SELECT NULL ORDER BY 1
SELECT 1 UNION SELECT 2 ORDER BY 1 + 1
VALUES (1, 'a'), (2, NULL), (NULL, 'c') ORDER BY 1 DESC
VALUES (1), (2.5), (NULL)
VALUES (1, 2), (3)
-- CTEs
WITH a AS (SELECT id FROM items WHERE id < 4), b AS (SELECT id + 1 AS id FROM a) SELECT a.id, b.id FROM a JOIN b USING (id) ORDER BY 1
WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT sum(n), count(*) FROM t
WITH RECURSIVE t AS (SELECT 1 AS n, 'a' AS s UNION ALL SELECT n + 1, s || 'a' FROM t WHERE n < 4) SELECT * FROM t ORDER BY n
WITH RECURSIVE fib(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM fib WHERE b < 50) SELECT a FROM fib ORDER BY a
WITH x AS (SELECT 1) SELECT * FROM x, y
WITH x(a, b) AS (SELECT 1) SELECT * FROM x
WITH items AS (SELECT 42 AS id) SELECT * FROM items
-- limits, ordinals, order rules
SELECT id FROM items ORDER BY id LIMIT 3 OFFSET 2
SELECT id FROM items ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM items ORDER BY id LIMIT ALL
SELECT id FROM items ORDER BY id LIMIT NULL
SELECT id FROM items LIMIT -1
SELECT id AS x FROM items ORDER BY x DESC
SELECT -id AS id FROM items ORDER BY id
SELECT id AS x FROM items ORDER BY x + 1
SELECT id FROM items ORDER BY 2
SELECT id, small FROM items ORDER BY small, id
SELECT id, small FROM items ORDER BY small DESC, id
SELECT id, small FROM items ORDER BY small NULLS FIRST, id
SELECT id, small FROM items ORDER BY small DESC NULLS LAST, id
SELECT id AS a, small AS a FROM items ORDER BY a
-- functions as tables
SELECT * FROM generate_series(1, 5) ORDER BY 1
SELECT * FROM generate_series(1, 10, 3) AS g(x) ORDER BY x
SELECT g, g * 2 FROM generate_series(3, 1, -1) g ORDER BY g
SELECT d::date FROM generate_series(timestamp '2020-01-01', '2020-01-03', '1 day') d ORDER BY 1
SELECT * FROM unnest(ARRAY[3, 1, 2]) AS u(x) ORDER BY x
SELECT i.id, g FROM items i, generate_series(1, i.id) g WHERE i.id < 3 ORDER BY 1, 2
SELECT * FROM generate_series(1, 3) WITH ORDINALITY ORDER BY 1
SELECT * FROM generate_series(-1, -6, -2) ORDER BY 1
SELECT count(*), min(x), max(x) FROM generate_series(5, 4) AS g (x)
SELECT x FROM generate_series(1::bigint, '3') AS g (x) ORDER BY x
SELECT (SELECT sum(x) FROM generate_series(1, 4) AS g (x)) AS s
-- errors
SELECT nofunc(1)
SELECT upper(1)
SELECT length(1)
SELECT substring(1, 2)
SELECT CASE WHEN 1 THEN 2 END
SELECT CASE WHEN true THEN 1 ELSE 'x' END
SELECT CASE WHEN true THEN id ELSE name END FROM items
SELECT coalesce(1, 'x')
SELECT coalesce(id, name) FROM items
SELECT 1 = 'x'
SELECT id = name FROM items
SELECT name > 5 FROM items
SELECT id FROM items WHERE name = 5
SELECT id IN (1, 'x') FROM items
SELECT -name FROM items
SELECT id::uuid FROM items
SELECT born::int FROM items
SELECT 1::nosuchtype
SELECT read_csv('/etc/passwd')
SELECT * FROM read_csv('/etc/passwd')
SELECT lower(NULL), upper('x'), abs(NULL), length('') 
SELECT CAST(NULL AS int) + 1, NULL + 1, NULL::text || 'x', -NULL::int
-- WITH TIES
SELECT id, small FROM items ORDER BY small FETCH FIRST 4 ROWS WITH TIES
SELECT price FROM items ORDER BY price DESC NULLS LAST OFFSET 1 FETCH FIRST 1 ROW WITH TIES
SELECT price FROM items ORDER BY price DESC OFFSET 2 FETCH NEXT 1 ROW WITH TIES
SELECT code, count(*) FROM items GROUP BY code ORDER BY count(*) DESC FETCH FIRST ROW WITH TIES
SELECT DISTINCT name, code FROM items ORDER BY name FETCH FIRST 2 ROWS WITH TIES
SELECT DISTINCT ON (name) name, id FROM items ORDER BY name, id FETCH FIRST 2 ROWS WITH TIES
SELECT rate * 2 FROM items ORDER BY rate * 2 DESC NULLS LAST FETCH FIRST 2 ROWS WITH TIES
SELECT sum(id) OVER (ORDER BY id), small FROM items ORDER BY small FETCH FIRST 4 ROWS WITH TIES
SELECT small FROM items UNION ALL SELECT small FROM items ORDER BY small FETCH FIRST 3 ROWS WITH TIES
VALUES (1), (1), (2) ORDER BY 1 FETCH FIRST 1 ROW WITH TIES
SELECT id FROM items ORDER BY small OFFSET 1 FETCH FIRST 0 ROWS WITH TIES
SELECT id FROM items ORDER BY small FETCH FIRST (1 + 3) ROWS WITH TIES
SELECT id FROM items FETCH FIRST 2 ROWS WITH TIES
SELECT NOT (small IN (5, 7)) AND active, count(*) FROM items GROUP BY small IN (5, 7), active ORDER BY 1, 2
SELECT CASE WHEN price > 5 THEN 'dear' END, coalesce(small, 0) + 1, nullif(active, true) FROM items GROUP BY price > 5, coalesce(small, 0), active ORDER BY 1, 2, 3
SELECT CASE WHEN price > 5 THEN price END FROM items GROUP BY price > 5
SELECT CASE WHEN true THEN 1 ELSE count(*) END, false AND count(*) > 0, NULL = count(*) FROM items
SELECT CASE WHEN true THEN 1 ELSE id END FROM items GROUP BY name
-- runs of operators, arrays of values that differ in form
SELECT id - 1 + small - 2 - big - 3 - id - small - 4 - 5 - 6 - 7 - 8 - 9 - 10 - 11 - price - 12.5 - rate - 13 - ratio - 14 - 15 FROM items WHERE id < 4 ORDER BY id
SELECT name || 1 || code || tag || name || '2' || id || name || '3' || name || price || name || '4' || name || name || '5' || active || name || born || '6' FROM items ORDER BY id
SELECT id + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + NULL + 1, count(*) + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + NULL, sum(id) + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 - small - 1.5 FROM items GROUP BY id, small ORDER BY id
SELECT name || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || '1' || NULL || '2', id + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 || 'a' || tag || code || 1 FROM items ORDER BY id
SELECT ARRAY[price, rate, 1], ARRAY[CASE WHEN id > 1 THEN price ELSE 1 END, 2.500]::text FROM items ORDER BY id
SELECT ARRAY[ARRAY[id, small], ARRAY[1, 2]], ARRAY[[id], [2]]::text[], ARRAY[ARRAY[id]] || ARRAY[[7]] FROM items ORDER BY id
SELECT id FROM items WHERE regexp_matches(name, 'a') IS NOT NULL
SELECT id FROM items ORDER BY CASE WHEN true THEN 1 END, 1 + 1, id
SELECT id FROM items ORDER BY NULL IS NULL, coalesce(NULL, 'x'), NOT true, date '2020-01-01' + 1, 1.5 + 1, NULL::int + 1, id
SELECT max(id) FROM items GROUP BY NULL IS NULL, 'a' || 'b', 1.5 + 1, date '2020-01-01' + 1, small > 5 ORDER BY 1
SELECT id, rank() OVER (PARTITION BY 1 + 1 ORDER BY 'a' || 'b', id) FROM items ORDER BY id
SELECT string_agg(name, ',' ORDER BY 1 = 1, id), array_agg(id ORDER BY 'a' || 'b', id) FROM items
SELECT DISTINCT ON (1 = 1) id FROM items ORDER BY 1 = 1, id
SELECT id FROM items ORDER BY 1 = 1 FETCH FIRST ROW WITH TIES
SELECT max(id) FROM items GROUP BY 1 + 1, CASE WHEN true THEN 7 END
SELECT repeat('x', 20000) = repeat('x', 10000) || repeat('x', 10000), length(repeat('ab', 20000)) FROM items WHERE id = 1
-- GROUP BY DISTINCT
SELECT name, code, count(*) FROM items GROUP BY DISTINCT ROLLUP (name, code), ROLLUP (name) ORDER BY 1, 2, 3
SELECT name, code, count(*) FROM items GROUP BY DISTINCT CUBE (name, code), name ORDER BY 1, 2, 3
SELECT name, code, grouping(name, code) FROM items GROUP BY DISTINCT GROUPING SETS ((name), (name, code), (name)) ORDER BY 1, 2, 3
SELECT name, count(*) FROM items GROUP BY ALL ROLLUP (name), ROLLUP (name) ORDER BY 1, 2
SELECT name, count(*) FROM items GROUP BY DISTINCT name ORDER BY 1
-- TABLESAMPLE
SELECT count(*) FROM items TABLESAMPLE BERNOULLI (100)
SELECT count(i.name) FROM items AS i TABLESAMPLE SYSTEM (0) REPEATABLE (1)
SELECT i.name, o.qty FROM items i TABLESAMPLE BERNOULLI (100) REPEATABLE (1.5) JOIN orders o TABLESAMPLE SYSTEM (100) ON o.item = i.id ORDER BY o.id
SELECT (SELECT count(*) FROM orders TABLESAMPLE BERNOULLI (50) REPEATABLE (7)) = (SELECT count(*) FROM orders TABLESAMPLE BERNOULLI (50) REPEATABLE (7))
SELECT count(*) FROM items TABLESAMPLE BERNOULLI (100.5)
SELECT count(*) FROM items TABLESAMPLE BERNOULLI (NULL)
SELECT count(*) FROM items TABLESAMPLE wibble (1)
WITH w AS (SELECT 1) SELECT * FROM w TABLESAMPLE SYSTEM (10)
-- rows
SELECT id FROM items WHERE (name, id) = (SELECT 'apple', 1) ORDER BY 1
SELECT id FROM items WHERE (small, id) > (SELECT small, id FROM items WHERE id = 6) ORDER BY 1
SELECT id FROM items i WHERE (name, id) = (SELECT i.name, item FROM orders o WHERE o.item = i.id AND o.id <> 2) ORDER BY 1
SELECT id FROM items WHERE (small, id) = (SELECT small, id FROM items)
SELECT id FROM items WHERE (small, id) = (SELECT small FROM items)
SELECT ROW(1, 2) IS DISTINCT FROM ROW(1, 3), (1, NULL) IS NOT DISTINCT FROM (1, NULL)
SELECT id FROM items WHERE name LIKE ANY (ARRAY['app%', '%a']) ORDER BY 1
SELECT id FROM items WHERE name NOT LIKE ALL (ARRAY['app%', '%a']) ORDER BY 1
SELECT id FROM items WHERE name ILIKE ALL ('{A%,%E}') ORDER BY 1
SELECT id FROM items i WHERE NOT EXISTS (SELECT FROM orders o WHERE o.item = i.id) ORDER BY 1
SELECT i.id, s.* FROM items i, LATERAL generate_series(1, i.id) WITH ORDINALITY AS s (x, n) WHERE i.id < 4 ORDER BY 1, 2
SELECT (date '2024-01-01', date '2024-02-01') OVERLAPS (date '2024-01-15', date '2024-03-01')
SELECT (date '2024-01-01', interval '1 month') OVERLAPS (date '2024-01-31', interval '10 days')
SELECT (date '2024-01-01', NULL) OVERLAPS (date '2024-01-01', date '2024-03-01'), (date '2024-03-01', date '2024-01-01') OVERLAPS (date '2024-02-01', date '2024-02-01')
SELECT id, (born, seen) OVERLAPS (timestamp '2000-01-01', timestamp '2022-01-01') FROM items ORDER BY id
SELECT (1, 2) OVERLAPS (3, 4)
SELECT sum(10 / id) FILTER (WHERE id > 0), avg(1.5 / (id - 1)) FILTER (WHERE id > 1), max(1e0 / (id - 2)) FILTER (WHERE id <> 2), count(1 / (id - 3)) FILTER (WHERE id > 3) FROM items
SELECT id, sum(10 / (id - 1)) FILTER (WHERE id > 1) OVER (ORDER BY id) FROM items ORDER BY id
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1e0 / (id - 1)) FILTER (WHERE id > 1) FROM items
SELECT string_agg((10 / (id - 1))::text, '-' ORDER BY id) FILTER (WHERE id > 1) FROM items
SELECT min(10 / (id - 1)) FILTER (WHERE id > 1), count(*) FILTER (WHERE id > 1) FROM items WHERE id IN (1, 2, 3)
SELECT sum(10 / (id - 1)) FILTER (WHERE id > 0) FROM items
SELECT string_agg(name, '-' ORDER BY 10 / (id - 1), id) FILTER (WHERE id > 1) FROM items
SELECT array_agg(DISTINCT 10 / (id - 1) ORDER BY 10 / (id - 1) DESC) FILTER (WHERE id > 1) FROM items
SELECT array_agg(id ORDER BY 10.5 / (id - 1)) FILTER (WHERE id > 1) FROM items
SELECT count(*) FILTER (WHERE sum(id) > 1) FROM items
SELECT count(*) FILTER (WHERE row_number() OVER () > 1) FROM items
SELECT rank() FILTER (WHERE true) OVER () FROM items
-- texts of rows
SELECT items::text FROM items ORDER BY id
SELECT id, (name, code, tag, active, at)::text FROM items ORDER BY id
SELECT count(DISTINCT ROW(i.*, o.qty)::text) FROM items i JOIN orders o ON o.item = i.id
SELECT i.id, o::text FROM items i LEFT JOIN orders o ON o.item = i.id ORDER BY i.id, o.id
SELECT (o).*, i.name FROM items i JOIN orders o ON o.item = i.id ORDER BY o.id
SELECT i.id FROM items i LEFT JOIN orders o ON o.item = i.id WHERE o IS NULL ORDER BY 1
SELECT json_each('{"a": 1, "b": "x y", "c": "", "d": null, "e": "\\(\""}')::text
SELECT jsonb_each_text('{"a": "x y", "b": "", "c": null, "d": "\\q,"}')::text
-- arrays of queries
SELECT ARRAY[(SELECT id FROM items WHERE false)], ARRAY(SELECT id FROM items WHERE false)
SELECT ARRAY[(SELECT id FROM items)]
SELECT id, ARRAY[(SELECT o.qty FROM orders o WHERE o.id = i.id)] FROM items i ORDER BY id
SELECT id, ARRAY(VALUES (i.id), (NULL), (i.id + 1)) FROM items i ORDER BY id
SELECT id FROM items WHERE id = ANY (ARRAY(VALUES (1), (3))) ORDER BY id
-- json has neither an order nor equality
SELECT doc FROM items ORDER BY doc
SELECT id FROM items ORDER BY doc DESC
SELECT doc AS d FROM items ORDER BY d
SELECT doc FROM items ORDER BY 1
SELECT id FROM items ORDER BY array[doc]
SELECT id FROM items ORDER BY doc::text, id
SELECT DISTINCT doc FROM items
SELECT DISTINCT ON (doc) id FROM items
SELECT count(*) FROM items GROUP BY doc
SELECT count(*) FROM items GROUP BY GROUPING SETS ((doc), (id))
SELECT count(DISTINCT doc) FROM items
SELECT array_agg(id ORDER BY doc) FROM items
SELECT row_number() OVER (ORDER BY doc) FROM items
SELECT row_number() OVER (PARTITION BY doc) FROM items
SELECT doc FROM items UNION SELECT doc FROM items
SELECT doc FROM items EXCEPT ALL SELECT doc FROM items
SELECT doc FROM items UNION ALL SELECT doc FROM items
(SELECT doc FROM items) UNION ALL SELECT doc FROM items ORDER BY doc
WITH RECURSIVE r AS (SELECT doc FROM items UNION SELECT doc FROM r) SELECT * FROM r
SELECT array_agg(pg_typeof(j)::text) FROM (SELECT json_each('{"a":1}')) AS s (j)
SELECT '{}'::int[][] || ARRAY[1]
