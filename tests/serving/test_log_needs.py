"""What the log of a server that is alone is kept for, as herdpy.ledgers says it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from herdpy.log.lsn import START
from herdpy_server.serving import ServedDatabase, alone
from herdpy_server.serving.logs import From
from herdpy_server.tablespace_host import DatabaseSettings


async def kept(path: Path) -> list[list[str | None]]:
    """What keeps each ledger: with a reader's lease, and without."""
    settings = DatabaseSettings(max_ledger_bytes=1 << 20, log_retention_bytes=0, checkpoint_interval_s=3600)
    database = await ServedDatabase.open(path, settings)
    served = alone(database).find("")
    try:
        session = served.session()

        async def run(sql: str) -> list[tuple[object, ...]]:
            return (await database.driver.call(session.execute(sql))).python_rows()

        async def look() -> list[str | None]:
            rows = await run("SELECT kept_by FROM herdpy.ledgers ORDER BY ledger_id")
            return [row[0] for row in rows]  # type: ignore[misc]

        await run("CREATE TABLE t (i INT PRIMARY KEY, x TEXT)")
        for start in (0, 2000, 4000):
            await run(
                f"INSERT INTO t SELECT {start} + g, repeat('x', 800) FROM generate_series(1, 2000) g(g)"
            )
        lease = await served.log.lease(From(after=START), 60.0, "tests, nightly")
        found = [await look()]
        await served.checkpoint()
        found.append(await look())
        await served.log.release(lease.id)
        found.append(await look())
        await database.driver.call(session.close())
        return found
    finally:
        await database.close()


def test_what_keeps_each_ledger(tmp_path):
    before, checkpointed, released = asyncio.run(kept(tmp_path / "db"))
    assert before[-1] == "open"
    assert set(before[:-1]) == {"checkpoint, reader: tests, nightly"}
    assert set(checkpointed) - {"open"} == {"reader: tests, nightly"}
    assert set(released) - {"open"} == {None}
