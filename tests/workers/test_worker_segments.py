"""Workers leave the columns that they built in files, and other workers and later starts map them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from herdpy_server.serving import ServedDatabase
from herdpy_server.store.segments import LEAST_ROWS
from tests.workers.asking import by_both, by_worker
from tests.workers.conftest import only, served, sql, until

TABLE = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)"
FILLED = f"INSERT INTO t SELECT i, i % 7, 'x' || i FROM generate_series(1, {LEAST_ROWS + 5000}) i"
GROUPED = "SELECT b, count(*), sum(a), min(c) FROM t GROUP BY b"


def mapped(database: ServedDatabase) -> bool:
    """Whether the one worker has columns of a file."""
    return ".columns" in Path(f"/proc/{only(database).pid}/maps").read_text()


def kept(database: ServedDatabase) -> list[int]:
    """The tables that have a segment that holds."""
    assert database.store.segments is not None
    return database.store.segments.tables


async def killed(database: ServedDatabase) -> None:
    """The worker ends; the next question has a new one."""
    worker = only(database)
    worker.kill()
    await until(lambda: database.workers is not None and worker not in database.workers.workers)


def test_what_one_worker_built_another_maps(tmp_path: Path, on_loop: Any) -> None:
    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=0.05) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            await database.checkpoint()
            await by_worker(database, GROUPED)  # by it alone: this process would leave a file, too
            assert not mapped(database)
            await until(lambda: kept(database))
            (path,) = (tmp_path / "store" / "columns").glob("*.columns")
            assert database.store.segment_bytes == path.stat().st_size
            await killed(database)
            await by_both(database, GROUPED)
            assert mapped(database)
        async with served(tmp_path, checkpoint_interval_s=0.05) as database:
            await sql(database, "UPDATE t SET b = 1000 WHERE a = 77")
            await sql(database, "DELETE FROM t WHERE a = 78")
            await by_both(database, GROUPED)
            assert mapped(database)

    on_loop(main)


def test_changes_while_and_after_a_segment_is_written(tmp_path: Path, on_loop: Any) -> None:
    random_ = random.Random(5)

    async def main() -> None:
        async with served(tmp_path, checkpoint_interval_s=0.02) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            for turn in range(12):
                if turn % 4 == 3:
                    await killed(database)
                for _ in range(10):
                    await sql(
                        database, "UPDATE t SET b = b + 1 WHERE a = $1", random_.randrange(1, LEAST_ROWS)
                    )
                    if random_.random() < 0.3:
                        await by_worker(database, GROUPED)
                await by_both(database, GROUPED)
            await until(lambda: kept(database))
        async with served(tmp_path) as database:
            await by_both(database, GROUPED)
            assert mapped(database)

    on_loop(main)


def test_none_where_none_are_allowed(tmp_path: Path, on_loop: Any) -> None:
    async def main() -> None:
        async with served(tmp_path, column_segment_bytes=0) as database:
            await sql(database, TABLE)
            await sql(database, FILLED)
            await by_worker(database, GROUPED)
            await by_worker(database, GROUPED)  # after whatever the first has left to do
            await database.checkpoint()
            assert not list((tmp_path / "store").glob("columns/*"))

    on_loop(main)
