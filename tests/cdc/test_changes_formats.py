"""What a message is in each format, for every type, moved rows, deletes, truncation and new columns."""

from __future__ import annotations

import base64
import datetime as dt
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from struct import unpack
from typing import Any

import fastavro
import pytest

DAYS = (dt.date(2026, 3, 1) - dt.date(1970, 1, 1)).days
MICROSECONDS = (DAYS * 24 + 8) * 3_600_000_000 + 500_000
TYPES = (
    "id INT PRIMARY KEY, b BOOL, s SMALLINT, l BIGINT, r REAL, d FLOAT8, n NUMERIC(30,4), m NUMERIC, x TEXT,"
    " c CHAR(4), y BYTEA, o DATE, t TIME, p TIMESTAMP, z TIMESTAMPTZ, u UUID, j JSONB, i INTERVAL, e mood,"
    " a INT[], aa TEXT[], v VECTOR(2), du UUID[], dn NUMERIC(9,2)[]"
)
UUID_TEXT = "6d0a6b4c-0000-0000-0000-000000000001"
ROW = (
    "(1, true, -3, 9007199254740993, 1.5, 'NaN', 12345678901234567890.5, 1.50, 'ä\"', 'ab', '\\x00ff',"
    " '2026-03-01', '24:00', '2026-03-01 08:00:00.5', '2026-03-01 08:00:00+02', "
    f"'{UUID_TEXT}', '{{\"k\": 1}}', '1 day 02:00:00', 'sad', '{{1,NULL}}', '{{a,b}}', '[1,2.5]',"
    f" '{{{UUID_TEXT}}}', '{{1.25}}')"
)
SHARED = {
    "id": 1, "b": True, "s": -3, "l": 9007199254740993, "r": 1.5, "m": "1.50", "x": 'ä"', "u": UUID_TEXT,
    "j": '{"k": 1}', "i": "1 day 02:00:00", "e": "sad", "a": [1, None], "aa": ["a", "b"], "v": [1.0, 2.5],
    "du": [UUID_TEXT],
}  # fmt: skip


@pytest.fixture
def typed(sql):
    sql(
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        f"CREATE TABLE t ({TYPES})",
        f"INSERT INTO t VALUES {ROW}",
    )


def test_values_of_every_type_in_json(typed, changes):
    create, insert = changes.lines("--table", "t")
    assert (create["op"], insert["op"], insert["key"], insert["lsn"]) == (
        "create",
        "insert",
        {"id": 1},
        "1:2",
    )
    assert insert["after"] == SHARED | {
        "d": "NaN",
        "n": "12345678901234567890.5000",
        "c": "ab",
        "y": "AP8=",
        "o": "2026-03-01",
        "t": "24:00:00.000000",
        "p": "2026-03-01T08:00:00.500000",
        "z": "2026-03-01T06:00:00.000000Z",
        "dn": ["1.25"],
    }
    assert dt.datetime.fromisoformat(insert["commit_time"]).tzinfo is not None


def test_values_of_every_type_as_debezium_has_them(typed, changes):
    (line,) = changes.lines("--table", "t", "--format", "debezium")
    assert line["key"] == {"id": 1}
    assert line["value"]["after"] == SHARED | {
        "d": "NaN",
        "n": "12345678901234567890.5000",
        "c": "ab",
        "y": "AP8=",
        "o": DAYS,
        "t": 86_400_000_000,
        "p": MICROSECONDS,
        "z": "2026-03-01T06:00:00.000000Z",
        "dn": ["1.25"],
    }
    source, transaction = line["value"]["source"], line["value"]["transaction"]
    assert (source["db"], source["schema"], source["table"], source["lsn"]) == (
        "herdpy",
        "public",
        "t",
        "1:2",
    )
    assert transaction == {"id": "1:2/0", "total_order": 1, "data_collection_order": 1}


def test_infinite_times_are_words(sql, changes):
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, o DATE, p TIMESTAMP, z TIMESTAMPTZ)",
        "INSERT INTO t VALUES (1, 'infinity', '-infinity', 'infinity'), (2, '-infinity', 'infinity', NULL)",
    )
    rows = [change["after"] for change in changes.lines("--table", "t")[1:]]
    assert rows == [
        {"id": 1, "o": "infinity", "p": "-infinity", "z": "infinity"},
        {"id": 2, "o": "-infinity", "p": "infinity", "z": None},
    ]


def test_lists_that_are_null_or_empty(sql, changes):
    sql("CREATE TABLE t (id INT PRIMARY KEY, a INT[], du UUID[])")
    lists = [(1, [1, None], [UUID_TEXT]), (2, None, None), (3, [], []), (4, [2, 3], None), (5, None, [None])]
    sql(
        f"INSERT INTO t VALUES (1, '{{1,NULL}}', '{{{UUID_TEXT}}}'), (2, NULL, NULL), (3, '{{}}', '{{}}'),"
        " (4, '{2,3}', NULL), (5, NULL, '{NULL}')"
    )
    rows = [tuple(change["after"].values()) for change in changes.lines("--table", "t")[1:]]
    assert rows == lists


def test_what_happens_to_rows_as_debezium_has_it(sql, changes):
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 1",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "DELETE FROM t WHERE id = 2",
        "TRUNCATE t",
        "ALTER TABLE t ADD COLUMN w INT",
        "INSERT INTO t VALUES (4, 'd', 5)",
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY)",
    )
    lines = changes.lines("--table", "t", "--format", "debezium")
    found = [(line["key"], line["value"] and line["value"]["op"], line.get("headers")) for line in lines]
    one, two, three = {"id": 1}, {"id": 2}, {"id": 3}
    assert found == [
        (one, "c", None),
        (two, "c", None),
        (one, "u", None),
        (one, "d", {"__debezium.newkey": three}),
        (one, None, None),
        (three, "c", {"__debezium.oldkey": one}),
        (two, "d", None),
        (two, None, None),
        (None, "t", None),
        ({"id": 4}, "c", None),
        (None, "t", None),
    ]
    images = [(line["value"]["before"], line["value"]["after"]) for line in lines if line["value"]]
    assert images[3:6] == [
        ({"id": 1, "v": None}, None),
        (None, {"id": 3, "v": "c"}),
        ({"id": 2, "v": "b"}, None),
    ]
    assert images[-2] == (None, {"id": 4, "v": "d", "w": 5})


class Registry(BaseHTTPRequestHandler):
    """What a schema registry does with new schemas; ``server.refuse``: it finds them incompatible."""

    server: Any

    def do_POST(self) -> None:
        assert self.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["schemaType"] == "AVRO"
        subject = self.path.split("/")[2]
        if self.server.refuse:
            code, answer = 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        else:
            known = self.server.schemas
            known.setdefault(asked["schema"], (len(known) + 1, subject))
            code, answer = 200, {"id": known[asked["schema"]][0]}
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        server.schemas, server.refuse = {}, False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def decoded(registry, data):
    """A message's value, by the schema that its id names."""
    magic, number = unpack(">bI", data[:5])
    assert magic == 0
    ((text, _),) = [(text, one) for text, one in registry.schemas.items() if one[0] == number]
    return fastavro.schemaless_reader(BytesIO(data[5:]), fastavro.parse_schema(json.loads(text)))


def avro_lines(changes, registry, *arguments):
    url = f"http://127.0.0.1:{registry.server_port}"
    return changes.lines("--table", "t", "--format", "avro", "--registry", url, *arguments)


def test_values_of_every_type_in_avro(typed, changes, registry):
    (line,) = avro_lines(changes, registry)
    assert decoded(registry, base64.b64decode(line["key"])) == {"id": 1}
    event = decoded(registry, base64.b64decode(line["value"]))
    assert str(event["after"].pop("d")) == "nan"
    assert event["after"] == SHARED | {
        "n": Decimal("12345678901234567890.5000"),
        "c": "ab",
        "y": b"\0\xff",
        "o": DAYS,
        "t": 86_400_000_000,
        "p": MICROSECONDS,
        "z": "2026-03-01T06:00:00.000000Z",
        "dn": [Decimal("1.25")],
    }
    assert (event["op"], event["before"], event["source"]["table"]) == ("c", None, "t")
    subjects = {subject for _, subject in registry.schemas.values()}
    assert subjects == {"herdpy.public.t-key", "herdpy.public.t-value"}


def test_a_new_column_is_a_new_schema(sql, changes, registry):
    sql(
        'CREATE TABLE t (id INT PRIMARY KEY, "a b" TEXT)',
        "INSERT INTO t VALUES (1, 'x')",
        "ALTER TABLE t ADD COLUMN w INT DEFAULT 5",
        "UPDATE t SET id = 2",
        "DELETE FROM t",
    )
    lines = avro_lines(changes, registry, "--name", "shop")
    events = [decoded(registry, base64.b64decode(line["value"])) for line in lines if line["value"]]
    assert [event["op"] for event in events] == ["c", "d", "c", "d"]
    assert events[0]["after"] == {"id": 1, "a_b": "x"}
    assert events[2]["after"] == {"id": 2, "a_b": "x", "w": 5}
    moved = {name: decoded(registry, base64.b64decode(value)) for name, value in lines[1]["headers"].items()}
    assert moved == {"__debezium.newkey": {"id": 2}}
    assert {subject for _, subject in registry.schemas.values()} == {
        "shop.public.t-key",
        "shop.public.t-value",
    }
    assert len(registry.schemas) == 3


def test_a_schema_that_the_registry_refuses_ends_the_run(typed, changes, registry):
    registry.refuse = True
    url = f"http://127.0.0.1:{registry.server_port}"
    said = changes.run("--table", "t", "--format", "avro", "--registry", url, code=1)
    assert "refuses the schema (409)" in said
    assert "incompatible" in said


def test_columns_that_are_one_in_avro_are_refused(sql, changes, registry):
    sql('CREATE TABLE t (id INT PRIMARY KEY, "a b" TEXT, a_b TEXT)', "INSERT INTO t VALUES (1)")
    url = f"http://127.0.0.1:{registry.server_port}"
    said = changes.run("--table", "t", "--format", "avro", "--registry", url, code=1)
    assert "the same names in Avro" in said
