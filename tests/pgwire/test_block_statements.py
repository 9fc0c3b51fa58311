"""A statement by key that is one function, in a transaction (``sessions.block_statements``) or as one of its
own (``sessions.autocommit_statements``), says and does byte for byte what the long way does.

Random conversations are led on two servers, one of which has the short ways taken out: prepared INSERTs,
UPDATEs, DELETEs and SELECTs by key, in transactions and, every third conversation, mostly out of them, with
rows that others hold or change, duplicate keys, violated constraints, numbers out of range, savepoints, and
whatever must end the use of a resolved statement. Also all that the two have logged and stored is compared.
"""

from __future__ import annotations

import errno
import random
import select
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from herdpy.codec.rows import RowCodec
from herdpy.log import Append, LogError, LoggedTransaction
from herdpy.log.errors import Outcome
from herdpy.log.file_ledger import FileLedgerWriter
from herdpy.log.records import Before, Delete, Insert, Record, SequenceAdvance, Update
from herdpy_server.pgwire import queries
from herdpy_server.process.statements import StatementStatistics
from herdpy_server.sessions import autocommit_statements, block_statements
from herdpy_server.sessions.autocommit_statements import AutocommitStatement
from herdpy_server.sessions.block_statements import (
    BlockBegin,
    BlockCommit,
    BlockStatement,
    ResolvedStatement,
)
from herdpy_server.sessions.row_steps import RowDelete, RowInsert, RowRead, RowUpdate
from herdpy_server.store import Workspace
from herdpy_server.tablespace import LockTable
from tests.pgwire.servers import ThreadServer, thread_server
from tests.pgwire.test_point_reads import known
from tests.pgwire.test_round_trip import without_the_short_way
from tests.pgwire.wire import SYNC, Reply, Wire, bind, describe, execute, parse, query

SEEDS = range(10)
STEPS = 320
FEW_STEPS = 100
"""Enough for most bugs to be seen."""
SET_UP = (
    "CREATE ROLE writer; GRANT ALL ON SCHEMA public TO writer",
    """CREATE TABLE plain (id INT PRIMARY KEY, n INT, big BIGINT, note VARCHAR(6), amount NUMERIC(6, 2),
    at TIMESTAMP, fixed CHAR(5))""",
    """CREATE TABLE strict (id INT PRIMARY KEY, n INT NOT NULL CHECK (n < 100), code INT UNIQUE, list INT[],
    zone TIMESTAMPTZ DEFAULT '2024-01-01 00:00+00')""",
    "CREATE TABLE computed (id INT PRIMARY KEY, n INT, twice BIGINT GENERATED ALWAYS AS (n * 2) STORED)",
    "CREATE INDEX ON computed (n) WHERE n > 10",
    "CREATE TABLE hidden (tid INT, delta INT, at TIMESTAMP, filler CHAR(3))",
    "CREATE TABLE serials (id SERIAL PRIMARY KEY, n SMALLINT NOT NULL)",
    "CREATE TABLE parents (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents (id))",
    "CREATE TABLE whole (id INT PRIMARY KEY, n INT)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE VIEW small AS SELECT id, n FROM plain WHERE n < 50 WITH CHECK OPTION",
    """INSERT INTO plain VALUES (1, 1, 10, 'one', 1.50, NULL, 'a'),
    (2, 2147483647, NULL, NULL, NULL, NULL, ''), (3, 0, 0, 'three', 9999.99, '2024-02-29 12:00', 'ab')""",
    "INSERT INTO strict VALUES (1, 5, 1, '{1}'), (2, 50, 2, NULL), (3, 99, NULL, '{}')",
    "INSERT INTO computed (id, n) VALUES (1, 1), (2, 2)",
    "INSERT INTO parents VALUES (1, 1), (2, 2); INSERT INTO children VALUES (1, 1)",
    "INSERT INTO whole VALUES (1, 1), (2, 2)",
    "GRANT SELECT, UPDATE, INSERT, DELETE ON plain, hidden TO writer",
)
STATEMENTS = {
    "add": "UPDATE plain SET n = n + $1 WHERE id = $2",
    "set": "UPDATE plain SET note = $1, big = big * 2 + n, at = TIMESTAMP '2024-02-03' + (now() - now())"
    " WHERE id = $2",
    "swap": "UPDATE plain SET n = big, big = n WHERE id = $1",
    "divide": "UPDATE plain SET amount = amount / $1, fixed = note WHERE id = $2",
    "some": "UPDATE plain SET n = $1 WHERE id = $2 AND n < 40",
    "move": "UPDATE plain SET id = $1 WHERE id = $2",
    "keep": "UPDATE plain SET n = $1 WHERE id = $2 RETURNING id, n",
    "view": "UPDATE small SET n = n + $1 WHERE id = $2",
    "checked": "UPDATE strict SET n = $1 WHERE id = $2",
    "unique": "UPDATE strict SET code = $1 WHERE id = $2",
    "array": "UPDATE strict SET list = ARRAY[$1, 2] WHERE id = $2",
    "twice": "UPDATE computed SET n = $1 WHERE id = $2",
    "full": "UPDATE whole SET n = n - $1 WHERE id = $2",
    "parent": "UPDATE parents SET id = $1 WHERE id = $2",
    "put": "INSERT INTO plain (id, n, note) VALUES ($1, $2, 'new')",
    "puts": "INSERT INTO strict (id, n, code) VALUES ($1, $2, $1)",
    "log": "INSERT INTO hidden (tid, delta, at) VALUES ($1, $2, CURRENT_TIMESTAMP(0) - CURRENT_TIMESTAMP(0)"
    " + TIMESTAMP '2024-01-01')",
    "next": "INSERT INTO serials (n) VALUES ($1 * $2)",
    "child": "INSERT INTO children VALUES ($1, $2)",
    "two": "INSERT INTO plain (id, n) VALUES ($1, $2), ($2, $1)",
    "again": "INSERT INTO plain (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n",
    "del": "DELETE FROM plain WHERE id = $1",
    "cut": "DELETE FROM strict WHERE id = $2 AND n < $1",
    "erase": "DELETE FROM whole WHERE id = $1",
    "orphan": "DELETE FROM parents WHERE id = $1",
    "get": "SELECT n, note, amount, fixed FROM plain WHERE id = $1",
    "one": "SELECT n FROM strict WHERE id = $1",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "end": "END",
}
ONE = frozenset({"swap", "del", "erase", "orphan", "get", "one"})
NONE = frozenset({"begin", "commit", "end"})
OFTEN = (
    *("add", "add", "set", "checked", "unique", "put", "log", "next", "get", "get", "one", "commit", "end"),
    *("put", "del"),
)
EVENTS = (
    "SAVEPOINT s",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "SET LOCAL TimeZone = 'Asia/Tokyo'",
    "SET TimeZone = 'UTC'",
    "SET search_path = other, public",
    "RESET search_path",
    "SET TRANSACTION READ ONLY",
    "SET statement_timeout = '10s'",
    "SET ROLE writer",
    "RESET ROLE",
    "SELECT 1 / 0",
    "ROLLBACK",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "DECLARE c CURSOR FOR SELECT id FROM plain",
    "FETCH c",
    "SET CONSTRAINTS ALL DEFERRED",
    "ALTER TABLE plain ADD COLUMN IF NOT EXISTS more INT DEFAULT 7",
    "ALTER TABLE plain DROP COLUMN IF EXISTS more",
    "SELECT currval('serials_id_seq')",
    "SELECT setval('serials_id_seq', 40)",
    "ALTER SEQUENCE serials_id_seq RESTART",
    "INSERT INTO plain (id, n) VALUES (4, 4) ON CONFLICT DO NOTHING",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "DEALLOCATE add; PREPARE add AS SELECT 7",
)
RIVALS = (
    "UPDATE plain SET n = n - 1, note = 'rival' WHERE id = 1 AND n > 0",
    "DELETE FROM plain WHERE id IN (4, 5)",
    "INSERT INTO plain (id, n) VALUES (5, 5) ON CONFLICT DO NOTHING",
    "UPDATE strict SET n = 7 WHERE id = 2",
    "ALTER TABLE strict ALTER COLUMN code DROP NOT NULL",
    "REVOKE UPDATE ON plain FROM writer",
    "GRANT UPDATE ON plain TO writer",
)
TABLES = ("plain", "strict", "computed", "hidden", "serials", "parents", "children", "whole")
OF_ROWS = (Before, Delete, Insert, SequenceAdvance, Update)


def a_statement(rng: random.Random, name: str, *, binary: bool) -> bytes:
    """Bind, Describe, Execute and Sync of a statement, mostly as it was bound before."""
    key, number = rng.choice((1, 1, 2, 3, 4, 5)), rng.choice((0, 1, 3, 7, 45, 120, 2147483647))
    values: list[bytes | None] = []
    formats: tuple[int, ...] = ()
    if name in NONE:
        pass
    elif name == "set":
        values = [rng.choice((b"abc", b"", "ä".encode(), b"too long")), b"%d" % key]
    else:
        numbers = [key] if name in ONE else [number, key]
        if name in {"put", "puts", "log", "child", "again", "two"}:
            numbers.reverse()
        if binary and name != "divide":
            values, formats = [struct.pack(">i", one) for one in numbers], (1,)
        else:
            values = [b"%d" % one for one in numbers]
    if values and rng.random() < 0.06:
        values[rng.randrange(len(values))] = rng.choice((None, None, b"no", b"", b"99999999999999999999"))
    step = bind(values, statement=name, formats=formats, results=(1,) if binary else ())
    if rng.random() < 0.05:
        return step + rng.choice((execute(), describe() + execute(rows=1), describe() + execute() * 2)) + SYNC
    return step + describe() + execute() + SYNC


def led(path: Path, seed: int, steps: int = STEPS) -> list[Any]:
    """A conversation with a server of its own: all that it says, has counted, and has stored."""
    rng = random.Random(seed)
    begins = 0.2 if seed % 3 == 1 else 0.9
    statistics = StatementStatistics()
    with thread_server(path) as server:
        server.look(lambda: setattr(server.database, "observer_of", statistics.of_session))
        logged = noted_commits(server)
        with Wire(server.address) as wire, Wire(server.address) as rival:
            wire.start()
            rival.start()
            said = prepared(wire)
            rival.ask(query("SET lock_timeout = '20ms'"))
            binary, lock = False, ""
            for at in range(steps):
                if said[-1].body == b"E" and rng.random() < 0.7:
                    said += wire.ask(query(rng.choice(("ROLLBACK", "ROLLBACK", "ROLLBACK TO s"))))
                if said[-1].body == b"I" and rng.random() < begins:
                    said += wire.ask(a_statement(rng, "begin", binary=binary))
                if rng.random() < 0.015:
                    binary = not binary
                if lock and rng.random() < 0.4:
                    said += rival.ask(query(rng.choice(("COMMIT", "ROLLBACK"))))[-1:]
                    lock = ""
                elif not lock and said[-1].body == b"I" and rng.random() < 0.3:
                    said += rival.ask(query(rng.choice(RIVALS)))
                elif not lock and rng.random() < 0.15:
                    lock = rng.choice(("plain", "strict"))
                    said += held(rival, f"UPDATE {lock} SET n = n WHERE id = {rng.randrange(1, 3)}")
                step = a_step(rng, binary=binary)
                for _ in range(rng.choice((1, 1, 3))):
                    said += answered(wire, rival, server, rng, step, lock)
                if at % 40 == 39:
                    said += wire.ask(query("ROLLBACK")) + wire.ask(query("RESET ROLE"))
            said += rival.ask(query("ROLLBACK")) + wire.ask(query("ROLLBACK")) + wire.ask(query("RESET ROLE"))
            said += seldom(wire)
            for table in TABLES:
                said += wire.ask(query(f"SELECT * FROM {table} ORDER BY 1, 2"))
            for code in (0, 1, 3, 7, 45, 120):
                said += wire.ask(query(f"SELECT id FROM strict WHERE code = {code}"))
            said += wire.ask(query("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements"))
    counts = {name: (one.ok, one.rows) for name, one in statistics.kinds.items()}
    return [*((one.kind, known(one)) for one in said), counts, logged]


def seldom(wire: Wire) -> list[Reply]:
    """What random steps seldom come to: a value of a sequence that an error gives back, and a definition that
    comes between, in a transaction and out of it."""
    said = wire.ask(query("RESET ALL"))

    def do(name: str, *values: int) -> None:
        step = bind([b"%d" % one for one in values], statement=name)
        said.extend(wire.ask(step + describe() + execute() + SYNC))

    for around in ([], ["begin"]):
        for _ in range(3):
            [do(name) for name in around]
            [do("next", 1, 1), do("put", 9, 9), do("some", 1, 9), do("swap", 9), do("get", 9)]
            [do("cut", 0, 3), do("del", 9), do("del", 9)]
            [do("commit") for _ in around]
        [do(name) for name in around]
        do("next", 2147483647, 7)
        [do("commit") for _ in around]
        [do(name) for name in around]
        [do("next", 1, 1), do("put", 9, 9), do("some", 1, 9)]
        said.extend(wire.ask(query(f"ALTER TABLE plain ADD COLUMN last{len(around)} INT DEFAULT 7")))
        [do("some", 1, 9), do("some", 1, 9), do("del", 9), do("put", 9, 9), do("del", 9)]
        [do("commit") for _ in around]
    return said


def noted_commits(server: ThreadServer) -> list[list[Record]]:
    """What each commit logs of rows and sequences, as they come."""
    logged: list[list[Record]] = []
    log = server.database.tablespace.log
    append = log.append

    def noted(transaction: LoggedTransaction) -> Append:
        logged.append([one for one in transaction.records if isinstance(one, OF_ROWS)])
        return append(transaction)

    log.append = noted
    return logged


def held(rival: Wire, sql: str) -> list[Reply]:
    """Another transaction that has locked a row, where it can at once."""
    replies = rival.ask(query(f"BEGIN; {sql}"))
    return replies[-1:]


def a_step(rng: random.Random, *, binary: bool) -> bytes:
    chance = rng.random()
    if chance < 0.06:
        return query(rng.choice(EVENTS))
    if chance < 0.09:
        return execute() + describe() + SYNC  # of the portal that is left
    name = rng.choice(OFTEN) if chance < 0.75 else rng.choice(tuple(STATEMENTS))
    return a_statement(rng, name, binary=binary)


def answered(
    wire: Wire, rival: Wire, server: ThreadServer, rng: random.Random, step: bytes, lock: str
) -> list[Reply]:
    """The answer to a step. Where another transaction has a lock, it lets go once that is waited for."""
    if not lock:
        return wire.ask(step)
    ends = rng.choice(("COMMIT", "ROLLBACK", "cancel"))
    locks = server.database.tablespace.locks
    before = locks.waits
    wire.send(step)
    said: list[Reply] = []
    if waits_for_a_lock(wire, lambda: locks.waits > before and bool(locks.waiting)):
        if ends == "cancel":
            server.look(lambda: [one.cancel() for one in server.database.sessions if one.is_running])
        else:
            said += rival.ask(query(ends))[-1:]
    return said + wire.replies()


def waits_for_a_lock(wire: Wire, waits: Callable[[], bool]) -> bool:
    """Whether what was sent waits; False when it is answered."""
    while not select.select([wire.socket], [], [], 0.002)[0]:
        if waits():
            return True
    return False


def prepared(wire: Wire) -> list[Reply]:
    said = [reply for sql in SET_UP for reply in wire.ask(query(sql))]
    for name, sql in STATEMENTS.items():
        said += wire.ask(parse(sql, name), SYNC)
    assert not [one.meaning() for one in said if one.kind == "E"]
    return said


def counting(run: Callable[..., Any], answers: Counter[tuple[str, str, str]]) -> Callable[..., Any]:
    """A ``run`` that counts its answers, by how and what the statement does and by their type."""

    def counted(self: ResolvedStatement, *arguments: Any) -> Any:
        answer = run(self, *arguments)
        does = self._step if isinstance(self, BlockStatement | AutocommitStatement) else self
        answers[type(self).__name__, type(does).__name__, type(answer).__name__] += 1
        return answer

    return counted


LongWays = Callable[[int, int], list[Any]]


@pytest.fixture(scope="module")
def long_way(tmp_path_factory: pytest.TempPathFactory) -> LongWays:
    """The conversation of a seed and so many steps without the short ways, which is led once."""
    known: dict[tuple[int, int], list[Any]] = {}

    def long(seed: int, steps: int) -> list[Any]:
        if (seed, steps) not in known:
            with pytest.MonkeyPatch.context() as patch:
                without_the_short_way(patch)
                known[seed, steps] = led(tmp_path_factory.mktemp("long"), seed, steps)
        return known[seed, steps]

    return long


@pytest.mark.parametrize("seed", SEEDS)
def test_a_resolved_statement_does_what_the_long_way_does(
    tmp_path: Path, seed: int, long_way: LongWays, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Counter[tuple[str, str, str]] = Counter()
    for kind in (BlockStatement, BlockBegin, BlockCommit, AutocommitStatement):
        monkeypatch.setattr(kind, "run", counting(kind.run, answers))
    short = led(tmp_path / "short", seed)
    for step in ("RowUpdate", "RowInsert", "RowDelete"):
        assert answers["BlockStatement", step, "bytes"] > 3, answers
        assert answers["AutocommitStatement", step, "LoggedAnswer"], answers
    assert answers["BlockStatement", "RowRead", "bytes"] > 1, answers
    assert answers["BlockBegin", "BlockBegin", "bytes"] > 5, answers
    assert answers["BlockCommit", "BlockCommit", "LoggedAnswer"], answers
    for way in ("BlockStatement", "AutocommitStatement"):
        assert [one for one in answers if one[0] == way and one[2] == "NoneType"], answers
    assert short == long_way(seed, STEPS)


def _no_checks(patch: pytest.MonkeyPatch) -> None:
    make = RowUpdate.__init__

    def unchecked(self: RowUpdate, *arguments: Any) -> None:
        make(self, *arguments)
        self._not_null, self._verify = [], None

    patch.setattr(RowUpdate, "__init__", unchecked)


def _no_index(patch: pytest.MonkeyPatch) -> None:
    make = RowUpdate.__init__

    def staying(self: RowUpdate, *arguments: Any) -> None:
        make(self, *arguments)
        self._stays = True

    patch.setattr(RowUpdate, "__init__", staying)


def _of_all_definitions(self: BlockStatement, _: object, workspace: Workspace) -> bool:
    workspace.begins_point(workspace.store.visible_catalog[0], self._waits.check)
    return True


def _only_says_so(self: BlockCommit, *_: Any) -> bytes:
    self._session.roll_back_now()
    return self._answer


def _begins_implicitly(patch: pytest.MonkeyPatch) -> None:
    begin = BlockBegin.run

    def implicit(self: BlockBegin, *arguments: Any) -> Any:
        answer = begin(self, *arguments)
        self._session.implicit = answer is not None
        return answer

    patch.setattr(BlockBegin, "run", implicit)


def _answers_at_once(patch: pytest.MonkeyPatch) -> None:
    run = AutocommitStatement.run

    def forgetful(self: AutocommitStatement, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._tablespace, "commit", lambda *_: None)
            return run(self, *arguments)

    patch.setattr(AutocommitStatement, "run", forgetful)


def _no_condition(patch: pytest.MonkeyPatch) -> None:
    make = RowDelete.__init__

    def unconditional(self: RowDelete, *arguments: Any) -> None:
        make(self, *arguments)
        self._condition = None

    patch.setattr(RowDelete, "__init__", unconditional)


def _deletes_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Workspace, "delete", lambda self, table, key, _: self.put(table.id, key, None))


def _decodes_nothing(self: RowCodec, _: object) -> Callable[[bytes], tuple[Any, ...]]:
    return lambda image: (None,) * len(self.fields)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "outlives definitions": lambda patch: patch.setattr(BlockStatement, "_is_of", _of_all_definitions),
    "checks nothing": _no_checks,
    "forgets index entries": _no_index,
    "leaves what failed": lambda patch: patch.setattr(block_statements, "_take_back", lambda *_: None),
    "logs nothing": lambda patch: patch.setattr(Workspace, "put_row", Workspace.put),
    "locks nothing": lambda patch: patch.setattr(LockTable, "acquire", lambda *_: None),
    "always one row": lambda patch: patch.setattr(RowUpdate, "count", lambda *_: 1),
    "keeps no portal": lambda patch: patch.setattr(queries, "_keep_spent", lambda *_: None),
    "counts too many rows read": lambda patch: patch.setattr(RowRead, "count", lambda *_: 2),
    "begins what Sync ends": _begins_implicitly,
    "commits nothing": lambda patch: patch.setattr(BlockCommit, "run", _only_says_so),
    "counts too many rows added": lambda patch: patch.setattr(RowInsert, "count", lambda *_: 2),
    "commits no statement alone": _answers_at_once,
    "runs alone whatever there is": lambda patch: patch.setattr(
        AutocommitStatement, "_may_run", lambda self, ready: self._session.transaction is None
    ),
    "gives back no value alone": lambda patch: patch.setattr(
        autocommit_statements, "_take_back", lambda *_: None
    ),
    "deletes without a condition": _no_condition,
    "logs no deletion": _deletes_alone,
    "patches a row whose column is NULL": lambda patch: patch.setattr(
        RowUpdate, "_whole", lambda _self, image, _new: image
    ),
    "reads none of the row": lambda patch: patch.setattr(RowCodec, "sparse_decoder", _decodes_nothing),
    "counts too many rows deleted": lambda patch: patch.setattr(RowDelete, "count", lambda *_: 2),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_resolved_statement_that_differs_is_seen(
    tmp_path: Path, bug: str, long_way: LongWays, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in SEEDS:
        with monkeypatch.context() as patch:
            BUGS[bug](patch)
            short = led(tmp_path / f"short{seed}", seed, FEW_STEPS)
        if short != long_way(seed, FEW_STEPS):
            return
    pytest.fail("no conversation differs")


BLOCK = (("begin", []), ("add", [b"1"]), ("add", [b"2"]), ("end", []))
ALONE = (("add", [b"1"]), ("add", [b"2"]))


def failing_commits(
    path: Path,
    patch: pytest.MonkeyPatch,
    outcome: Outcome,
    statements: Sequence[tuple[str, Sequence[bytes]]],
) -> list[Any]:
    """Rounds of prepared statements, the last of which meet a log that fails; all that is said."""
    with thread_server(path) as server, Wire(server.address) as wire:
        wire.start()
        wire.ask(query("CREATE TABLE t (id INT PRIMARY KEY, n INT)"), query("INSERT INTO t VALUES (1, 0)"))
        wire.replies()
        for name, sql in {
            "begin": "BEGIN",
            "add": "UPDATE t SET n = n + 1 WHERE id = $1",
            "end": "END",
        }.items():
            wire.ask(parse(sql, name), SYNC)
        said: list[Reply] = []
        for at in range(6):
            if at == 4:
                server.look(lambda: break_log(server, patch, outcome))
            for name, values in statements:
                said += wire.ask(bind(values, statement=name), describe(), execute(), SYNC)
        running = server.look(lambda: [(one.is_running, one.status) for one in server.database.sessions])
        said += wire.ask(query("SELECT * FROM t"))
    return [*((one.kind, known(one)) for one in said), running]


def break_log(server: ThreadServer, patch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    """From now on the log takes no commit, or does not say what became of those that it took."""
    if outcome == "not done":
        patch.setattr(server.database.tablespace.log, "append", _refuse)
    else:
        patch.setattr(FileLedgerWriter, "sync", _break)


def _refuse(*_: object) -> None:
    raise LogError("the log has failed")


def _break(*_: object) -> None:
    raise OSError(errno.EIO, "the disk has failed")


@pytest.mark.parametrize("statements", [BLOCK, ALONE], ids=["block", "alone"])
@pytest.mark.parametrize("outcome", ["not done", "unknown"])
def test_a_commit_that_the_log_does_not_keep_is_answered_alike(
    tmp_path: Path,
    outcome: Outcome,
    statements: Sequence[tuple[str, Sequence[bytes]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        short = failing_commits(tmp_path / "short", patch, outcome, statements)
    assert [one for one in short if one[0] == "E"], short
    with monkeypatch.context() as patch:
        without_the_short_way(patch)
        assert short == failing_commits(tmp_path / "long", patch, outcome, statements)
