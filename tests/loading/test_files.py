"""Parts on a server's disk: whole or not there, bounded, kept for a time."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyarrow as pa
import pytest
from google_crc32c import value as crc32c

from herdpy_server.loading import files
from herdpy_server.loading.files import FilePart, StagedFiles
from herdpy_sql.errors import SqlError

BATCH = pa.RecordBatch.from_pydict({"id": [1, 2, 3]})


def stream(batch=BATCH):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def staged(tmp_path):
    with ThreadPoolExecutor(1) as threads:
        yield StagedFiles(tmp_path, threads)


async def stage(staged, load_id, data=None, crc=None):
    data = data or stream()
    async with staged.staging(load_id) as part:
        for at in range(0, len(data), 100):
            part.write(data[at : at + 100])
        return part.keep(crc32c(data) if crc is None else crc, 3)


def there(tmp_path):
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


def refused(batches):
    with pytest.raises(SqlError) as caught:
        list(batches)
    return caught.value.sqlstate


def test_parts_are_read_in_order(staged):
    async def run():
        return [await stage(staged, "a"), await stage(staged, "a", stream(BATCH.slice(1)))]

    first, second = asyncio.run(run())
    read = list(staged.batches("a", [second._replace(rows=2), first]))
    assert [(one.batch.num_rows, one.part, one.first) for one in read] == [(2, 1, 0), (3, 2, 0)]


def test_a_part_that_is_not_whole_leaves_nothing(staged, tmp_path):
    with pytest.raises(SqlError) as caught:
        asyncio.run(stage(staged, "a", crc=1))
    assert caught.value.sqlstate == "XX001"

    async def cut_off():
        async with staged.staging("a") as part:
            part.write(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(cut_off())
    assert there(tmp_path) == []


def test_what_is_not_what_was_staged_is_refused(staged, tmp_path):
    part = asyncio.run(stage(staged, "a"))
    assert refused(staged.batches("b", [part])) == "58P01"
    assert refused(staged.batches("a", [part._replace(id="../x")])) == "58P01"
    assert refused(staged.batches("a", [FilePart("", 0, 0, 0)])) == "58P01"
    assert refused(staged.batches("a", [part._replace(rows=4)])) == "22023"
    assert refused(staged.batches("a", [part._replace(crc=1)])) == "XX001"
    (name,) = there(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[-20] ^= 1
    (tmp_path / name).write_bytes(data)
    assert refused(staged.batches("a", [part])) == "XX001"
    garbage = asyncio.run(stage(staged, "a", b"no stream at all"))
    assert refused(staged.batches("a", [garbage])) == "22P04"


def test_a_full_disk_takes_nothing(staged, tmp_path, monkeypatch):
    full = SimpleNamespace(free=10 << 20)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _path: full)
    with pytest.raises(SqlError) as caught:
        asyncio.run(stage(staged, "a"))
    assert caught.value.sqlstate == "53100"
    assert there(tmp_path) == []


def test_parts_go_when_they_are_old_or_a_crash_left_them(staged, tmp_path):
    async def run():
        await stage(staged, "old")
        await stage(staged, "new")
        await stage(staged, "published")
        await staged.remove("published")
        await staged.remove("never there")
        old, new = sorted((tmp_path / "loads").iterdir(), key=lambda path: "new" in path.name)
        (half,) = new.glob("*.arrow")
        half.with_suffix(".new").write_bytes(b"half")
        assert await staged.sweep() == 0
        assert await staged.sweep(begins=True) == 1
        (part,) = old.glob("*.arrow")
        os.utime(part, (1, 1))
        assert await staged.sweep() == 1
        assert not old.exists()
        assert len(there(tmp_path)) == 1

    asyncio.run(run())
