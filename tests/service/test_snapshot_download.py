"""The client's half: a download that goes on whatever happens, and that takes nothing wrong for right."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google_crc32c import value as crc32c
from xxhash import xxh3_128

from herdpy.rpc import common_pb2, snapshots, snapshots_pb2, snapshots_pb2_grpc
from herdpy.rpc.address import GrpcAddress, RemoteError, SnapshotDamagedError
from herdpy.rpc.snapshots import Partial, RemoteSnapshot, SnapshotClient

CHUNK = 1000
FILE = bytes(range(256)) * 40  # 10 chunks and a bit


class Scripted(snapshots_pb2_grpc.SnapshotsServicer):
    """Serves a file; what it does wrong is said by ``faults``, one for each Fetch.

    Attributes:
        faults: called with a chunk's offset; gives other chunks to send, or ends the call.
        offsets: those that were asked for.
    """

    def __init__(self) -> None:
        self.faults: list[Callable[[Any, grpc.ServicerContext], Any]] = []
        self.offsets: list[int] = []
        self.renewals = 0

    def Fetch(self, request: Any, context: Any) -> Iterator[Any]:
        self.offsets.append(request.offset)
        fault = self.faults.pop(0) if self.faults else None
        for offset in range(request.offset, len(FILE), CHUNK):
            data = FILE[offset : offset + CHUNK]
            chunk = snapshots_pb2.SnapshotChunk(offset=offset, data=data, crc32c=crc32c(data))
            if fault is not None and (chunk := fault(chunk, context)) is None:
                return
            yield chunk

    def Renew(self, request: Any, context: Any) -> Any:
        self.renewals += 1
        return snapshots_pb2.Snapshot(id=request.id)

    def Describe(self, request: Any, context: Any) -> Any:
        return snapshots_pb2.Snapshot(
            id=request.id,
            lsn=common_pb2.Lsn(ledger_id=3, entry_id=7),
            size_bytes=len(FILE),
            xxh3_128=xxh3_128(FILE).hexdigest(),
        )


@pytest.fixture
def scripted() -> Iterator[tuple[Scripted, GrpcAddress]]:
    servicer = Scripted()
    server = grpc.server(ThreadPoolExecutor(4))
    snapshots_pb2_grpc.add_SnapshotsServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, GrpcAddress("127.0.0.1", port)
    server.stop(0).wait()


def download(place: GrpcAddress, path: Path, **more: Any) -> RemoteSnapshot:
    """Download the snapshot of the scripted server."""

    async def run() -> RemoteSnapshot:
        async with SnapshotClient(place) as client:
            snapshot = await client.describe("one")
            await client.download(snapshot, path, **more)
            return snapshot

    return asyncio.run(run())


def flipped(at: int) -> Callable[[Any, Any], Any]:
    """Changes a bit of the chunk at an offset."""

    def fault(chunk: Any, _context: Any) -> Any:
        if chunk.offset == at:
            chunk.data = bytes([chunk.data[0] ^ 1]) + chunk.data[1:]
        return chunk

    return fault


def broken(at: int, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> Callable[[Any, Any], Any]:
    """Ends the call with an error before the chunk at an offset."""

    def fault(chunk: Any, context: Any) -> Any:
        if chunk.offset == at:
            context.abort(code, "of the test")
        return chunk

    return fault


def test_a_whole_file_arrives_and_its_progress_is_told(scripted, tmp_path):
    servicer, place = scripted
    told: list[tuple[int, int]] = []
    snapshot = download(place, tmp_path / "data", progress=lambda done, total: told.append((done, total)))
    assert (snapshot.lsn, snapshot.size_bytes) == ((3, 7), len(FILE))
    assert (tmp_path / "data").read_bytes() == FILE
    assert told == [(min(n, len(FILE)), len(FILE)) for n in range(0, len(FILE) + CHUNK, CHUNK)]
    assert servicer.offsets == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    "fault",
    [
        broken(3000),
        broken(3000, grpc.StatusCode.INTERNAL),
        flipped(3000),
        lambda chunk, _context: None if chunk.offset == 3000 else chunk,
        lambda chunk, _context: shifted(chunk) if chunk.offset == 3000 else chunk,
    ],
    ids=["broken off", "internal error", "damaged", "ended too early", "another offset"],
)
def test_it_goes_on_where_it_was(scripted, tmp_path, fault):
    servicer, place = scripted
    servicer.faults = [fault]
    download(place, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == FILE
    assert servicer.offsets == [0, 3000]


def shifted(chunk: Any) -> Any:
    """A chunk that says to be another one."""
    chunk.offset += 1
    return chunk


def test_what_is_damaged_each_time_is_not_taken(scripted, tmp_path):
    servicer, place = scripted
    servicer.faults = [flipped(2000)] * 10
    with pytest.raises(SnapshotDamagedError, match="offset 2000"):
        download(place, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert servicer.offsets == [0, 2000, 2000]
    servicer.faults = []
    download(place, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == FILE


def test_a_file_that_is_wrong_as_a_whole_is_not_taken(scripted, tmp_path):
    servicer, place = scripted

    def lies(chunk: Any, _context: Any) -> Any:
        if chunk.offset == 1000:
            chunk.data = bytes(CHUNK)
            chunk.crc32c = crc32c(chunk.data)
        return chunk

    servicer.faults = [lies]
    with pytest.raises(SnapshotDamagedError, match="not what it is"):
        download(place, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    download(place, tmp_path / "data")  # nothing of it was kept
    assert servicer.offsets == [0, 0]
    assert (tmp_path / "data").read_bytes() == FILE


def test_a_download_that_compares_no_checksum_is_found_out(scripted, tmp_path, monkeypatch):
    def compares_no_checksum(_path):
        return xxh3_128(FILE).hexdigest()

    monkeypatch.setattr(snapshots, "_checksum", compares_no_checksum)
    with pytest.raises(pytest.fail.Exception):
        test_a_file_that_is_wrong_as_a_whole_is_not_taken(scripted, tmp_path)


@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED])
def test_what_will_not_get_better_is_told_at_once(scripted, tmp_path, code):
    servicer, place = scripted
    servicer.faults = [broken(3000, code)] * 2
    with pytest.raises(RemoteError) as caught:
        download(place, tmp_path / "data")
    assert caught.value.code is code
    assert len(servicer.offsets) == 1
    assert (tmp_path / "data.part").stat().st_size == 3000


def test_patience_ends(scripted, tmp_path, monkeypatch):
    seconds = itertools.count()  # each look at the clock is one later
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr("herdpy.rpc.snapshots.time", clock)
    servicer, place = scripted
    servicer.faults = [broken(3000)] * 1000
    with pytest.raises(RemoteError) as caught:
        download(place, tmp_path / "data", patience_s=0.0)
    assert caught.value.is_transient
    assert servicer.offsets == [0]
    with pytest.raises(RemoteError):
        download(place, tmp_path / "data", patience_s=1.5)
    assert servicer.offsets[1:] == [3000, 3000]


def test_the_lease_is_renewed_meanwhile(scripted, tmp_path):
    servicer, place = scripted

    def wait(chunk: Any, _context: Any) -> Any:
        if chunk.offset == 5000:
            while servicer.renewals < 3:
                pass
        return chunk

    servicer.faults = [wait]
    download(place, tmp_path / "data", lease_s=0.1)
    assert servicer.renewals >= 3


@pytest.mark.parametrize(
    ("damage", "right"),
    [
        (lambda data, records: None, 5000),
        (lambda data, records: flip(data, 3500), 3000),
        (lambda data, records: cut(data, 4500), 4000),
        (lambda data, records: cut(records, 16 * 2 + 3), 2000),
        (lambda data, records: flip(records, 16), 1000),
        (lambda data, records: data.write_bytes(data.read_bytes() + b"more"), 5000),
        (lambda data, records: records.unlink(), 0),
        (lambda data, records: data.unlink(), 0),
    ],
    ids=["nothing", "a bit", "a cut", "a cut record", "a bit of a record", "more", "no records", "no data"],
)
def test_what_a_crash_left_is_compared_before_it_is_gone_on_with(scripted, tmp_path, damage, right):
    servicer, place = scripted
    servicer.faults = [broken(5000, grpc.StatusCode.UNAUTHENTICATED)]
    with pytest.raises(RemoteError):
        download(place, tmp_path / "data")
    damage(tmp_path / "data.part", tmp_path / "data.part.chunks")
    download(place, tmp_path / "data")
    assert servicer.offsets == [0, right]
    assert (tmp_path / "data").read_bytes() == FILE


def flip(path: Path, at: int) -> None:
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut(path: Path, at: int) -> None:
    """Shorten a file."""
    path.write_bytes(path.read_bytes()[:at])


def test_a_partial_file_knows_its_end(tmp_path):
    partial = Partial(tmp_path / "x")
    partial.write(b"abc", crc32c(b"abc"))
    partial.write(b"de", crc32c(b"de"))
    partial.close()
    again = Partial(tmp_path / "x")
    assert again.offset == 5
    again.clear()
    again.close()
    assert Partial(tmp_path / "x").offset == 0
