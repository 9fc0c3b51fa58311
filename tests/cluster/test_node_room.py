"""A node has as many replicas as its address space has room for: placement knows, and statements say so."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from herdpy_server.cluster import placement
from herdpy_server.cluster.placement import choose_replicas, loads_of, place
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.administration import Administration
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.lexer import split
from herdpy_sql.parse.object_commands import parse_tablespace_command

NODES = dict.fromkeys(("a", "b", "c", "d"), 0.0)


@pytest.fixture(autouse=True)
def two_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "MOST_REPLICAS", 2)


def info(name: str, *replicas: str, expected: int = 3) -> TablespaceInfo:
    return TablespaceInfo(name=name, uuid=name, replicas=replicas, expected_replicas=expected)


FULL = (info("one", "a", "b"), info("two", "a", "b"))


def test_a_full_node_gets_no_replica() -> None:
    replicas, leader = place(info("new"), NODES, FULL)
    assert (set(replicas), leader in ("c", "d")) == ({"c", "d"}, True)
    assert choose_replicas(["c"], 3, NODES, loads_of(FULL), replace_after_s=1.0) == ("c", "d")
    away = {**NODES, "c": 10.0}
    assert choose_replicas(["c"], 1, {"a": 0.0, **away}, loads_of(FULL), replace_after_s=1.0) == ("d",)


class Cluster:
    """A node that is asked for statements, and the tablespaces that it knows."""

    def __init__(self, *known: TablespaceInfo, nodes: dict[str, float] = NODES) -> None:
        self.changed: list[str] = []
        self.known = {one.name: one for one in known}
        coordination = SimpleNamespace(membership=SimpleNamespace(nodes=nodes), tablespaces=self)
        host: Any = SimpleNamespace(coordination=coordination)
        self._administration = Administration(host, info("herdpy"), self._create, Any, Any)  # type: ignore[arg-type]

    async def get(self, name: str) -> TablespaceInfo:
        return self.known[name]

    async def alter(self, name: str, *_: object, **__: object) -> None:
        self.changed.append(name)

    async def _create(self, made: TablespaceInfo) -> TablespaceInfo:
        self.changed.append(made.name)
        return made

    def refusal(self, text: str) -> str:
        """The SQLSTATE with which a statement is refused."""

        async def run() -> None:
            command = parse_tablespace_command(split(text)[0])
            await self._administration.change(command, "herdpy")

        with pytest.raises(SqlError) as refused:
            asyncio.run(run())
        return refused.value.sqlstate


def test_a_node_with_as_many_replicas_as_it_can_have_gets_no_other() -> None:
    cluster = Cluster(*FULL, info("new", "c"))
    assert cluster.refusal("CREATE TABLESPACE more WITH (leader = 'a')") == "53400"
    assert cluster.refusal("CREATE TABLESPACE more WITH (replicas = 'c, b')") == "53400"
    assert cluster.refusal("ALTER TABLESPACE new REPLICAS 'c', 'a'") == "53400"
    assert cluster.changed == []


def test_a_tablespace_that_finds_no_room_is_not_made() -> None:
    cluster = Cluster(*FULL, nodes={"a": 0.0, "b": 0.0})
    assert cluster.refusal("CREATE TABLESPACE more") == "53400"
    assert cluster.changed == []
