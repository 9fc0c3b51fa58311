"""Clients that reach a follower and not the leader: counted once they have said so for a while, forgotten."""

from __future__ import annotations

import asyncio

import pytest

from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.replica import guard
from herdpy_server.replica.guard import FORGOTTEN_S, SETTLED_S, ClientsWithoutLeader

LEADER = LeaderRecord(node="server-1", epoch=3, tag="a")


class Told:
    """What is counted, on a clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.changes = 0
        self.clients = ClientsWithoutLeader(self._changed, lambda: self.now_s)

    def _changed(self) -> None:
        self.changes += 1

    def says(self, client: str, *, for_s: float, leader: LeaderRecord = LEADER) -> None:
        async def twice() -> None:
            self.clients.note(client, leader)
            self.now_s += for_s
            self.clients.note(client, leader)

        asyncio.run(twice())


@pytest.fixture
def told():
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        made = Told()
        yield made
        made.clients.close()


def test_who_has_said_so_for_a_while_counts(told):
    told.says("a", for_s=SETTLED_S / 2)
    assert told.clients.count(LEADER) == 0  # the leader may have died this very moment
    told.says("a", for_s=SETTLED_S / 2)
    told.says("b", for_s=SETTLED_S)
    assert told.clients.count(LEADER) == 2
    assert told.changes == 6


def test_who_says_no_more_is_forgotten(told):
    told.says("a", for_s=SETTLED_S)
    told.now_s += FORGOTTEN_S
    assert told.clients.count(LEADER) == 0
    told.says("a", for_s=SETTLED_S / 2)
    assert told.clients.count(LEADER) == 0  # it begins anew


def test_another_leader_is_another_matter(told):
    told.says("a", for_s=SETTLED_S)
    again = LeaderRecord(node="server-1", epoch=4, tag="b")
    assert told.clients.count(again) == 0
    assert told.clients.count(None) == 0
    told.says("a", for_s=0.0, leader=again)
    assert told.clients.count(LEADER) == 0


def test_strangers_do_not_fill_the_memory(told, monkeypatch):
    monkeypatch.setattr(guard, "_MOST", 2)
    for client in ("a", "b", "c"):
        told.says(client, for_s=SETTLED_S)
    assert told.clients.count(LEADER) == 2


def test_operators_hear_that_it_is_over(monkeypatch):
    monkeypatch.setattr(guard, "FORGOTTEN_S", 0.002)

    async def told_twice() -> None:
        over = asyncio.Event()
        changes: list[str] = []

        def changed() -> None:
            changes.append("")
            if len(changes) > 1:
                over.set()

        clients = ClientsWithoutLeader(changed)
        clients.note("a", LEADER)
        async with asyncio.timeout(30):
            await over.wait()
        clients.close()

    asyncio.run(told_twice())
