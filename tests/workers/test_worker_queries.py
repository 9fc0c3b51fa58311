"""A worker sees what the statement would have seen in its own process, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from herdpy_server.copy import CopyDataForm, CopyTarget
from herdpy_server.sessions.query_backend import IN_PROCESS, QueryBackend
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.copying import CopyOptions
from tests.serving.conftest import DiskGate
from tests.workers.asking import by_both, by_worker, question
from tests.workers.conftest import QUICK, only, served, sql, until

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)"
FILLED = "INSERT INTO t SELECT i, i % 7, 'x' || i FROM generate_series(1, 5000) i"
SUM = "SELECT count(*), sum(b) FROM t"
GROUPED = "SELECT b, count(*), min(c) FROM t GROUP BY b"


def test_its_own_changes_and_nobody_elses(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            await database.checkpoint()
            await sql(database, "INSERT INTO t VALUES (9000, 1, 'in memory')")
            ann = database.session()
            await sql(database, "BEGIN", session=ann)
            await sql(database, "DELETE FROM t WHERE a <= 100", session=ann)
            await sql(database, "UPDATE t SET b = 1000 WHERE a = 200", session=ann)
            own = await by_both(database, SUM, session=ann)
            others = await by_both(database, SUM)
            assert own != others
            assert others[0][0] == 5001
            assert own[0][0] == 4901
            assert await sql(database, SUM, session=ann) == own
            await sql(database, "ROLLBACK", session=ann)
            assert await by_both(database, SUM, session=ann) == others

    on_loop(main)


def test_a_snapshot_that_stays_is_asked_of_a_worker_until_a_checkpoint(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=3600.0) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, FILLED)
            await database.checkpoint()
            await sql(database, "INSERT INTO t VALUES (9000, 1, 'in memory')")
            ann = database.session()
            await sql(database, "BEGIN ISOLATION LEVEL REPEATABLE READ", session=ann)
            before = await sql(database, SUM, session=ann)
            await sql(database, "UPDATE t SET b = 1000")
            asked = database.workers.counts.queries
            assert await sql(database, SUM, session=ann) == before
            assert database.workers.counts.queries == asked + 1
            assert await by_both(database, SUM, session=ann) == before
            await database.checkpoint()
            await sql(database, "INSERT INTO t VALUES (9001, 1, 'later')")
            assert await sql(database, SUM, session=ann) == before
            assert await sql(database, GROUPED, session=ann) != await sql(database, GROUPED)
            await sql(database, "COMMIT", session=ann)
            assert await by_both(database, SUM, session=ann) != before

    on_loop(main)


def test_a_flush_between_the_workers_state_and_the_snapshot_is_noticed(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=3600.0) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, FILLED)
            expected = await by_both(database, SUM)
            flushed: list[object] = []

            def flush_once() -> None:
                if not flushed:
                    flushed.append(database.store.flush())

            assert await by_worker(database, SUM, before_snapshot=flush_once) == expected
            assert database.workers.counts.stale == 1
            assert await by_both(database, SUM) == expected

    on_loop(main)


def test_changes_that_are_not_durable_are_seen_and_waited_for(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            await sql(database, SUM)
            gate = DiskGate(database)
            writing = asyncio.ensure_future(sql(database, "INSERT INTO t VALUES (9000, 0, 'new')"))
            await gate.entered.acquire()
            assert (await by_both(database, SUM))[0][0] == 5001
            reading = asyncio.ensure_future(sql(database, SUM))
            assert database.workers is not None
            counts = database.workers.counts
            asked = counts.queries
            while counts.queries == asked or database.workers.busy:
                await asyncio.sleep(0.001)
            assert not reading.done()
            gate.open()
            assert (await reading)[0][0] == 5001
            await writing

    on_loop(main)


def test_tables_made_emptied_and_dropped(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            ann = database.session()
            await by_both(database, GROUPED)
            await sql(database, "BEGIN", session=ann)
            await sql(database, "TRUNCATE t", session=ann)
            assert await by_both(database, SUM, session=ann) == [(0, None)]
            await sql(database, "INSERT INTO t VALUES (1, 2, 'again')", session=ann)
            await sql(database, "CREATE TABLE u (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)", session=ann)
            await sql(database, "INSERT INTO u SELECT * FROM t", session=ann)
            assert await by_both(database, "SELECT sum(b) FROM u", session=ann) == [(2,)]
            assert (await by_both(database, SUM))[0][0] == 5000
            await sql(database, "COMMIT", session=ann)
            for _ in range(2):
                assert await by_both(database, SUM) == [(1, 2)]
                assert await by_both(database, "SELECT sum(b) FROM u") == [(2,)]
                await database.checkpoint()
            await sql(database, "DROP TABLE t")
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t VALUES (5, 5, 'other')")
            for _ in range(2):
                assert await by_both(database, SUM) == [(1, 5)]
                await database.checkpoint()

    on_loop(main)


def test_columns_that_are_kept_are_patched_over_checkpoints(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=3600.0) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            await database.checkpoint()
            await by_both(database, GROUPED)
            assert only(database).tables
            for step in range(6):
                await sql(database, f"UPDATE t SET b = {100 + step} WHERE a = {step * 17 + 1}")
                await sql(database, f"DELETE FROM t WHERE a = {step * 31 + 2}")
                if step % 3 != 1:
                    await by_both(database, GROUPED)
                if step % 2:
                    await database.checkpoint()
                    await by_both(database, "SELECT * FROM t WHERE b > 90 ORDER BY c")
            await sql(database, "UPDATE t SET b = -1")
            await database.checkpoint()
            assert await by_both(database, GROUPED) == [(-1, 4994, "x1")]

    on_loop(main)


def test_a_definition_changed_while_a_worker_starts(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            for name in ("same", "other", "gone"):
                await sql(database, f"CREATE TABLE {name} (a INTEGER PRIMARY KEY, b INTEGER)")
                await sql(database, f"INSERT INTO {name} VALUES (1, 1)")
            asked = {
                name: asyncio.ensure_future(sql(database, f"SELECT DISTINCT * FROM {name}"))
                for name in ("same", "other", "gone")
            }
            await until(lambda: database.workers.waiting == 3)
            await sql(database, "CREATE INDEX ON same (b)")
            await sql(database, "INSERT INTO same VALUES (2, 2)")
            for name in ("other", "gone"):
                await sql(database, f"DROP TABLE {name}")
            await sql(database, "CREATE TABLE other (a INTEGER PRIMARY KEY, d TEXT)")
            assert sorted(await asked["same"]) == [(1, 1), (2, 2)]
            for name, state in (("other", "40001"), ("gone", "42P01")):
                with pytest.raises(SqlError) as caught:
                    await asked[name]
                assert caught.value.sqlstate == state

    on_loop(main)


def test_writes_that_ask_first(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, FILLED)
            await sql(database, "UPDATE t SET b = 50 WHERE a IN (SELECT max(a) FROM t GROUP BY b)")
            await sql(database, "DELETE FROM t WHERE c IN (SELECT min(c) FROM t WHERE b < 50 GROUP BY b)")
            assert database.workers.counts.queries >= 3
            found = await by_both(database, "SELECT count(*), count(*) FILTER (WHERE b = 50) FROM t")
            assert found == [(4993, 7)]

    on_loop(main)


def arrow_table(messages: bytes) -> pa.Table:
    """What CopyData messages carry."""
    data, at = b"", 0
    while at < len(messages):
        size = int.from_bytes(messages[at + 1 : at + 5], "big") + 1
        data += messages[at + 5 : at + size]
        at += size
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def test_an_export_is_what_the_own_process_makes(tmp_path: Path, on_loop) -> None:
    async def exported(backend: QueryBackend, asked: object, target: CopyTarget) -> tuple[int, bytes]:
        export = await backend.export(asked, CopyDataForm(target))  # type: ignore[arg-type]
        pieces = []
        try:
            while (piece := await export.next()) is not None:
                pieces.append(piece)
        finally:
            export.close()
        return export.rows, b"".join(pieces)

    async def main() -> None:
        async with served(tmp_path) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            await sql(database, "INSERT INTO t SELECT i, NULL, 'x' || i FROM generate_series(1, 20000) i")
            text = "SELECT a, b, c FROM t ORDER BY c"
            query = question(database, text).query
            columns = tuple((column.name, column.type) for column in query.columns)
            for kind in ("text", "csv", "binary", "arrow"):
                target = CopyTarget("t", columns, CopyOptions(format=kind))
                theirs = await exported(database.workers, question(database, text), target)
                ours = await exported(IN_PROCESS, question(database, text), target)
                assert theirs[0] == ours[0] == 20000
                if kind == "arrow":  # cut into other batches
                    assert arrow_table(theirs[1]) == arrow_table(ours[1])
                else:
                    assert theirs[1] == ours[1]

    on_loop(main)


def test_every_type_comes_back_as_it_is(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(
                database,
                "CREATE TABLE v (k UUID PRIMARY KEY, a SMALLINT, b BIGINT, c REAL, d DOUBLE PRECISION, "
                "e NUMERIC(20, 4), f NUMERIC, g VARCHAR(9), h BYTEA, i BOOLEAN, j DATE, l TIMESTAMP, "
                "m TIMESTAMPTZ, n TIME, o CHAR(4))",
            )
            await sql(
                database,
                "INSERT INTO v VALUES ('00000000-0000-0000-0000-000000000001', 1, 2, 3.5, 4.25, 5.1234, "
                "6.789, 'sieben', '\\x08', true, '2020-02-29', '2020-02-29 12:00', '2020-02-29 12:00+02', "
                "'01:02:03', 'ab')",
            )
            await sql(database, "INSERT INTO v (k) VALUES ('00000000-0000-0000-0000-000000000002')")
            for _ in range(2):
                found = await by_both(database, "SELECT DISTINCT * FROM v")
                assert len(found) == 2
                await database.checkpoint()

    on_loop(main)


def test_errors_are_those_of_the_statement(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            for text, state in (
                ("SELECT DISTINCT 1 / (b - b) FROM t", "22012"),
                ("SELECT a / (a - 5000) FROM t ORDER BY c || 'x'", "22012"),
                ("SELECT DISTINCT c::integer FROM t", "22P02"),
            ):
                with pytest.raises(SqlError) as caught:
                    await sql(database, text)
                assert caught.value.sqlstate == state, text
            assert (await sql(database, SUM))[0][0] == 5000
            assert database.workers is not None
            assert database.workers.counts.died == 0

    on_loop(main)


def test_an_answer_without_rows_has_its_columns(tmp_path: Path, on_loop) -> None:
    async def main() -> None:
        async with served(tmp_path, QUICK) as database:
            assert database.workers is not None
            await sql(database, TABLE)
            answer = await database.workers.ask(question(database, "SELECT DISTINCT a, c FROM t"))
            assert await answer.next() is None
            assert answer.schema == pa.schema([("a", pa.int32()), ("c", pa.string())])
            assert (await answer.all()).num_rows == 0
            answer.close()
            answer.close()

    on_loop(main)
