"""A log read from real bookies: beside its leader, without it, and while a bookie dies."""

import asyncio
import os
import random
import threading
import uuid
import warnings

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.log import START, Insert, LogClosedError, LoggedTransaction, LogUnavailableError
from herdpy.log import detached as ledgers
from herdpy.log.bookkeeper import LedgerLogSettings, ZnodeLedgerList, take_over
from herdpy_spark.log import LogAddress, advance, bounds, end, entries, position_at


def address_of(cluster, path):
    zookeeper, _, root = cluster.uri.removeprefix("zk://").partition("/")
    return LogAddress("t", zookeeper=zookeeper, ledgers_root=f"/{root}", list_path=path, password=b"secret")


async def write(cluster, path, sizes, settings, epoch=1, rolls_at=()):
    """Transactions of these sizes, and where each took effect; the leader is gone afterwards.

    Another ledger is begun before the transactions of these numbers, whatever else begins one.
    """
    async with BookKeeper(cluster.uri) as bk:
        takeover = await take_over(bk, ZnodeLedgerList(bk.znodes, path), settings, "writer", epoch)
        log = await takeover.lead()
        ends = []
        for number, size in enumerate(sizes):
            if number in rolls_at:
                await log.aroll()
            ends.append(await log.append(LoggedTransaction(number, [Insert(1, b"key", b"x" * size)])))
        await log.aclose()
        return ends


@pytest.fixture
def closed_after():
    yield
    ledgers.close_clients()
    assert not ledgers._clients
    assert not [one for one in threading.enumerate() if one.name == "herdpy-log-reader"]


def test_a_log_is_read_from_the_bookies_alone(bookkeeper_cluster, closed_after):
    path = f"/spark-log/{uuid.uuid4().hex}/ledgers"
    settings = LedgerLogSettings(password=b"secret", max_entry_bytes=10_000, max_ledger_bytes=100_000)
    random_ = random.Random(3)
    sizes = [random_.choice([8, 100, 45_000]) for _ in range(60)]
    ends = asyncio.run(write(bookkeeper_cluster, path, sizes, settings, rolls_at=(17, 18, 42)))
    address = address_of(bookkeeper_cluster, path)
    assert len({lsn.ledger_id for lsn in ends}) >= 4
    assert bounds(address).base == START
    assert end(address) == ends[-1]
    numbers = [one.timestamp_us for entry in entries(address, START) for one in entry.transactions()]
    assert numbers == list(range(60))
    for number in (0, 17, 42):
        assert position_at(address, number) == ends[number]
        rest = [one.timestamp_us for entry in entries(address, ends[number]) for one in entry.transactions()]
        assert rest == list(range(number + 1, 60))
        assert advance(address, ends[number], 1) == ends[number + 1]
    stopped = entries(address, START)
    next(stopped)
    stopped.close()
    with pytest.raises(LogClosedError, match="is not there"):
        end(address_of(bookkeeper_cluster, path + "x"))


def test_a_leader_goes_on_while_its_log_is_read_and_nothing_is_fenced(bookkeeper_cluster, closed_after):
    path = f"/spark-log/{uuid.uuid4().hex}/ledgers"
    address = address_of(bookkeeper_cluster, path)

    async def program():
        async with BookKeeper(bookkeeper_cluster.uri) as bk:
            takeover = await take_over(
                bk,
                ZnodeLedgerList(bk.znodes, path),
                LedgerLogSettings(password=b"secret", max_ledger_bytes=5000),
                "writer",
                1,
            )
            log = await takeover.lead()
            for number in range(40):
                append = log.append(LoggedTransaction(number, [Insert(1, b"key", b"x" * 300)]))
                lsn = await append
                seen = await asyncio.to_thread(end, address)
                assert seen <= lsn
                if number % 8 == 0:
                    found = await asyncio.to_thread(list, entries(address, START, seen))
                    assert sum(len(entry.bodies) for entry in found) in (number, number + 1)
            assert log.failure is None
            await log.aclose()

    asyncio.run(program())


def test_a_bookie_that_dies_while_a_log_is_read_is_passed_over(own_cluster, closed_after):
    cluster = own_cluster(3)
    path = "/spark-log/ledgers"
    settings = LedgerLogSettings(password=b"secret", max_entry_bytes=200_000, max_ledger_bytes=4_000_000)
    asyncio.run(write(cluster, path, [900_000] * 40, settings))
    address = address_of(cluster, path)
    taken = []
    for entry in entries(address, START):
        taken += [one.timestamp_us for one in entry.transactions()]
        if len(taken) == 3 and cluster.bookies[0].is_running:
            cluster.bookies[0].kill()
    assert taken == list(range(40))
    assert end(address)


def test_no_zookeeper_is_an_error_that_names_it(closed_after, monkeypatch):
    monkeypatch.setattr(ledgers, "_ZOOKEEPER_TIMEOUT_S", 0.5)
    address = LogAddress("t", zookeeper="127.0.0.1:1", list_path="/x")
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1:1"):
        end(address)


def test_a_forked_worker_connects_by_itself(bookkeeper_cluster, closed_after):
    path = f"/spark-log/{uuid.uuid4().hex}/ledgers"
    settings = LedgerLogSettings(password=b"secret")
    ends = asyncio.run(write(bookkeeper_cluster, path, [8, 8], settings))
    address = address_of(bookkeeper_cluster, path)
    assert end(address) == ends[-1]  # this process has a client now
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what is shown here
        child = os.fork()
    if not child:
        try:
            os.write(writer, str(end(address)).encode())
            ledgers.close_clients()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == str(ends[-1])
    os.waitpid(child, 0)
    assert end(address) == ends[-1]
