"""A leader's tasks: it hands over to who is close to it, by positions and not by what others believe."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy.log import LSN, START, LedgerInfo
from herdpy_server.cluster.layout import Layout, ReplicaRecord
from herdpy_server.cluster.positions import Needs
from herdpy_server.replica import leader_tasks
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.leader_tasks import LeaderTasks, entries_after

LEDGERS = (
    LedgerInfo(3, 0, closed=True, last_entry_id=99),
    LedgerInfo(5, 0, closed=True, last_entry_id=-1),
    LedgerInfo(8, 0, closed=True, last_entry_id=9),
    LedgerInfo(9, 0),
    LedgerInfo(12, 0),
)
END = LSN(9, 3)


@pytest.mark.parametrize(
    ("position", "count"),
    [
        (END, 0),
        (LSN(9, 7), 0),
        (LSN(12, 0), 0),
        (LSN(9, 0), 3),
        (LSN(8, 9), 4),
        (LSN(8, 2), 11),
        (LSN(3, 99), 14),
        (LSN(3, 0), 113),
        (LSN(1, 5), 114),
        (START, 114),
    ],
)
def test_entries_are_counted_over_ledgers(position: LSN, count: int) -> None:
    assert entries_after(LEDGERS, position, END) == count


def test_the_length_of_a_ledger_that_is_being_closed_is_not_known() -> None:
    assert entries_after(LEDGERS, LSN(8, 0), LSN(12, 0)) == math.inf
    assert entries_after(LEDGERS, LSN(12, 0), LSN(12, 3)) == 3


@pytest.mark.parametrize(
    ("state", "applied", "hands_over"),
    [
        ("following", START, False),  # it has just begun, and knows of nothing that it lacks
        ("following", LSN(3, 100), False),
        ("following", LSN(9, 1999), False),
        ("following", LSN(9, 2000), True),
        ("following", LSN(9, 3000), True),
        ("seeding", LSN(9, 3000), False),
        ("following!", LSN(9, 3000), False),  # unfit
    ],
)
def test_a_preferred_leader_that_is_close_is_handed_over_to(
    state: str, applied: LSN, hands_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ReplicaRecord(
        node="b",
        instance="1",
        state=state.rstrip("!"),
        applied=applied,
        unfit="cut off" * state.endswith("!"),
    )

    async def needs(*_: object) -> Needs:
        return Needs(replicas={"b": record})

    monkeypatch.setattr(leader_tasks, "read_needs", needs)
    handed: list[bool] = []
    watch = SimpleNamespace(cancel=lambda: None)
    host = SimpleNamespace(
        node="a",
        bk=SimpleNamespace(znodes=SimpleNamespace(watch_data=lambda *_: watch)),
        coordination=SimpleNamespace(layout=Layout("/herdpy")),
    )
    info = SimpleNamespace(name="t", leader="b", replicas=("a", "b"))
    paths = Layout("/herdpy").tablespace("t")
    replica = SimpleNamespace(host=host, info=info, paths=paths)
    log: Any = SimpleNamespace(ledgers=lambda: LEDGERS, lac=LSN(9, 3000))
    found = asyncio.run(_tasks_of(replica, handed).hands_over_to_preferred(log))
    assert found == hands_over == bool(handed)


def _tasks_of(replica: SimpleNamespace, handed: list[bool], archived: LSN | None = None) -> LeaderTasks:
    async def fulfil_word() -> None: ...

    return LeaderTasks(cast(ReplicaBase, replica), lambda: handed.append(True), lambda: archived, fulfil_word)


@pytest.mark.parametrize(
    ("archived", "floor"),
    [
        (None, LSN(8, 9)),  # nobody archives, or the archive is given up on
        (START, START),  # it is not known yet how far it is
        (LSN(3, 50), LSN(3, 50)),
        (LSN(9, 3), LSN(8, 9)),
    ],
)
def test_trimming_waits_for_the_archive(
    archived: LSN | None, floor: LSN, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[LSN] = []

    async def claim_trim(*_: object, checkpoint: LSN, **__: object) -> LSN:
        claimed.append(checkpoint)
        return checkpoint

    async def published_of(*_: object) -> None: ...

    async def atrim(_before: LSN) -> list[int]:
        return []

    monkeypatch.setattr(leader_tasks, "claim_trim", claim_trim)
    monkeypatch.setattr(leader_tasks, "published_of", published_of)
    store = SimpleNamespace(durable=LSN(9, 3), floor=LSN(9, 3), log_trimmed=lambda _base: [])
    host = SimpleNamespace(
        node="a",
        bk=SimpleNamespace(znodes=None),
        coordination=SimpleNamespace(layout=Layout("/herdpy")),
    )
    info = SimpleNamespace(name="t", replicas=("a",), retention_bytes=0, retention_s=0.0)
    replica = SimpleNamespace(host=host, info=info, opened=SimpleNamespace(store=store))
    log: Any = SimpleNamespace(
        ledgers=lambda: LEDGERS, list_share=0.0, atrim=atrim, state=SimpleNamespace(base=START)
    )
    asyncio.run(_tasks_of(replica, [], archived)._trim(log))
    assert claimed == [floor]
