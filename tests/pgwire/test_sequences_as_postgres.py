"""The same messages sent to HerdPy and to PostgreSQL: the same messages come back, in the same order.

Compared are types of messages, SQLSTATE and severity of errors, transaction status, command tags, descriptions
and rows. Each sequence has a connection of its own, and fresh tables.
"""

from __future__ import annotations

import struct
from typing import Any

import psycopg
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import (
    COPY_DONE,
    FLUSH,
    SYNC,
    TERMINATE,
    Wire,
    bind,
    close,
    copy_data,
    copy_fail,
    describe,
    execute,
    message,
    parse,
    query,
    text,
)

TABLES = (
    "DROP TABLE IF EXISTS w",
    "CREATE TABLE w (a int PRIMARY KEY, b text, c numeric(10,2))",
    "INSERT INTO w VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3)",
)
INT = 23
ONE, TWO = struct.pack(">i", 1), struct.pack(">i", 2)
KEY = "SELECT a, b FROM w WHERE a = $1"
ALL = "SELECT a FROM w ORDER BY a"
INSERT = "INSERT INTO w VALUES ($1, $2, NULL)"
# PostgreSQL finds 1/0 when it plans; and of a SELECT it has described the rows before it fails.
BAD = "UPDATE w SET b = 'x' WHERE 1 / (a - a) = 1"
RUN = bind() + describe() + execute()


def once(sql: str) -> bytes:
    return parse(sql) + RUN


SEQUENCES: dict[str, list[bytes]] = {
    # simple
    "simple select": [query("SELECT 1 AS one, 'x'::text AS two")],
    "simple empty": [query("")],
    "simple blanks": [query("  \n ")],
    "simple semicolons": [query(";;")],
    "simple comment": [query("-- nothing\n")],
    "simple several": [query("SELECT 1; SELECT 2; SELECT a FROM w ORDER BY a")],
    "simple syntax error": [query("SELEC 1"), query("SELECT 1")],
    "simple error stops": [query(f"SELECT 1; {BAD}; SELECT 2"), query("SELECT 3")],
    "simple error undoes": [query("INSERT INTO w VALUES (9); SELECT 1/0"), query("SELECT count(*) FROM w")],
    "simple insert": [query("INSERT INTO w VALUES (7, 'x', 1)"), query(ALL)],
    "simple update": [query("UPDATE w SET b = 'x' WHERE a > 1"), query("DELETE FROM w")],
    "simple duplicate key": [query("INSERT INTO w VALUES (1)")],
    "simple not null": [query("INSERT INTO w (b) VALUES ('x')")],
    "simple no table": [query("SELECT * FROM nothing")],
    "simple no column": [query("SELECT nothing FROM w")],
    "simple parameter": [query("SELECT a FROM w WHERE a = $1")],
    "simple begin commit": [query("BEGIN"), query("SELECT 1"), query("COMMIT")],
    "simple begin twice": [query("BEGIN"), query("BEGIN"), query("ROLLBACK")],
    "simple commit alone": [query("COMMIT"), query("ROLLBACK")],
    "simple failed transaction": [query("BEGIN"), query(BAD), query("SELECT 1"), query("COMMIT")],
    "simple failed rollback": [query("BEGIN"), query(BAD), query("ROLLBACK"), query("SELECT 1")],
    "simple savepoint": [
        query("BEGIN; SAVEPOINT s"), query(BAD), query("ROLLBACK TO s"), query("SELECT 1"), query("COMMIT"),
    ],
    "simple savepoint outside": [query("SAVEPOINT s")],
    "simple begin in the middle": [query("INSERT INTO w VALUES (8); BEGIN; SELECT 1"), query("ROLLBACK"), query(ALL)],
    "simple commit in the middle": [query("INSERT INTO w VALUES (8); COMMIT; SELECT 1/0"), query(ALL)],
    "simple returning": [query("INSERT INTO w VALUES (8) RETURNING a, b")],
    "simple create drop": [query("CREATE TABLE w2 (a int)"), query("DROP TABLE w2"), query("DROP TABLE w2")],
    "simple no rows": [query("SELECT a FROM w WHERE a = 100")],
    "simple null": [query("SELECT b FROM w WHERE a = 3")],
    "simple not utf-8": [message("Q", b"SELECT '\xff'\0"), query("SELECT 1")],
    "simple without its end": [message("Q", b"SELECT 1"), query("SELECT 1")],
    "simple with more": [message("Q", b"SELECT 1\0x"), query("SELECT 1")],
    # extended
    "extended select": [once("SELECT 1 AS one"), SYNC],
    "extended parameter": [parse(KEY), bind([b"1"]), describe(), execute(), SYNC],
    "extended describe statement": [parse(KEY, "s"), describe("S", "s"), SYNC],
    "extended describe insert": [parse(INSERT, "s"), describe("S", "s"), SYNC],
    "extended declared": [parse("SELECT $1 AS x", "s", [INT]), describe("S", "s"), bind([b"5"], statement="s"), execute(), SYNC],
    "extended undeclared text": [parse("SELECT $1 AS x", "s"), describe("S", "s"), SYNC],
    "extended binary parameter": [parse(KEY), bind([ONE], formats=[1]), execute(), SYNC],
    "extended binary result": [parse(KEY), bind([b"1"], results=[1]), describe(), execute(), SYNC],
    "extended mixed results": [parse(KEY), bind([b"1"], results=[1, 0]), describe(), execute(), SYNC],
    "extended null parameter": [parse(KEY), bind([None]), execute(), SYNC],
    "extended insert": [parse(INSERT), bind([b"9", b"nine"]), describe(), execute(), SYNC, query(ALL)],
    "extended empty": [once(""), SYNC],
    "extended two texts": [parse("SELECT 1; SELECT 2"), SYNC],
    "extended syntax error": [parse("SELEC"), RUN, SYNC, query("SELECT 1")],
    "extended unknown statement": [bind(statement="nothing"), execute(), SYNC],
    "extended unnamed not there": [bind(), SYNC],
    "extended unknown portal": [execute("nothing"), SYNC],
    "extended describe nothing": [describe("S", "nothing"), SYNC, describe("P", "nothing"), SYNC],
    "extended describe nonsense": [message("D", b"X\0"), SYNC],
    "extended close nonsense": [message("C", b"X\0"), SYNC],
    "extended close nothing": [close("S", "nothing"), close("P", "nothing"), SYNC],
    "extended close statement": [parse(ALL, "s"), close("S", "s"), bind(statement="s"), SYNC],
    "extended close portal": [parse(ALL), bind(portal="p"), close("P", "p"), execute("p"), SYNC],
    "extended statement twice": [parse(ALL, "s"), SYNC, parse(ALL, "s"), SYNC],
    "extended portal twice": [parse(ALL), bind(portal="p"), bind(portal="p"), SYNC],
    "extended unnamed twice": [parse(ALL), parse(KEY), bind([b"1"]), bind([b"2"]), execute(), SYNC],
    "extended too few values": [parse(KEY), bind(), SYNC],
    "extended too many values": [parse(KEY), bind([b"1", b"2"]), SYNC],
    "extended too many formats": [parse(KEY), bind([b"1"], formats=[0, 0]), SYNC],
    "extended unknown format": [parse(KEY), bind([b"1"], formats=[7]), SYNC],
    "extended wrong result formats": [parse(KEY), bind([b"1"], results=[0, 0, 0]), execute(), SYNC],
    "extended unknown result format": [parse(KEY), bind([b"1"], results=[7]), execute(), SYNC],
    "extended bad value": [parse(KEY), bind([b"one"]), execute(), SYNC],
    "extended bad binary": [parse(KEY), bind([b"\0\0"], formats=[1]), execute(), SYNC],
    "extended long binary": [parse(KEY), bind([b"\0" * 5], formats=[1]), execute(), SYNC],
    "extended not utf-8": [parse("SELECT $1::text"), bind([b"\xff"]), execute(), SYNC],
    "extended execute twice": [parse(ALL), bind(), execute(), execute(), SYNC],
    "extended insert twice": [parse(INSERT), bind([b"9", None]), execute(), execute(), SYNC],
    "extended rows": [parse(ALL), bind(), execute(rows=2), execute(rows=2), execute(rows=2), SYNC],
    "extended rows exactly": [parse(ALL), bind(), execute(rows=3), execute(rows=3), SYNC],
    "extended rows negative": [parse(ALL), bind(), execute(rows=-1), SYNC],
    "extended portal over sync": [parse(ALL), bind(portal="p"), execute("p", 1), SYNC, execute("p", 1), SYNC],
    "extended portal in transaction": [
        query("BEGIN"), parse(ALL), bind(portal="p"), execute("p", 1), SYNC, execute("p", 1), SYNC, query("COMMIT"),
        execute("p", 1), SYNC,
    ],
    "extended portal after sync": [parse(ALL), bind(), SYNC, execute(), SYNC],
    "extended statement after sync": [parse(ALL, "s"), SYNC, bind(statement="s"), execute(), SYNC],
    "extended after simple": [parse(ALL), query("SELECT 1"), bind(), SYNC],
    "extended error skips": [parse(ALL), bind(), execute(), execute("x"), once("SELECT 1"), query("SELECT 2"), SYNC, query("SELECT 3")],
    "extended error at run": [once(BAD), once("SELECT 1"), SYNC, once("SELECT 2"), SYNC],
    "extended two syncs": [SYNC, SYNC],
    "extended flush": [parse(ALL), FLUSH, bind(), FLUSH, execute(), FLUSH, SYNC],
    "extended pipeline undone": [
        parse(INSERT, "i"), bind([b"8", None], statement="i"), execute(), bind([b"8", None], statement="i"), execute(),
        SYNC, query(ALL),
    ],
    "extended pipeline kept": [
        parse(INSERT, "i"), bind([b"8", None], statement="i"), execute(), SYNC, bind([b"8", None], statement="i"),
        execute(), SYNC, query(ALL),
    ],
    "extended begin": [once("BEGIN"), once(ALL), SYNC, once("COMMIT"), SYNC],
    "extended begin in pipeline": [parse(INSERT), bind([b"8", None]), execute(), once("BEGIN"), SYNC, query("ROLLBACK"), query(ALL)],
    "extended commit in pipeline": [parse(INSERT), bind([b"8", None]), execute(), once("COMMIT"), once(BAD), SYNC, query(ALL)],
    "extended failed parse": [query("BEGIN"), query(BAD), parse(ALL), SYNC, query("ROLLBACK")],
    "extended failed bind": [parse(ALL, "s"), SYNC, query("BEGIN"), query(BAD), bind(statement="s"), SYNC, query("ROLLBACK")],
    "extended failed bind of value": [parse(KEY, "s"), SYNC, query("BEGIN"), query(BAD), bind([b"x"], statement="s"), SYNC],
    "extended failed describe": [parse(ALL, "s"), SYNC, query("BEGIN"), query(BAD), describe("S", "s"), SYNC],
    "extended failed describe of insert": [parse(INSERT, "s"), SYNC, query("BEGIN"), query(BAD), describe("S", "s"), SYNC],
    "extended failed commit": [query("BEGIN"), query(BAD), once("COMMIT"), SYNC],
    "extended failed rollback": [parse("ROLLBACK", "r"), SYNC, query("BEGIN"), query(BAD), bind(statement="r"), execute(), SYNC],
    "extended failed execute": [query("BEGIN"), parse(ALL), bind(portal="p"), SYNC, query(BAD), execute("p"), SYNC],
    "extended failed close": [parse(ALL, "s"), SYNC, query("BEGIN"), query(BAD), close("S", "s"), SYNC],
    "extended no type": [parse("SELECT $2::int"), SYNC],
    "extended returning": [parse("INSERT INTO w VALUES ($1) RETURNING a, b"), bind([b"9"]), describe(), execute(), SYNC],
    "extended returning rows": [parse("DELETE FROM w RETURNING a"), bind(), execute(rows=1), execute(rows=5), SYNC, query(ALL)],
    "extended set": [once("SET extra_float_digits = 0"), once("SHOW extra_float_digits"), SYNC],
    "extended bound again otherwise": [
        parse(KEY, "s"),
        *(
            bind(values, statement="s", formats=formats, results=results) + describe() + execute()
            for values, formats, results in [
                ([b"1"], (), ()),
                ([b"2"], (), ()),
                ([b"2"], (), (1,)),
                ([b"2"], (), (1, 0)),
                ([TWO], (1,), (1, 0)),
                ([None], (1,), (1, 0)),
                ([b"2"], (0,), (0,)),
                ([b"3"], (), ()),
            ]
        ),
        SYNC,
        bind([b"1"], statement="s") + describe() + execute() + bind([b"x"], statement="s"),
        SYNC,
        bind([b"1"], statement="s", results=(0, 0, 0)),
        SYNC,
    ],
    "extended parsed again otherwise": [
        parse(KEY, oids=[INT]) + bind([ONE], formats=[1]) + describe() + execute(),
        parse(KEY, oids=[20]) + bind([ONE], formats=[1]) + describe() + execute(),
        SYNC,
        parse(KEY) + bind([b"1"]) + describe() + execute() + parse(ALL) + bind() + execute(rows=1),
        parse(KEY) + bind([b"2"]) + execute() + SYNC,
    ],
    # malformed bodies, which say where the next message begins
    "malformed parse": [message("P", b"s"), SYNC, query("SELECT 1")],
    "malformed parse count": [message("P", text("") + text(ALL) + b"\0\2\0\0"), SYNC],
    "malformed parse rest": [message("P", text("") + text(ALL) + b"\0\0x"), SYNC],
    "malformed bind": [message("B", b"x"), SYNC],
    "malformed bind values": [parse(KEY), message("B", b"\0\0\0\0\0\1\0\0\0\x09x"), SYNC],
    "malformed bind rest": [parse(ALL), message("B", b"\0\0\0\0\0\0\0\0x"), SYNC],
    "malformed execute": [message("E", b"\0"), SYNC],
    "malformed execute rest": [parse(ALL), bind(), message("E", b"\0\0\0\0\0x"), SYNC],
    "malformed describe": [message("D", b""), SYNC],
    "malformed sync": [message("S", b"x"), query("SELECT 1")],
    "malformed flush": [message("H", b"x"), SYNC],
    "malformed close": [message("C", b"S"), SYNC],
    # what ends a connection
    "unknown type": [query("SELECT 1"), message("!", b"")],
    "unknown type alone": [b"\x01"],
    "length too small": [b"Q\0\0\0\3"],
    "length of sync": [b"S\0\1\0\0" + b"x" * 65536],
    "length of execute": [b"E\0\0\x30\0" + b"x" * 0x3000],
    "terminate": [TERMINATE],
    "terminate in a transaction": [query("BEGIN"), TERMINATE],
    # copy
    "copy messages alone": [copy_data(b"x"), COPY_DONE, copy_fail("x"), query("SELECT 1")],
    "copy in": [query("COPY w (a, b) FROM STDIN"), copy_data(b"10\tten\n11\t\\N\n"), COPY_DONE, query(ALL)],
    "copy in pieces": [query("COPY w (a, b) FROM STDIN"), copy_data(b"10\tt"), copy_data(b"en\n"), COPY_DONE, query(ALL)],
    "copy in nothing": [query("COPY w FROM STDIN"), COPY_DONE],
    "copy in fails": [query("COPY w FROM STDIN"), copy_fail("no"), query(ALL)],
    "copy in bad row": [query("COPY w (a) FROM STDIN"), copy_data(b"x\n"), COPY_DONE, query(ALL)],
    "copy in columns": [query("COPY w (a) FROM STDIN"), copy_data(b"7\t8\n"), COPY_DONE, query(ALL)],
    "copy in duplicate": [query("COPY w (a) FROM STDIN"), copy_data(b"1\n"), COPY_DONE, query(ALL)],
    "copy in ignores sync": [query("COPY w (a) FROM STDIN"), SYNC, FLUSH, copy_data(b"7\n"), COPY_DONE, query(ALL)],
    "copy in among others": [query("SELECT 1; COPY w (a) FROM STDIN; SELECT 2"), copy_data(b"7\n"), COPY_DONE],
    "copy in extended": [parse("COPY w (a) FROM STDIN"), bind(), execute(), copy_data(b"7\n"), COPY_DONE, SYNC, query(ALL)],
    "copy in extended fails": [parse("COPY w (a) FROM STDIN"), bind(), execute(), copy_data(b"x\n"), COPY_DONE, SYNC, query(ALL)],
    "copy in another message": [query("COPY w (a) FROM STDIN"), parse("SELECT 1")],
    "copy in in a transaction": [query("BEGIN"), query("COPY w (a) FROM STDIN"), copy_fail("x"), query("COMMIT")],
    "copy out": [query("COPY w TO STDOUT")],
    "copy out csv": [query("COPY (SELECT a, b FROM w ORDER BY a) TO STDOUT (FORMAT csv, HEADER)")],
    "copy out extended": [once("COPY w TO STDOUT"), SYNC],
    "copy no table": [query("COPY nothing FROM STDIN"), query("SELECT 1")],
    # SQL's own
    "prepare execute": [query("PREPARE p AS SELECT a FROM w WHERE a = $1"), query("EXECUTE p(2)"), query("DEALLOCATE p"), query("EXECUTE p(2)")],
    "prepare bind": [query("PREPARE p AS SELECT a FROM w WHERE a = $1"), describe("S", "p"), bind([b"2"], statement="p"), execute(), SYNC],
    "cursor": [query("BEGIN"), query("DECLARE c CURSOR FOR SELECT a FROM w ORDER BY a"), query("FETCH 2 FROM c"), query("FETCH ALL FROM c"), query("CLOSE c"), query("COMMIT")],
    "cursor described": [query("BEGIN"), query("DECLARE c CURSOR FOR SELECT a FROM w ORDER BY a"), describe("P", "c"), execute("c", 1), SYNC],
    "cursor outside": [query("DECLARE c CURSOR FOR SELECT 1"), query("FETCH c")],
    "deallocate all": [parse(ALL, "s"), SYNC, query("DEALLOCATE ALL"), bind(statement="s"), SYNC],
    "discard all": [parse(ALL, "s"), SYNC, query("DISCARD ALL"), bind(statement="s"), SYNC],
}  # fmt: skip


def converse(address: Any, dsn: str, sequence: list[bytes]) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement)
    with Wire(address) as wire:
        wire.start(database="postgres")
        wire.send(*sequence, TERMINATE)
        return [one.meaning() for one in wire.rest() if one.kind != "S"]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_is_answered_as_postgres_does(
    name: str, server: ThreadServer, postgres: str, postgres_address: str
) -> None:
    expected = converse(postgres_address, postgres, SEQUENCES[name])
    assert converse(server.address, server.dsn, SEQUENCES[name]) == expected


_names = st.sampled_from(["", "s", "t"])
_values = st.lists(st.sampled_from([None, b"1", b"2", b"x", ONE]), max_size=2)
_formats = st.sampled_from([(), (0,), (1,), (0, 0)])
_texts = st.sampled_from(
    [ALL, KEY, INSERT, BAD, "", "BEGIN", "COMMIT", "ROLLBACK", "SELECT 1; SELECT 2", "SELECT nothing", "UPDATE w SET b = $1"]
)  # fmt: skip
_messages = st.one_of(
    st.builds(parse, _texts, _names),
    st.builds(
        lambda v, p, s, f, r: bind(v, portal=p, statement=s, formats=f, results=r),
        _values, _names, _names, _formats, _formats,
    ),
    st.builds(describe, st.sampled_from("SP"), _names),
    st.builds(execute, _names, st.sampled_from([0, 1, 2])),
    st.builds(close, st.sampled_from("SP"), _names),
    st.just(SYNC),
    st.just(SYNC),
    st.just(FLUSH),
    st.builds(query, _texts.filter(lambda sql: "$" not in sql)),
)  # fmt: skip


@seed(20260)
@settings(max_examples=150)
@given(sequence=st.lists(_messages, max_size=14))
def test_any_sequence_is_answered_as_postgres_does(
    sequence: list[bytes], server: ThreadServer, postgres: str, postgres_address: str
) -> None:
    sequence = [*sequence, SYNC]
    expected = converse(postgres_address, postgres, sequence)
    assert converse(server.address, server.dsn, sequence) == expected
