"""Replicas' reports, leased readers and the claim to trim, on the model and on a real ZooKeeper."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy.log.lsn import LSN, START
from herdpy_server.cluster.errors import MalformedMetadataError, PositionTrimmedError
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.positions import Needs, Reports, claim_trim, now_us, read_needs, trimmed_before
from herdpy_server.cluster.readers import lease_reader, sweep_readers
from herdpy_server.cluster.session import ZooKeeperSession
from tests.support.znode_worlds import Meddler, World

HOUR_S = 3600.0


def paths_of(world: World):
    return Layout(world.root).tablespace("t")


def reports_of(world: World, znodes: Znodes, node: str = "a") -> tuple[ZooKeeperSession, Reports]:
    session = ZooKeeperSession(znodes)
    reports = Reports(znodes, session, paths_of(world), node, "1", report_s=0.05, keep_s=0.1)
    reports.start()
    return session, reports


async def needs_when(world: World, znodes: Znodes, wanted) -> Needs:
    """The needs, once they are as wanted."""
    while True:
        needs = await read_needs(znodes, paths_of(world))
        if wanted(needs):
            return needs
        await asyncio.sleep(0.02)


def test_state_and_position_are_told_and_kept(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        await znodes.create(paths_of(world).info, make_parents=True)
        session, reports = reports_of(world, znodes)
        reports.report("following", LSN(2, 5), LSN(2, 1), 7)
        needs = await needs_when(world, other, lambda needs: "a" in needs.positions)
        replica = needs.replicas["a"]
        assert (replica.state, replica.applied, replica.durable, replica.lag_entries) == (
            "following",
            LSN(2, 5),
            LSN(2, 1),
            7,
        )
        assert needs.positions["a"].durable == LSN(2, 1)
        reports.report("following", LSN(2, 9), LSN(2, 8))
        await needs_when(
            world,
            other,
            lambda needs: (
                needs.replicas["a"].applied == LSN(2, 9) and needs.positions["a"].durable == LSN(2, 8)
            ),
        )
        await reports.close()
        needs = await read_needs(other, paths_of(world))
        assert (needs.replicas, needs.positions["a"].durable) == ({}, LSN(2, 8))
        session.close()

    world.run(program)


def test_a_replica_is_told_again_in_a_new_session_and_forgotten_when_it_is_given_up(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        await znodes.create(paths_of(world).info, make_parents=True)
        _, reports = reports_of(world, znodes)
        reports.report("following", LSN(2, 5), LSN(2, 1))
        before = await needs_when(world, other, lambda needs: "a" in needs.positions)
        await world.expire(znodes)
        await needs_when(
            world,
            other,
            lambda needs: (
                "a" in needs.replicas and needs.replicas["a"].updated_us > before.replicas["a"].updated_us
            ),
        )
        await reports.close(forget=True)
        assert await read_needs(other, paths_of(world)) == Needs()

    world.run(program)


def test_reports_in_doubt(world: World) -> None:
    async def program() -> None:
        meddler, other = Meddler(await world.client()), await world.client()
        await other.create(paths_of(world).info, make_parents=True)
        meddler.lose_replies = ["create", "set"]
        meddler.lose_requests = ["create", "set"]
        _, reports = reports_of(world, meddler)  # type: ignore[arg-type]
        reports.report("following", LSN(2, 5), LSN(2, 1))
        needs = await needs_when(
            world,
            other,
            lambda needs: (
                "a" in needs.positions
                and needs.replicas.get("a") is not None
                and needs.replicas["a"].applied == LSN(2, 5)
            ),
        )
        assert needs.positions["a"].durable == LSN(2, 1)
        await reports.close()

    world.run(program)


def test_nothing_is_trimmed_past_a_replica_or_a_reader(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        paths = paths_of(world)
        await znodes.create(paths.info, make_parents=True)

        async def claim(checkpoint: LSN, now: int | None = None) -> LSN:
            return await claim_trim(znodes, paths, checkpoint, {"a"}, retention_s=60, now=now)

        assert await claim(LSN(1, 0)) == LSN(1, 0)
        _, reports = reports_of(world, znodes)
        reports.report("following", LSN(5, 0), LSN(3, 0))
        await needs_when(world, znodes, lambda needs: "a" in needs.positions)
        assert await claim(LSN(9, 0)) == LSN(3, 0)
        reader = await lease_reader(znodes, paths, LSN(3, 0), "backup", lease_s=HOUR_S)
        with pytest.raises(PositionTrimmedError):
            await lease_reader(znodes, paths, LSN(2, 9), "backup", lease_s=HOUR_S)
        reports.report("following", LSN(9, 0), LSN(8, 0))
        await needs_when(world, znodes, lambda needs: needs.positions["a"].durable == LSN(8, 0))
        assert await claim(LSN(9, 0)) == LSN(3, 0)
        await reader.renew(LSN(4, 0))
        assert await claim(LSN(9, 0)) == LSN(4, 0)
        await reports.close()
        await reader.release()
        assert await claim(LSN(9, 0)) == LSN(8, 0)  # a is away, for less than a minute
        assert await claim(LSN(9, 0), now_us() + 61_000_000) == LSN(9, 0)

    world.run(program)


def test_a_reader_that_comes_while_the_leader_trims(world: World) -> None:
    """Whoever comes second sees the other: the lease holds, or the reader learns that it does not."""

    async def program() -> None:
        paths = paths_of(world)
        znodes = await world.client()
        await znodes.create(paths.info, make_parents=True)
        for moment in ("create", "set"):
            meddler = Meddler(await world.client())
            outcome: list[object] = []

            async def read(outcome: list[object] = outcome) -> None:
                try:
                    outcome.append(await lease_reader(znodes, paths, LSN(1, 0), "spark", lease_s=HOUR_S))
                except PositionTrimmedError as error:
                    outcome.append(error)

            meddler.before = {moment: read}
            checkpoint = LSN(2, 0) if moment == "create" else LSN(3, 0)
            floor = await claim_trim(meddler, paths, checkpoint, (), retention_s=60)  # type: ignore[arg-type]
            (found,) = outcome
            if isinstance(found, PositionTrimmedError):
                assert moment == "set"  # the first claim had been reported already
            else:
                assert floor == LSN(1, 0)
                await found.release()  # type: ignore[attr-defined]
            assert (await read_needs(znodes, paths)).readers == {}

    world.run(program)


def test_only_what_was_announced_is_trimmed(world: World) -> None:
    """A reader that moves on while the leader claims frees more, which nobody was notified of."""

    async def program() -> None:
        paths = paths_of(world)
        znodes = await world.client()
        await znodes.create(paths.info, make_parents=True)
        reader = await lease_reader(znodes, paths, LSN(1, 0), "backup", lease_s=HOUR_S)
        meddler = Meddler(znodes)

        async def move_on() -> None:
            await reader.renew(LSN(3, 0))

        meddler.before = {"create": move_on}
        floor = await claim_trim(meddler, paths, LSN(3, 0), (), retention_s=60)  # type: ignore[arg-type]
        assert floor == await trimmed_before(znodes, paths) == LSN(1, 0)
        assert await claim_trim(znodes, paths, LSN(3, 0), (), retention_s=60) == LSN(3, 0)

    world.run(program)


def test_a_lease_that_expired_is_swept_and_told(world: World) -> None:
    async def program() -> None:
        znodes, paths = await world.client(), paths_of(world)
        await znodes.create(paths.info, make_parents=True)
        gone = await lease_reader(znodes, paths, START, "spark", lease_s=-1)
        kept = await lease_reader(znodes, paths, START, "backup", lease_s=HOUR_S, reader="nightly")
        assert await sweep_readers(znodes, paths) == 1
        assert set((await read_needs(znodes, paths)).readers) == {"nightly"}
        with pytest.raises(PositionTrimmedError, match="expired"):
            await gone.renew()
        await kept.renew()
        await kept.release()
        await kept.release()
        with pytest.raises(PositionTrimmedError):
            await kept.renew()

    world.run(program)


def test_a_lease_in_doubt(world: World) -> None:
    async def program() -> None:
        paths = paths_of(world)
        meddler = Meddler(await world.client())
        await meddler.create(paths.info, make_parents=True)
        meddler.lose_replies = ["create"]
        reader = await lease_reader(meddler, paths, LSN(1, 0), "spark", lease_s=HOUR_S)  # type: ignore[arg-type]
        meddler.lose_replies = ["set"]
        await reader.renew(LSN(2, 0))
        assert (await read_needs(meddler, paths)).readers[reader.reader].lsn == LSN(2, 0)  # type: ignore[arg-type]
        meddler.lose_replies = ["delete"]
        await reader.release()
        assert (await read_needs(meddler, paths)).readers == {}  # type: ignore[arg-type]

    world.run(program)


def test_what_cannot_be_understood_stops_trimming(world: World) -> None:
    async def program() -> None:
        znodes, paths = await world.client(), paths_of(world)
        await znodes.create(paths.info, make_parents=True)
        await znodes.create(f"{paths.positions}/a", b"{", make_parents=True)
        with pytest.raises(MalformedMetadataError, match="positions/a cannot be read"):
            await claim_trim(znodes, paths, LSN(1, 0), {"a"}, retention_s=60)
        await znodes.set(f"{paths.positions}/a", b'{"format": 2, "durable": [1, 1], "seen_us": 1}', -1)
        with pytest.raises(MalformedMetadataError, match="format 2"):
            await claim_trim(znodes, paths, LSN(1, 0), {"a"}, retention_s=60)

    world.run(program)
