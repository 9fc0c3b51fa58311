"""The ledger store over the model and over a real ZooKeeper: races, lost replies, deletion, listing."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from herdpy.bookkeeper.errors import (
    LedgerExistsError,
    MetadataError,
    MetadataVersionError,
    NoSuchLedgerError,
    Outcome,
    ZooKeeperUnavailableError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode_metadata
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned, update
from herdpy.bookkeeper.metadata.paths import LedgerLayout, Scheme
from herdpy.bookkeeper.metadata.znodes import Znodes
from tests.support.znode_worlds import Meddler, Seen, World

LEDGER = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),), password=b"pw", custom_metadata={"n": b"0"})


def store_of(
    znodes: Znodes, world: World, scheme: Scheme = Scheme.LONG, patience_s: float = 30
) -> LedgerStore:
    return LedgerStore(znodes, world.root, LedgerLayout.of(scheme), patience_s=patience_s)


async def meddled(world: World, patience_s: float = 30) -> tuple[Meddler, LedgerStore]:
    meddler = Meddler(await world.client())
    return meddler, store_of(meddler, world, patience_s=patience_s)


def counted(ledger: LedgerMetadata) -> int:
    return int(ledger.custom_metadata["n"])


def plus_one(ledger: LedgerMetadata) -> LedgerMetadata:
    return dataclasses.replace(ledger, custom_metadata={"n": b"%d" % (counted(ledger) + 1)})


@pytest.mark.parametrize("scheme", Scheme)
def test_a_ledger_is_created_read_changed_and_deleted(world: World, scheme: Scheme) -> None:
    async def program() -> None:
        znodes = await world.client()
        store = store_of(znodes, world, scheme)
        ledger_id, created = await store.create(lambda ledger_id: LEDGER)
        assert ledger_id == 0
        assert created.version == 0
        assert created.metadata.c_token is not None
        found = await store.read(ledger_id)
        assert found.version == 0
        assert found.metadata.ctime_ms is not None
        assert dataclasses.replace(found.metadata, ctime_ms=None, stores_ctime=True) == created.metadata
        written = await store.write(ledger_id, found.metadata.closed(-1, 0), 0)
        assert (written.version, written.metadata.state) == (1, LedgerState.CLOSED)
        assert await store.read(ledger_id) == written
        second, _ = await store.create(LEDGER)
        assert second > ledger_id  # in the flat scheme the ledgers themselves use up numbers
        await store.delete(ledger_id)
        for operation in (store.read(0), store.write(0, LEDGER, 0), store.delete(0)):
            with pytest.raises(NoSuchLedgerError) as missing:
                await operation
            assert (missing.value.ledger_id, missing.value.outcome) == (0, Outcome.NOT_DONE)
        assert [found async for found in store.list()] == [second]

    world.run(program)


def test_an_id_that_is_taken_is_refused_or_passed_over(world: World) -> None:
    async def program() -> None:
        store = store_of(await world.client(), world)
        await store.create(LEDGER, 0)
        await store.create(LEDGER, 1)
        with pytest.raises(LedgerExistsError):
            await store.create(LEDGER, 1)
        ledger_id, _ = await store.create(LEDGER)
        assert ledger_id == 2

    world.run(program)


def test_a_write_with_an_old_version_is_refused(world: World) -> None:
    async def program() -> None:
        store = store_of(await world.client(), world)
        ledger_id, created = await store.create(LEDGER)
        first = await store.write(ledger_id, plus_one(LEDGER), created.version)
        with pytest.raises(MetadataVersionError) as lost:
            await store.write(ledger_id, LEDGER.closed(5, 5), created.version)
        assert lost.value.outcome is Outcome.NOT_DONE
        assert (await store.read(ledger_id)).version == first.version

    world.run(program)


def test_concurrent_updaters_lose_no_update(world: World) -> None:
    async def program() -> None:
        stores = [store_of(await world.client(), world) for _ in range(4)]
        ledger_id, created = await stores[0].create(LEDGER)

        async def add(store: LedgerStore, times: int) -> None:
            current = created  # old news from the second round on
            for _ in range(times):
                await update(store, ledger_id, current, plus_one)

        await asyncio.gather(*(add(store, 10) for store in stores))
        end = await stores[0].read(ledger_id)
        assert (counted(end.metadata), end.version) == (40, 40)

    world.run(program)


def test_an_update_decides_anew_on_what_it_finds(world: World) -> None:
    async def program() -> None:
        store = store_of(await world.client(), world)
        ledger_id, created = await store.create(LEDGER)
        closed = await store.write(ledger_id, LEDGER.closed(7, 70), created.version)

        def recover(ledger: LedgerMetadata) -> LedgerMetadata | None:
            return None if ledger.is_closed else ledger.in_recovery()

        found = await update(store, ledger_id, created, recover)
        assert found.version == closed.version
        assert found.metadata.last_entry_id == 7

    world.run(program)


def test_creation_survives_a_lost_reply(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        meddler.lose_replies = ["create"]  # the reply about the ledger's own znode
        created = await store.create(LEDGER, 5)
        assert created[1].version == 0
        assert (await store.read(5)).metadata.c_token == created[1].metadata.c_token

    world.run(program)


def test_creation_survives_a_lost_request(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        meddler.lose_requests = ["create", "create"]
        assert (await store.create(LEDGER, 5))[1].version == 0

    world.run(program)


def test_a_reply_lost_while_another_creates_is_not_taken_for_success(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        other = store_of(await world.client(), world)

        async def other_first() -> None:
            await other.create(LEDGER, 5)

        meddler.lose_requests = ["create"]
        meddler.before["create"] = other_first
        with pytest.raises(LedgerExistsError) as taken:
            await store.create(LEDGER, 5)
        assert taken.value.ledger_id == 5

    world.run(program)


def test_a_created_ledger_that_was_changed_before_the_reply_is_returned_as_it_is(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        other = store_of(await world.client(), world)
        meddler.lose_replies = ["create"]
        creating = asyncio.ensure_future(store.create(LEDGER, 5))
        seen = Seen()
        other.watch(5, seen)
        found = await seen.until(lambda versioned: versioned is not None)
        await other.write(5, found.metadata.in_recovery(), 0)
        _, created = await creating
        assert (created.version, created.metadata.state) == (1, LedgerState.IN_RECOVERY)

    world.run(program)


def test_new_ids_survive_lost_replies(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        meddler.lose_replies = ["create", "delete", "create"]
        first = await store.create(LEDGER)
        second = await store.create(LEDGER)
        assert first[0] < second[0]
        assert [found async for found in store.list()] == [first[0], second[0]]

    world.run(program)


@pytest.mark.parametrize("lost", ["lose_requests", "lose_replies"])
def test_a_write_in_doubt_becomes_certain(world: World, lost: str) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        ledger_id, created = await store.create(LEDGER)
        setattr(meddler, lost, ["set"])
        written = await store.write(ledger_id, plus_one(LEDGER), created.version)
        assert written.version == 1
        end = await store.read(ledger_id)
        assert (end.version, counted(end.metadata)) == (1, 1)

    world.run(program)


def test_a_write_in_doubt_that_another_overtook_is_a_lost_race(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        other = store_of(await world.client(), world)
        ledger_id, created = await store.create(LEDGER)

        async def other_first() -> None:
            await other.write(ledger_id, LEDGER.in_recovery(), 0)

        meddler.before["set"] = other_first
        meddler.lose_requests = ["set"]
        with pytest.raises(MetadataVersionError) as lost:
            await store.write(ledger_id, LEDGER.closed(1, 1), created.version)
        assert lost.value.outcome is Outcome.UNKNOWN
        assert (await store.read(ledger_id)).metadata.state is LedgerState.IN_RECOVERY

    world.run(program)


def test_without_any_answer_the_outcome_is_unknown(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world, patience_s=0.2)
        ledger_id, created = await store.create(LEDGER)
        for name, operation in (
            ("set", store.write(ledger_id, plus_one(LEDGER), created.version)),
            ("delete", store.delete(ledger_id)),
            ("create", store.create(LEDGER, 9)),
        ):
            meddler.lose_requests = [name] * 100
            with pytest.raises(ZooKeeperUnavailableError) as unanswered:
                await operation
            assert unanswered.value.outcome is Outcome.UNKNOWN
            meddler.lose_requests = []
        assert await store.read(ledger_id) is not None

    world.run(program)


def test_deletion_survives_a_lost_reply_and_takes_empty_directories_along(world: World) -> None:
    async def program() -> None:
        meddler, store = await meddled(world)
        await store.create(LEDGER, 5)
        await store.create(LEDGER, 10005)
        await store.create(LEDGER, 10006)
        meddler.lose_replies = ["delete"]
        await store.delete(5)
        assert await meddler.children(f"{world.root}/000/0000/0000") == ["0001"]
        await store.delete(10005)
        assert await meddler.children(f"{world.root}/000/0000/0000/0001") == ["L0006"]
        await store.delete(10006)
        assert await meddler.children(world.root) == []

    world.run(program)


@pytest.mark.parametrize(
    ("scheme", "ids"),
    [
        (Scheme.LONG, [0, 9, 10, 9999, 10000, 2**31 - 1, 2**32 + 5, 2**63 - 1]),
        (Scheme.HIERARCHICAL, [0, 9, 10, 9999, 10000, 2**31 - 2, 2**31 - 1, 2**32 + 5]),
        (Scheme.FLAT, [0, 9, 10, 9999999999, 10000000000]),
    ],
)
def test_all_ledgers_are_listed_in_order_and_nothing_else(
    world: World, scheme: Scheme, ids: list[int]
) -> None:
    async def program() -> None:
        znodes = await world.client()
        store = store_of(znodes, world, scheme)
        for name in (
            *("LAYOUT", "INSTANCEID", "available/readonly", "cookies/a:1", "underreplication/ledgers/0000"),
            *(
                "idgen/ID-0000000001",
                "idgen-long/HOB-0000000001",
                "ID-0000000002",
                "999/9999/9999/9999/L9999",
            ),
            *("000/0000/0000/stray", "00/stray", "L5", "x"),
        ):
            await znodes.create(f"{world.root}/{name}", make_parents=True)
        for ledger_id in reversed(ids):
            await store.create(LEDGER, ledger_id)
        assert [found async for found in store.list()] == ids

    world.run(program)


def test_a_listing_goes_directory_by_directory_and_meets_what_changes(world: World) -> None:
    async def program() -> None:
        _, store = await meddled(world)
        for ledger_id in (1, 2, 10001, 20001, 30001):
            await store.create(LEDGER, ledger_id)
        found = []
        async for ledger_id in store.list():
            found.append(ledger_id)
            if ledger_id == 2:
                await store.delete(10001)  # its directory goes with it
                await store.create(LEDGER, 30002)
        assert found == [1, 2, 20001, 30001, 30002]

    world.run(program)


def test_listing_where_no_cluster_is_says_so(world: World) -> None:
    async def program() -> None:
        store = store_of(await world.client(), world)
        with pytest.raises(MetadataError, match="does not exist"):
            await anext(aiter(store.list()))

    world.run(program)


def test_a_watch_tells_changes_and_deletion_but_not_garbage(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        znodes = await world.client()
        store = store_of(znodes, world)
        ledger_id, created = await store.create(LEDGER)
        seen = Seen()
        watch = store_of(await world.client(), world).watch(ledger_id, seen)
        await seen.until(lambda versioned: versioned.version == 0)
        await store.write(ledger_id, LEDGER.in_recovery(), 0)
        found: Versioned = await seen.until(lambda versioned: versioned.version == 1)
        assert found.metadata.state is LedgerState.IN_RECOVERY
        await znodes.set(store.paths.path(ledger_id), b"garbage", 1)
        with pytest.raises(MetadataError) as garbled:
            await store.read(ledger_id)
        assert garbled.value.ledger_id == ledger_id
        await znodes.set(store.paths.path(ledger_id), encode_metadata(LEDGER.closed(3, 30)), 2)
        await seen.until(lambda versioned: versioned.version == 3)
        await store.delete(ledger_id)
        await seen.until(lambda versioned: versioned is None)
        watch.cancel()
        assert created.version == 0
        assert {found.version for found in seen.all if found} <= {0, 1, 3}

    world.run(program)
