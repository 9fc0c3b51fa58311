"""New ledger ids: sequences, and what happens where they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from herdpy.bookkeeper.errors import MetadataError, Outcome, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.ledger_store import LedgerIdGenerator
from herdpy.bookkeeper.metadata.paths import Scheme
from herdpy.bookkeeper.metadata.znodes import Znodes
from tests.support.znode_worlds import Meddler, ModelWorld

END = 2**31 - 1


class NearTheEnd(Meddler):
    """Znodes whose sequences have come far: numbers are moved up by so many, per directory."""

    def __init__(self, znodes: Znodes, offsets: dict[str, int]) -> None:
        super().__init__(znodes)
        self._offsets = offsets
        self._moved: dict[str, str] = {}

    async def create(self, path: str, data: bytes = b"", **flags: bool) -> str:
        made = await super().create(path, data, **flags)
        if not flags.get("sequence"):
            return made
        number = int(made.removeprefix(path)) + self._offsets.get(path, 0)
        if number > END:  # ZooKeeper's counter is a signed 32-bit integer
            number -= 2**32
        shown = f"{path}{number:010d}"
        self._moved[shown] = made
        return shown

    async def delete(self, path: str, version: int = -1) -> None:
        await super().delete(self._moved.get(path, path), version)


@pytest.fixture
def world() -> Iterator[ModelWorld]:
    world = ModelWorld()
    yield world
    world.close()


def test_ids_count_up_and_leave_nothing_behind(world: ModelWorld) -> None:
    async def program() -> None:
        znodes = await world.client()
        ids = LedgerIdGenerator(znodes, "/ledgers", Scheme.LONG)
        assert [await ids.next() for _ in range(3)] == [0, 1, 2]
        assert await znodes.children("/ledgers/idgen") == []
        assert await znodes.children("/ledgers") == ["idgen"]

    world.run(program)


def test_several_clients_share_the_ids(world: ModelWorld) -> None:
    async def program() -> None:
        many = [LedgerIdGenerator(await world.client(), "/ledgers", Scheme.LONG) for _ in range(4)]
        found = await asyncio.gather(*(many[number % 4].next() for number in range(40)))
        assert sorted(found) == list(range(40))

    world.run(program)


@pytest.mark.parametrize("scheme", [Scheme.LONG, Scheme.HIERARCHICAL])
def test_where_the_short_ids_end_the_long_ones_begin(world: ModelWorld, scheme: Scheme) -> None:
    async def program() -> None:
        znodes = NearTheEnd(await world.client(), {"/ledgers/idgen/ID-": END - 2})
        ids = LedgerIdGenerator(znodes, "/ledgers", scheme)
        found = [await ids.next() for _ in range(4)]
        assert found == [END - 2, END - 1, 1 << 32, 1 << 32 | 1]
        assert await znodes.children("/ledgers/idgen-long") == ["HOB-0000000001"]
        assert await znodes.children("/ledgers/idgen") == []
        # Who comes later does not begin with the short ones again.
        later = LedgerIdGenerator(await world.client(), "/ledgers", scheme)
        assert await later.next() == 1 << 32 | 2

    world.run(program)


def test_a_counter_that_overflowed_counts_as_ended(world: ModelWorld) -> None:
    async def program() -> None:
        znodes = NearTheEnd(await world.client(), {"/ledgers/idgen/ID-": END + 7})
        assert await LedgerIdGenerator(znodes, "/ledgers", Scheme.LONG).next() == 1 << 32

    world.run(program)


def test_where_one_half_is_used_up_the_next_begins(world: ModelWorld) -> None:
    async def program() -> None:
        client = await world.client()
        for name in ("HOB-0000000001", "HOB-0000000007", "stray", "HOB-x"):
            await client.create(f"/ledgers/idgen-long/{name}", make_parents=True)
        znodes = NearTheEnd(client, {"/ledgers/idgen-long/HOB-0000000007/ID-": END - 1})
        ids = LedgerIdGenerator(znodes, "/ledgers", Scheme.LONG)
        assert [await ids.next() for _ in range(3)] == [7 << 32 | END - 1, 8 << 32, 8 << 32 | 1]

    world.run(program)


def test_a_directory_tidied_away_meanwhile_does_not_begin_anew(world: ModelWorld) -> None:
    async def program() -> None:
        client, other = Meddler(await world.client()), await world.client()
        await other.create("/ledgers/idgen-long/HOB-0000000003", make_parents=True)

        async def tidy() -> None:
            await other.create("/ledgers/idgen-long/HOB-0000000004")
            await other.delete("/ledgers/idgen-long/HOB-0000000003")

        client.before["create"] = tidy
        assert await LedgerIdGenerator(client, "/ledgers", Scheme.LONG).next() == 4 << 32

    world.run(program)


def test_a_round_without_end_is_given_up(world: ModelWorld) -> None:
    async def program() -> None:
        client = await world.client()
        await client.create("/ledgers/idgen-long", make_parents=True)
        used_up = {f"/ledgers/idgen-long/HOB-{high:010d}/ID-": END for high in range(1, 40)}
        with pytest.raises(MetadataError, match="rounds"):
            await LedgerIdGenerator(NearTheEnd(client, used_up), "/ledgers", Scheme.LONG).next()

    world.run(program)


def test_flat_ids_are_made_in_the_root_and_end(world: ModelWorld) -> None:
    async def program() -> None:
        client = await world.client()
        assert await LedgerIdGenerator(client, "/ledgers", Scheme.FLAT).next() == 0
        assert await client.children("/ledgers") == []
        znodes = NearTheEnd(client, {"/ledgers/ID-": END})
        with pytest.raises(MetadataError, match="no ledger ids left"):
            await LedgerIdGenerator(znodes, "/ledgers", Scheme.FLAT).next()

    world.run(program)


def test_a_lost_reply_costs_a_number_and_nothing_else(world: ModelWorld) -> None:
    async def program() -> None:
        client = Meddler(await world.client())
        client.lose_replies = ["create", "delete"]
        ids = LedgerIdGenerator(client, "/ledgers", Scheme.LONG)
        assert [await ids.next(), await ids.next()] == [1, 2]

    world.run(program)


def test_without_answers_there_is_no_id_and_nothing_in_doubt(world: ModelWorld) -> None:
    async def program() -> None:
        client = Meddler(await world.client())
        client.lose_replies = ["create"] * 100
        with pytest.raises(ZooKeeperUnavailableError) as unanswered:
            await LedgerIdGenerator(client, "/ledgers", Scheme.LONG, patience_s=1).next()
        assert unanswered.value.outcome is Outcome.NOT_DONE

    world.run(program)


@pytest.mark.parametrize("floor", [5, 2**31, 7_000_000_000])
def test_ids_are_raised_for_all_clients(world: ModelWorld, floor: int) -> None:
    async def program() -> None:
        one = LedgerIdGenerator(await world.client(), "/ledgers", Scheme.LONG)
        other = LedgerIdGenerator(await world.client(), "/ledgers", Scheme.LONG)
        assert await one.next() < await other.next() < floor
        await one.raise_above(floor)
        high = (floor >> 32) + 1
        assert [await other.next(), await one.next()] == [high << 32, (high << 32) + 1]
        await other.raise_above(floor)
        assert await one.next() == (high << 32) + 3  # one was looked at

    world.run(program)


def test_ids_that_the_layout_does_not_have_are_refused(world: ModelWorld) -> None:
    async def program() -> None:
        znodes = await world.client()
        for scheme, floor in ((Scheme.FLAT, 2**31), (Scheme.LONG, 2**63 - 1)):
            with pytest.raises(MetadataError, match="has no ledger ids above"):
                await LedgerIdGenerator(znodes, "/ledgers", scheme).raise_above(floor)

    world.run(program)
