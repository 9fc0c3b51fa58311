"""The real psql through a script of what people do in it: what it prints is what it prints of PostgreSQL.

The tables that ``\\d`` shows are also looked at, command by command, in the tests of the catalog.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from tests.server.postgres_tools import psql
from tests.support.server_process import RunningServer

SCRIPT = r"""
CREATE TABLE fruit (id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(8,2) DEFAULT 1.50,
  CHECK (id > 0));
CREATE INDEX fruit_price ON fruit (price, name);
COPY fruit (id, name, price) FROM stdin;
1	apple	0.25
2	pear	\N
3	fig\tor date	3.00
\.
COPY fruit FROM stdin WITH (FORMAT csv, HEADER);
id,name,price
4,"a ""quoted"", one",9.99
5,plum,
\.
COPY fruit TO stdout WITH (FORMAT csv, HEADER, FORCE_QUOTE (name));
COPY (SELECT name, price FROM fruit WHERE price IS NOT NULL ORDER BY id DESC) TO stdout;
\copy fruit TO 'fruit.csv' csv
BEGIN;
DELETE FROM fruit;
\copy fruit FROM 'fruit.csv' csv
SELECT count(*) FROM fruit;
ROLLBACK;
\echo :ROW_COUNT :LAST_ERROR_SQLSTATE
\d
\dt
\di
\d fruit
\d+ fruit
\du
\set name apple
SELECT :'name' AS given, price FROM fruit WHERE name = :'name';
SELECT id, name FROM fruit ORDER BY id LIMIT 2 \g (format=unaligned)
SELECT 1 AS a, 2 AS b \gset p_
\echo :p_a :p_b
SELECT 'SELECT ' || i FROM generate_series(1, 3) AS g(i) \gexec
SELECT id, name, price FROM fruit \gdesc
\x on
SELECT * FROM fruit WHERE id = 1;
\x off
SELECT id, name, price FROM fruit ORDER BY 1 \crosstabview id name price
SELECT 1/0;
\echo :SQLSTATE :ERROR
INSERT INTO fruit VALUES (1, 'apple');
SELEC 1;
COPY fruit FROM stdin;
9
\.
\set FETCH_COUNT 2
SELECT id FROM fruit ORDER BY id;
\unset FETCH_COUNT
\set AUTOCOMMIT off
UPDATE fruit SET price = 2 WHERE id = 1;
ROLLBACK;
\set AUTOCOMMIT on
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO fruit VALUES (20, 'kiwi');
INSERT INTO fruit VALUES (20, 'again');
SELECT name FROM fruit WHERE id = 20;
COMMIT;
\sf nosuch
"""

COPIED = """id,name,price
1,"apple",0.25
2,"pear",
3,"fig\tor date",3.00
4,"a ""quoted"", one",9.99
5,"plum",
"""


PARTITIONED = r"""
CREATE SCHEMA old;
CREATE TABLE event (id int, at timestamptz, kind text NOT NULL, CHECK (id > 0), PRIMARY KEY (at, id))
  PARTITION BY RANGE (at);
CREATE INDEX event_kind ON event (kind);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM (MINVALUE) TO ('2026-01-01 00:00+00');
CREATE TABLE old.event_2 PARTITION OF event
  FOR VALUES FROM ('2026-01-01 00:00+00') TO ('2026-02-01 00:00+00');
CREATE TABLE event_rest PARTITION OF event DEFAULT;
CREATE TABLE place (country text, city text) PARTITION BY LIST (country);
CREATE TABLE place_north PARTITION OF place FOR VALUES IN ('NO', 'SE', NULL);
CREATE TABLE share (id bigint PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE share_0 PARTITION OF share FOR VALUES WITH (MODULUS 2, REMAINDER 0);
SET timezone = 'UTC';
\d event
\d event_1
\d old.event_2
\d event_rest
\d place
\d place_north
\d share
\d share_0
\dt event*
ALTER TABLE event DETACH PARTITION event_1;
\d event
\d event_1
ALTER TABLE event ATTACH PARTITION event_1 FOR VALUES FROM (MINVALUE) TO ('2026-01-01 00:00+00');
SELECT * FROM pg_partition_ancestors('event_1') AS chain;
SELECT relid FROM pg_partition_ancestors('event_1_pkey');
SELECT pg_partition_ancestors('old.event_2') UNION ALL SELECT pg_partition_ancestors('share') ORDER BY 1;
SELECT count(*) FROM pg_partition_ancestors('pg_class');
DROP TABLE event, place, share;
DROP SCHEMA old;
"""


def compare(server: RunningServer, postgres: str, script: str, cwd: Path) -> str:
    """Both print the same of a script; what that is."""
    host = dict(part.split("=") for part in postgres.split())["host"]
    ours = psql(server.port, script, "-a", cwd=cwd)
    with psycopg.connect(postgres, autocommit=True) as connection:  # other tests leave tables in theirs
        connection.execute("CREATE DATABASE tools_psql TEMPLATE template0")
        peer = psql(5432, script, "-a", cwd=cwd, host=host, database="tools_psql")
        connection.execute("DROP DATABASE tools_psql WITH (FORCE)")
    import pathlib

    pathlib.Path("/tmp/h/reads_peer").write_text(peer.stdout + "=====" + peer.stderr)
    assert ours.stdout == peer.stdout
    assert ours.stderr == peer.stderr
    assert ours.returncode == peer.returncode == 0
    return peer.stdout


def test_a_script_prints_what_it_prints_of_postgres(
    shared_server: RunningServer, postgres: str, tmp_path: Path
) -> None:
    shown = compare(shared_server, postgres, SCRIPT, tmp_path)
    assert COPIED in shown
    assert 'Indexes:\n    "fruit_pkey" PRIMARY KEY, btree (id)' in shown


def test_partitions_are_shown_as_they_are_of_postgres(
    shared_server: RunningServer, postgres: str, tmp_path: Path
) -> None:
    shown = compare(shared_server, postgres, PARTITIONED, tmp_path)
    assert "Number of partitions: 3 (Use \\d+ to list them.)" in shown
    assert "Partition of: place FOR VALUES IN ('NO', 'SE', NULL)" in shown


def test_a_failing_script_stops(shared_server: RunningServer, tmp_path: Path) -> None:
    script = "CREATE TABLE stops (id int PRIMARY KEY);\nSELECT 1/0;\nINSERT INTO stops VALUES (1);\n"
    done = psql(shared_server.port, script, "-1", "-v", "ON_ERROR_STOP=1", "-f", "-", cwd=tmp_path)
    assert done.returncode == 3
    assert "ERROR:  division by zero" in done.stderr
    after = psql(shared_server.port, "SELECT * FROM stops", cwd=tmp_path)
    assert 'relation "stops" does not exist' in after.stderr


def test_lists_databases_and_users(shared_server: RunningServer, tmp_path: Path) -> None:
    shown = psql(shared_server.port, "\\l\n\\du\n\\conninfo\n", "-A", "-t", cwd=tmp_path)
    assert shown.stderr == ""
    databases, roles = (
        [line.split("|")[0] for line in shown.stdout.splitlines() if re.match(pattern, line)]
        for pattern in (r"\w+\|\w+\|UTF8\|", r"\w+\|Superuser")
    )
    assert "test" in databases
    assert roles == ["herdpy"]
    greeting = 'You are connected to database "test" as user "herdpy" on host "127.0.0.1" at port'
    assert f'{greeting} "{shared_server.port}".' in shown.stdout
