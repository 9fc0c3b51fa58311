"""INET, CIDR, MACADDR8 and bit strings: order, keys and doors. Expressions of them are in expressions.txt."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface, ip_address, ip_interface, ip_network
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import herdpy
from herdpy.codec.keys import KeyCodec, KeyField
from herdpy.formats import NEWEST_LEVEL
from herdpy_server.store import definitions
from herdpy_sql.types import CIDR, INET, MACADDR8, VARBIT
from herdpy_sql.values import from_text, to_text

NAMED = {"inet": INET, "cidr": CIDR, "macaddr8": MACADDR8, "varbit": VARBIT}


def _drawn(name: str, random: Random) -> str:
    """A text of the type; close to others, for most prefixes are."""
    if name == "varbit":
        return "".join(random.choice("001") for _ in range(random.choice((0, 1, 3, 7, 8, 9, 16, 17))))
    if name == "macaddr8":
        return bytes(random.choice((0, 8, 255)) for _ in range(8)).hex(":")
    width = random.choice((32, 128))
    bits = random.choice((0, 1, 7, 8, 9, 24, 31, width - 1, width))
    address = random.choice((0, 1 << (width - 1), 10 << (width - 8), random.getrandbits(width)))
    address ^= random.choice((0, 1, 1 << 8, 1 << (width - 9)))
    shown = ip_address(address) if width == 32 else ip_address(address.to_bytes(16))
    if name == "cidr":
        return str(ip_network((str(shown), bits), strict=False))
    return f"{shown}/{bits}"


@pytest.mark.parametrize("name", NAMED)
def test_datums_and_keys_sort_as_in_postgresql(name: str, postgres: str) -> None:
    random, sql_type = Random(5), NAMED[name]
    texts = [_drawn(name, random) for _ in range(400)]
    with psycopg.connect(postgres, autocommit=True) as theirs:
        rows = theirs.execute(
            f"SELECT v::{name}::text, rank() OVER (ORDER BY v::{name}) FROM unnest(%s::text[]) v", (texts,)
        ).fetchall()
    read = from_text(sql_type)
    codec = KeyCodec([KeyField(sql_type.kind)])
    assert len({rank for _, rank in rows}) > 100
    for order in (lambda text: read(text), lambda text: codec.encode((read(text),))):
        ours = sorted({order(text) for text, _ in rows})
        ranks = sorted({rank for _, rank in rows})
        assert {text: ranks[ours.index(order(text))] for text, _ in rows} == dict(rows)


@pytest.mark.parametrize("name", NAMED)
def test_every_value_reads_its_own_text(name: str) -> None:
    random, sql_type = Random(6), NAMED[name]
    for _ in range(500):
        datum = from_text(sql_type)(_drawn(name, random))
        assert from_text(sql_type)(to_text(sql_type)(datum)) == datum


@pytest.fixture
def own(tmp_path: Any) -> Iterator[Any]:
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a inet, n cidr[], m macaddr8)")
        yield connection


def test_arrow_columns_are_text(own: Any) -> None:
    data = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "a": pa.array(["10.0.0.7/24", None]).dictionary_encode(),
            "n": pa.array([["10", None], []], pa.list_(pa.string())),
            "m": ["08002b010203", None],
        }
    )
    assert own.cursor().adbc_ingest("t", data, mode="append") == 2
    for question in ("SELECT * FROM t ORDER BY id", "SELECT * FROM t WHERE id + 0 > 0 ORDER BY 1"):
        assert own.execute(question).fetch_arrow_table().to_pydict() == {
            "id": [1, 2],
            "a": ["10.0.0.7/24", None],
            "n": [["10.0.0.0/8", None], []],
            "m": ["08:00:2b:ff:fe:01:02:03", None],
        }
    assert own.execute("SELECT a FROM t WHERE id = 1").fetchall() == [(IPv4Interface("10.0.0.7/24"),)]


@pytest.mark.parametrize("given", [pa.array([b"\x04abcd"]), pa.array([7]), pa.array(["::g"])])
def test_arrow_columns_of_anything_else_are_refused(own: Any, given: pa.Array) -> None:
    with pytest.raises(herdpy.DataError):
        own.cursor().adbc_ingest("t", pa.table({"id": pa.array([1], pa.int32()), "a": given}), mode="append")
    assert own.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_columns_need_a_finished_upgrade(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "TYPES_LEVEL", NEWEST_LEVEL + 1)
    for sql in (
        "CREATE TABLE u (a inet)",
        "CREATE TABLE u (a cidr[])",
        "ALTER TABLE t ADD b macaddr8",
        "CREATE TABLE u (a bit)",
    ):
        with pytest.raises(herdpy.NotSupportedError, match="before the upgrade of this database is finished"):
            own.execute(sql)


ROW = (
    1,
    ip_interface("10:23::f1/64"),
    [ip_network("10.0.0.0/8"), None],
    "08:00:2b:01:02:03:04:05",
    "110011010",
    ["", None, "1"],
)

COLUMNS = "id, a, n, m::text, b::text, v::text[]"


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_the_wire_has_them(server: Any, form: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as client:
        client.execute("DROP TABLE IF EXISTS t")
        client.execute(
            "CREATE TABLE t (id int PRIMARY KEY, a inet, n cidr[], m macaddr8, b bit(9), v varbit[])"
        )
        cursor = client.cursor(binary=form == "binary")
        cursor.execute("INSERT INTO t VALUES (%b, %b, %b, %s, %s, %t)", ROW)
        for question in ("WHERE id = 1", "WHERE id + 0 = 1", "WHERE a >>= '10:23::1'"):
            found = cursor.execute(f"SELECT {COLUMNS} FROM t {question}")
            assert [column.type_code for column in found.description or ()] == [23, 869, 651, 25, 25, 1009]
            assert found.fetchall() == [ROW]
        with client.cursor().copy(f"COPY t TO STDOUT (FORMAT {form})") as copy:
            data = b"".join(bytes(piece) for piece in copy)
        client.execute("DELETE FROM t")
        with client.cursor().copy(f"COPY t FROM STDIN (FORMAT {form})") as copy:
            copy.write(data)
        assert client.execute(f"SELECT {COLUMNS} FROM t").fetchall() == [ROW]
        client.execute("DROP TABLE t")
        assert client.execute("SELECT inet_client_addr()").fetchall() == [(ip_address("127.0.0.1"),)]
