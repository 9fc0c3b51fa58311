"""ALTER TABLESPACE ... LEADER that fails is forgotten: leadership does not move by itself later."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from herdpy_server.cluster.layout import ReplicaRecord
from herdpy_server.cluster.positions import Needs
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica import administration
from herdpy_server.replica.administration import Administration
from herdpy_sql.errors import SqlError


class Tablespaces:
    """One, in memory."""

    def __init__(self, leader: str | None) -> None:
        self.info = TablespaceInfo(name="t", uuid="u", replicas=("a", "b", "c"), leader=leader)

    @property
    def known(self) -> dict[str, TablespaceInfo]:
        return {self.info.name: self.info}

    async def get(self, _name: str) -> TablespaceInfo:
        return self.info

    async def alter(self, _name: str, change: Any, *, uuid: str) -> TablespaceInfo:
        assert uuid == "u"
        self.info = change(self.info)
        return self.info


@pytest.mark.parametrize("before", [None, "a"])
@pytest.mark.parametrize("meanwhile", [None, "c"])
def test_a_hand_over_that_failed_is_forgotten(
    before: str | None, meanwhile: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tablespaces = Tablespaces(before)

    async def never_leads(*_: object) -> None:
        assert tablespaces.info.leader == "b"
        if meanwhile is not None:
            tablespaces.info = msgspec.structs.replace(tablespaces.info, leader=meanwhile)

    monkeypatch.setattr(administration, "await_leader", never_leads)
    refused = _refused(tablespaces, monkeypatch, None)
    assert refused.detail == "Its replica is away."
    assert tablespaces.info.leader == (meanwhile or before)


def test_a_node_that_should_not_lead_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never_leads(*_: object) -> None:
        pass

    monkeypatch.setattr(administration, "await_leader", never_leads)
    unfit = "it cannot reach the log since yesterday"
    record = ReplicaRecord(node="b", instance="1", state="following", unfit=unfit)
    refused = _refused(Tablespaces(None), monkeypatch, record)
    assert refused.detail == f"Its replica is following, 0 entries behind, and should not lead: {unfit}."


def _refused(
    tablespaces: Tablespaces, monkeypatch: pytest.MonkeyPatch, record: ReplicaRecord | None
) -> SqlError:
    """What ``LEADER 'b'`` is refused with, when the replica there says this."""

    async def needs(*_: object) -> Needs:
        return Needs(replicas={} if record is None else {"b": record})

    monkeypatch.setattr(administration, "read_needs", needs)
    coordination = SimpleNamespace(
        tablespaces=tablespaces,
        layout=SimpleNamespace(tablespace=lambda name: name),
        membership=SimpleNamespace(nodes={"a": None, "b": None, "c": None}),
    )
    host: Any = SimpleNamespace(coordination=coordination, bk=SimpleNamespace(znodes=None))
    nothing: Any = None
    made = Administration(host, tablespaces.info, nothing, nothing, nothing)
    command: Any = SimpleNamespace(tablespace="t", changes={"leader": "b"})
    with pytest.raises(SqlError) as caught:
        asyncio.run(made._alter(command))
    assert (caught.value.sqlstate, caught.value.outcome) == ("55000", "not done")
    return caught.value
