"""What lies where a replica is to go: its own, one of a dropped tablespace, or one that nobody here knows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica import placed
from herdpy_server.replica.host import Host, NodeThreads
from herdpy_server.replica.placed import PlacedReplicas, Removal
from herdpy_server.tablespace.directory import REPLICA_MARKER

NEW = TablespaceInfo(name="herdpy", uuid="new")


def make_room(directory: Path, dropped: set[str]) -> None:
    """As before a replica of NEW is begun, on a node whose ZooKeeper knows what was dropped."""

    async def was_dropped(uuid: str) -> bool:
        return uuid in dropped

    async def program() -> None:
        replicas = directory / "tablespaces"
        tablespaces = SimpleNamespace(was_dropped=was_dropped)
        host = SimpleNamespace(
            directory=replicas,
            path=lambda name: replicas / name,
            threads=NodeThreads(),
            coordination=SimpleNamespace(tablespaces=tablespaces),
        )
        try:
            await PlacedReplicas(cast(Host, host), cast(Removal, None), {})._make_room(NEW)
        finally:
            host.threads.close()

    asyncio.run(program())


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A replica of another tablespace of the name, which has something."""
    path = tmp_path / "tablespaces" / "herdpy"
    (path / "store").mkdir(parents=True)
    (path / REPLICA_MARKER).write_text("old\n")
    (path / "store" / "data.mdb").write_text("rows")
    monkeypatch.setattr(placed, "position_of", lambda _store: (3, 7))
    return path


def test_what_this_cluster_does_not_know_is_set_aside(tmp_path: Path, there: Path) -> None:
    make_room(tmp_path, set())
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "store" / "data.mdb").read_text() == "rows"
    assert [one.name for one in there.iterdir()] == [REPLICA_MARKER]
    assert (there / REPLICA_MARKER).read_text() == "new\n"


def test_what_was_dropped_goes(tmp_path: Path, there: Path) -> None:
    make_room(tmp_path, {"old"})
    assert not (tmp_path / "kept").exists()
    assert [one.name for one in there.iterdir()] == [REPLICA_MARKER]


def test_its_own_stays(tmp_path: Path, there: Path) -> None:
    (there / REPLICA_MARKER).write_text("new\n")
    make_room(tmp_path, set())
    assert (there / "store" / "data.mdb").read_text() == "rows"
