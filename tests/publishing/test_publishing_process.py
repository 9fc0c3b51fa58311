"""A store is published by a process of its own, while it is in use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from herdpy.log import LogEntry
from herdpy.log.lsn import LSN
from herdpy.log.published import (
    PublishedManifest,
    SnapshotRef,
    SnapshotTable,
    load,
    read_batches,
    snapshots,
)
from herdpy_server.publishing import publisher
from herdpy_server.publishing.publisher import Order, Published, Snapshots, publish
from herdpy_server.publishing.snapshot import Moment
from herdpy_sql.definitions import decode_table
from herdpy_sql.errors import SqlError
from tests.publishing.conftest import Source

TYPES = """CREATE TABLE types (
  b bool, s smallint, i int, l bigint, r real, d double precision, n numeric(9, 2), w numeric(30, 4),
  f numeric, t text, j json, y bytea, a date, c time, p timestamp, z timestamptz, u uuid,
  PRIMARY KEY (t, l))"""


async def keep(_published: Published, _found: Snapshots) -> Collection[LSN]:
    return []


def published(source: Source, url: str | Path, **options: object) -> Published:
    order = Order(source.store, str(url), "herd")
    return asyncio.run(publish(order, source.moment, keep, **options))  # type: ignore[arg-type]


def table_of(url: str | Path, name: str) -> tuple[SnapshotRef, SnapshotTable]:
    (ref,) = snapshots(str(url), "herd")
    table = load(ref).table(name)
    assert table is not None
    return ref, table


def rows(url: str | Path, name: str) -> list[dict[str, object]]:
    ref, table = table_of(url, name)
    batches = list(read_batches(ref, table.files))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def test_all_types_come_as_they_are_stored(source: Source, tmp_path: Path) -> None:
    """Every type, NULLs, tables without a key and without rows."""
    source.run(
        TYPES,
        """INSERT INTO types VALUES (true, 1, 2, 3, 1.5, 2.5, 7.25, 123456789012345678901234.5678, 1e-20,
           'ä', '{"k": [1]}', '\\x00ff', '2024-02-29', '12:30', '2024-02-29 12:30', '2024-02-29 12:30+02',
           '00000000-0000-0000-0000-0000000000ff'),
           (NULL, NULL, NULL, 4, NULL, NULL, NULL, NULL, NULL, 'ä', NULL, NULL, NULL, NULL, NULL, NULL,
            NULL)""",
        "CREATE TABLE keyless (x int)",
        "INSERT INTO keyless VALUES (5), (6)",
        "CREATE TABLE empty (x int PRIMARY KEY)",
    )
    lsn = source.checkpoint()
    done = published(source, tmp_path / "out")
    assert (done.lsn, done.rows) == (lsn, 4)
    first, second = rows(tmp_path / "out", "types")
    key = first.pop("__key")
    assert first == {
        "b": True,
        "s": 1,
        "i": 2,
        "l": 3,
        "r": 1.5,
        "d": 2.5,
        "n": Decimal("7.25"),
        "w": Decimal("123456789012345678901234.5678"),
        "f": "0.00000000000000000001",
        "t": "ä",
        "j": '{"k": [1]}',
        "y": b"\0\xff",
        "a": date(2024, 2, 29),
        "c": time(12, 30),
        "p": datetime(2024, 2, 29, 12, 30),
        "z": datetime(2024, 2, 29, 10, 30, tzinfo=UTC),
        "u": UUID("00000000-0000-0000-0000-0000000000ff"),
    }
    assert {name for name, value in second.items() if value is not None} == {"t", "l", "__key"}
    _ref, table = table_of(tmp_path / "out", "types")
    definition = decode_table(table.definition.encode())
    assert definition == source.database.store.catalog.by_name["types"]
    assert key == definition.key_codec.encode(["ä", 3])
    assert [(row["__rowid"], row["x"]) for row in rows(tmp_path / "out", "keyless")] == [(1, 5), (2, 6)]
    assert rows(tmp_path / "out", "empty") == []


def test_the_moment_is_that_of_the_position(source: Source, tmp_path: Path) -> None:
    """The running CRC and the commit time of the newest entry, in a ledger of its own and after trimming."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source.checkpoint()
    log = source.database.log
    published(source, tmp_path)
    manifest: PublishedManifest = load(snapshots(str(tmp_path), "herd")[0])
    (entry,) = [entry for _lsn, entry in _entries(source) if entry.lsn == manifest.lsn]
    assert manifest.crc == entry.header.crc
    assert manifest.time_us == int.from_bytes(entry.parts[-1].data[:8], "big")
    assert manifest.log_id == log.state.log_id
    log.roll()
    source.run("INSERT INTO t VALUES (2)")
    lsn = source.checkpoint()
    assert lsn.entry_id == 0
    published(source, tmp_path)
    assert load(snapshots(str(tmp_path), "herd")[0]).time_us == source.asked[-1].time_us > manifest.time_us
    assert source.asked[-1].crc is not None
    log.roll()
    log.trim(lsn)
    assert log.state.base == lsn
    now = 1 << 60
    moment = asyncio.run(process_moment(source, lsn, now))
    assert moment == Moment(log.state.log_id, source.asked[-1].crc, now)


async def process_moment(source: Source, lsn: LSN, now_us: int) -> Moment:
    from herdpy_server.publishing.snapshot import moment_of

    return await moment_of(source.database.log, source.database.log.state, lsn, now_us)


def _entries(source: Source) -> list[tuple[LSN, LogEntry]]:
    async def read() -> list[tuple[LSN, LogEntry]]:
        return [item async for item in source.database.log.read(LSN(-1, -1))]

    return asyncio.run(read())


def test_a_large_transactions_time_is_found(source: Source) -> None:
    """Its time is in its first entry, many entries before the one in which it takes effect."""
    source.run("CREATE TABLE t (x int PRIMARY KEY, s text)")
    source.run("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 12000) AS g(i)")
    lsn = source.checkpoint()
    found = asyncio.run(process_moment(source, lsn, 1 << 60))
    entries = _entries(source)
    assert len(entries) > 9
    assert found.time_us < 1 << 60
    assert found.time_us == int.from_bytes(entries[1][1].parts[0].data[:8], "big")


def test_what_is_there_is_not_written_again(source: Source, tmp_path: Path) -> None:
    """At the same position, unless it is damaged."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source.checkpoint()
    first = published(source, tmp_path)
    ref, table = table_of(tmp_path, "t")
    path = tmp_path / ref.directory / table.files[0].path
    before = path.stat().st_mtime_ns
    assert published(source, tmp_path) == first
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mtime_ns == before
    path.unlink()
    assert published(source, tmp_path).lsn == first.lsn
    assert rows(tmp_path, "t")[0]["x"] == 1


def test_others_go_as_decided(source: Source, tmp_path: Path) -> None:
    """The server learns what is there, newest first, and what it keeps stays."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)")
    told: list[Snapshots] = []
    lsns: list[LSN] = []

    async def decide(done: Published, found: Snapshots) -> Collection[LSN]:
        told.append(found)
        return [done.lsn, lsns[0]]

    for x in range(3):
        source.run(f"INSERT INTO t VALUES ({x})")
        lsns.append(source.checkpoint())
        asyncio.run(publish(Order(source.store, str(tmp_path), "herd"), source.moment, decide))
    assert [[lsn for lsn, _time in found] for found in told] == [lsns[:1], lsns[1::-1], lsns[2::-1]]
    assert [one.lsn for one in snapshots(str(tmp_path), "herd")] == [lsns[2], lsns[0]]


def test_changes_during_it_do_not_show(source: Source, tmp_path: Path) -> None:
    """What is written, dropped and checkpointed while the process reads belongs to a later position."""
    source.run("CREATE TABLE a (x int PRIMARY KEY)", "CREATE TABLE b (x int PRIMARY KEY)")
    source.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    lsn = source.checkpoint()

    async def moment(at: LSN) -> Moment:  # the process holds its state by now
        source.run("UPDATE a SET x = 2", "DROP TABLE b")
        source.checkpoint()
        return await source.moment(at)

    order = Order(source.store, str(tmp_path), "herd")
    assert asyncio.run(publish(order, moment, keep)).lsn == lsn
    assert [row["x"] for row in rows(tmp_path, "a") + rows(tmp_path, "b")] == [1, 1]


def test_a_killed_process_leaves_no_snapshot(source: Source, tmp_path: Path) -> None:
    """kill -9 before the manifest: an error that says so, files that the next one clears."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source.checkpoint()

    async def killed(lsn: LSN) -> Moment:
        pid = children()[0]
        path = tmp_path / "herd" / f"{lsn.ledger_id:020d}-{lsn.entry_id:020d}" / f"t{table_id}"
        while not path.exists() or not any(path.iterdir()):
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        return await source.moment(lsn)

    table_id = source.database.store.catalog.by_name["t"].id
    with pytest.raises(SqlError, match="ended before it was done"):
        asyncio.run(publish(Order(source.store, str(tmp_path), "herd"), killed, keep))
    assert snapshots(str(tmp_path), "herd") == []
    (left,) = (tmp_path / "herd").iterdir()
    source.run("INSERT INTO t VALUES (2)")
    lsn = source.checkpoint()

    async def newest(done: Published, _found: Snapshots) -> Collection[LSN]:
        return [done.lsn]

    asyncio.run(publish(Order(source.store, str(tmp_path), "herd"), source.moment, newest))
    assert [one.lsn for one in snapshots(str(tmp_path), "herd")] == [lsn]
    assert not left.exists()


def children() -> list[int]:
    """Processes that this one has started to publish."""
    me = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == me and b"publishing" in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
    return found


def test_cancelling_ends_the_process(source: Source, tmp_path: Path) -> None:
    """Whoever gives it up waits until it is gone, and there is no snapshot."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)")
    source.checkpoint()

    async def run() -> None:
        reached = asyncio.Event()

        async def never(_lsn: LSN) -> Moment:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(publish(Order(source.store, str(tmp_path), "herd"), never, keep))
        await reached.wait()
        assert len(children()) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert children() == []

    asyncio.run(run())
    assert snapshots(str(tmp_path), "herd") == []


def test_a_process_that_says_nothing_is_killed(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that never answers does not hold the server's publishing for ever."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)")
    source.checkpoint()
    monkeypatch.setattr(publisher, "STALLED_AFTER_S", 0.0)
    with pytest.raises(SqlError, match="nothing was written"):
        published(source, tmp_path)
    assert children() == []


def test_places_that_refuse(source: Source, tmp_path: Path) -> None:
    """A file where the directory should be, and a scheme that nobody knows, are reported as they are."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source.checkpoint()
    (tmp_path / "file").write_text("")
    for url, said in ((tmp_path / "file", "file"), ("nowhere://x", "nowhere")):
        with pytest.raises(SqlError, match=said) as caught:
            published(source, url)
        assert caught.value.sqlstate == "58030"


def test_rows_that_are_not_those_that_were_written(source: Source, tmp_path: Path) -> None:
    """A store whose rows do not fit its checksums is not published."""
    source.run("CREATE TABLE t (x int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    source.checkpoint()
    table = source.database.store.catalog.by_name["t"]
    disk = source.database.store.disk
    with disk.env.begin(write=True) as txn:
        txn.delete(table.key_codec.encode([2]), db=disk.handles[table.id])
    with pytest.raises(SqlError, match="table t has 1 rows") as caught:
        published(source, tmp_path)
    assert caught.value.sqlstate == "XX001"
    assert snapshots(str(tmp_path), "herd") == []
