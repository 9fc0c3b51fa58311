"""The service Snapshots of a server process: what a snapshot is, how long it is kept, how it is streamed."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc
import pytest
from google_crc32c import value as crc32c
from xxhash import xxh3_128

from herdpy.log import FileLog, LogSettings, TransactionAssembler
from herdpy.log.lsn import LSN, START
from herdpy.rpc import snapshots_pb2 as pb
from herdpy_server.store import Store
from herdpy_server.tablespace.directory import seed
from tests.service.calls import refused, snapshots, told

MIB = 1 << 20


def fetched(stub, one, offset=0) -> bytes:
    """The file from an offset; every chunk is checked."""
    data = bytearray()
    for chunk in stub.Fetch(pb.FetchRequest(id=one.id, offset=offset)):
        assert chunk.offset == offset + len(data)
        assert 0 < len(chunk.data) <= MIB
        assert chunk.crc32c == crc32c(chunk.data)
        data += chunk.data
    return bytes(data)


def fill(server, table: str, mib: int) -> None:
    """A table of about so many MiB."""
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, body TEXT)")
        connection.execute(
            f"INSERT INTO {table} SELECT g, repeat(chr(65 + g % 26), 8000) "
            f"FROM generate_series(1, {mib * 128}) g"
        )


def test_a_snapshot_is_what_it_says_from_every_offset(server, channel):
    fill(server, "described", 3)
    stub = snapshots(channel)
    one = stub.Begin(pb.BeginSnapshotRequest(lease_s=600))
    assert 0 < one.lease.remaining_s <= 600
    data = fetched(stub, one)
    assert len(data) == one.size_bytes > 2 * MIB
    assert xxh3_128(data).hexdigest() == one.xxh3_128
    for offset in (1, MIB - 1, MIB, MIB + 1, one.size_bytes - 1, one.size_bytes):
        assert fetched(stub, one, offset) == data[offset:]
    for offset in (-1, one.size_bytes + 1):
        found = refused(lambda offset=offset: fetched(stub, one, offset))
        assert found[:2] == (grpc.StatusCode.OUT_OF_RANGE, "22003")
    again = stub.Describe(pb.SnapshotId(id=one.id))
    assert (again.id, again.lsn, again.xxh3_128) == (one.id, one.lsn, one.xxh3_128)
    stub.Release(pb.SnapshotId(id=one.id))


def test_released_and_expired_snapshots_are_gone_with_their_files(server, channel):
    stub = snapshots(channel)
    folder = server.data / "snapshots"
    kept = stub.Begin(pb.BeginSnapshotRequest())
    short = stub.Begin(pb.BeginSnapshotRequest(lease_s=0.1))
    released = stub.Begin(pb.BeginSnapshotRequest())
    assert stub.List(pb.ListSnapshotsRequest()).snapshots[0].id == kept.id
    stub.Release(pb.SnapshotId(id=released.id))
    stub.Release(pb.SnapshotId(id=released.id))  # once more is no error
    while [one.id for one in stub.List(pb.ListSnapshotsRequest()).snapshots] != [kept.id]:
        pass
    for gone in (short, released):
        for call in (
            lambda gone=gone: stub.Describe(pb.SnapshotId(id=gone.id)),
            lambda gone=gone: fetched(stub, gone),
            lambda gone=gone: stub.Renew(pb.RenewSnapshotRequest(id=gone.id)),
        ):
            assert refused(call)[:2] == (grpc.StatusCode.NOT_FOUND, "42704")
    renewed = stub.Renew(pb.RenewSnapshotRequest(id=kept.id, lease_s=5000))
    assert 4000 < renewed.lease.remaining_s <= 5000
    stub.Release(pb.SnapshotId(id=kept.id))
    server.wait_for(lambda record: record["message"] == "snapshot removed" and record["id"] == kept.id)
    while any(folder.iterdir()):
        pass


def test_a_snapshot_that_nobody_waits_for_is_not_kept(server, channel):
    fill(server, "unwanted", 24)
    stub = snapshots(channel)
    folder = server.data / "snapshots"

    def names():
        return {path.name for path in folder.glob("*")}  # the first snapshot makes the folder

    before = {one.id for one in stub.List(pb.ListSnapshotsRequest()).snapshots}
    call = stub.Begin.future(pb.BeginSnapshotRequest())
    while not (there := names() - before):
        pass
    call.cancel()
    while there & names():
        pass
    assert {one.id for one in stub.List(pb.ListSnapshotsRequest()).snapshots} == before


def test_there_is_a_limit_to_snapshots(start, channels):
    server = start("--set", "grpc.max_snapshots=1").ready()
    stub = snapshots(channels(server))
    one = stub.Begin(pb.BeginSnapshotRequest())
    found = refused(lambda: stub.Begin(pb.BeginSnapshotRequest()))
    assert found[:2] == (grpc.StatusCode.RESOURCE_EXHAUSTED, "53400")
    stub.Release(pb.SnapshotId(id=one.id))
    assert stub.Begin(pb.BeginSnapshotRequest()).id


def test_a_snapshot_outlives_its_server_and_half_a_one_does_not(start, channels, tmp_path):
    first = start()
    first.ready()
    one = snapshots(channels(first)).Begin(pb.BeginSnapshotRequest())
    assert first.stop() == 0
    half = first.data / "snapshots" / "half"
    half.mkdir()
    (half / "data.mdb").write_bytes(b"some")
    stub = snapshots(channels(start().ready()))
    (found,) = stub.List(pb.ListSnapshotsRequest()).snapshots
    assert (found.id, found.lsn, found.xxh3_128) == (one.id, one.lsn, one.xxh3_128)
    assert xxh3_128(fetched(stub, found)).hexdigest() == one.xxh3_128
    assert not half.exists()


def test_a_slow_reader_holds_little_and_gets_everything(server, channel):
    fill(server, "slow", 48)
    stub = snapshots(channel)
    one = stub.Begin(pb.BeginSnapshotRequest())
    stream = stub.Fetch(pb.FetchRequest(id=one.id))
    first = next(stream)
    size, steady, last = len(first.data), 0, -1
    while steady < 100:  # the server answers so often while it could have gone on
        now = stub.Describe(pb.SnapshotId(id=one.id)).fetched_bytes
        steady, last = (steady + 1, now) if now == last else (0, now)
    assert last <= 12 * MIB < one.size_bytes
    size += sum(len(chunk.data) for chunk in stream)
    assert size == one.size_bytes
    stub.Release(pb.SnapshotId(id=one.id))


def test_a_reader_who_goes_away_leaves_nothing(server, channel):
    stub = snapshots(channel)
    fill(server, "left", 8)
    one = stub.Begin(pb.BeginSnapshotRequest())
    streams = [stub.Fetch(pb.FetchRequest(id=one.id)) for _ in range(5)]
    for stream in streams:
        next(stream)
    stub.Release(pb.SnapshotId(id=one.id))  # those who fetch it come to their end first
    rest = [streams[0], streams[1]]
    for stream in streams[2:]:
        stream.cancel()
    for stream in rest:
        assert sum(len(chunk.data) for chunk in stream) < one.size_bytes
    while (server.data / "snapshots" / one.id).exists():
        pass
    assert not [path for path in Path(f"/proc/{server.pid}/fd").iterdir() if is_open(path, one.id)]


def is_open(path: Path, name: str) -> bool:
    """Whether a descriptor is of a file with such a path."""
    try:
        return name in str(path.readlink())
    except FileNotFoundError:
        return False


def test_a_file_that_was_cut_is_told(server, channel):
    fill(server, "cut", 3)
    stub = snapshots(channel)
    one = stub.Begin(pb.BeginSnapshotRequest())
    path = server.data / "snapshots" / one.id / "data.mdb"
    with path.open("r+b") as file:
        file.truncate(one.size_bytes - 1)
    assert refused(lambda: fetched(stub, one))[:2] == (grpc.StatusCode.DATA_LOSS, "XX001")
    stub.Release(pb.SnapshotId(id=one.id))


@pytest.fixture
def load(start):
    """A server under writes: transactions of one writer, numbered without gaps."""
    server = start("--set", "storage.checkpoint_interval_s=0.05").ready()
    connection = server.connect()
    connection.execute("CREATE TABLE seq (n INT PRIMARY KEY, body TEXT)")
    connection.execute("CREATE TABLE last (id INT PRIMARY KEY, n INT)")
    connection.execute("INSERT INTO last VALUES (1, 0)")
    acked, over = [0], threading.Event()

    def write() -> None:
        while not over.is_set():
            n = acked[0] + 1
            with connection.transaction():
                connection.execute("INSERT INTO seq VALUES (%s, repeat('x', 500))", (n,))
                connection.execute("UPDATE last SET n = %s WHERE id = 1", (n,))
            acked[0] = n

    def stop() -> None:
        over.set()
        writer.join()

    writer = threading.Thread(target=write)
    writer.start()
    yield server, acked, stop
    stop()


def replayed(log_directory: Path, store_directory: Path, upto: LSN) -> dict[int, tuple[int, int]]:
    """(rows, checksum) by table, of a log's entries up to a position, applied to an empty store."""
    log = FileLog(str(log_directory), lambda _appends, _error: None, settings=LogSettings())
    store = Store.open(store_directory)
    assembler = TransactionAssembler(START)
    cursor = log.cursor(START)
    while (entry := cursor.next(upto)) is not None:
        whole = assembler.feed(entry)
        store.apply(entry.lsn, [record for _lsn, one in whole for record in one.records])
    cursor.close()
    assert store.applied == upto
    store.flush()
    sums = store.table_checksums()
    store.close()
    log.close()
    return sums


def test_snapshots_under_writes_are_the_state_at_their_positions(load, channels, tmp_path):
    server, acked, stop = load
    stub = snapshots(channels(server))
    taken = []
    for number in range(3):
        target = acked[0] + 30
        while acked[0] < target:
            pass
        before = acked[0]
        one = stub.Begin(pb.BeginSnapshotRequest())
        after = acked[0] + 1
        path = tmp_path / f"data{number}"
        path.write_bytes(fetched(stub, one))
        taken.append((before, after, one, path))
    stop()
    assert server.stop() == 0
    for number, (before, after, one, path) in enumerate(taken):
        lsn = LSN(one.lsn.ledger_id, one.lsn.entry_id)
        copy = tmp_path / f"copy{number}"
        seed(copy, path, lsn)
        store = Store.open(copy / "store")
        assert store.durable == lsn
        assert list(store.check()) == []
        sums = store.table_checksums()
        by_name = {table.name: sums[table.id][0] for table in store.catalog.tables.values()}
        store.close()
        assert before <= by_name["seq"] <= after
        assert sums == replayed(server.data / "log", tmp_path / f"replayed{number}", lsn)


def test_a_stream_that_meets_the_end_of_the_server_is_told(start, channels):
    server = start("--set", "shutdown.graceful_timeout_s=0.1").ready()
    fill(server, "ended", 24)
    stub = snapshots(channels(server))
    one = stub.Begin(pb.BeginSnapshotRequest())
    stream = stub.Fetch(pb.FetchRequest(id=one.id))
    next(stream)
    assert server.stop() == 0
    with pytest.raises(grpc.RpcError) as caught:
        for _chunk in stream:
            pass
    assert told(caught.value)[0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
