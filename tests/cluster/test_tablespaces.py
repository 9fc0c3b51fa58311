"""Tablespaces' metadata, on the model and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from herdpy.bookkeeper.errors import Outcome, ZooKeeperUnavailableError
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.tablespaces import TablespaceInfo, Tablespaces, validate
from herdpy_sql.errors import SqlError
from tests.support.znode_worlds import Meddler, World


def info(name: str = "t", **fields: Any) -> TablespaceInfo:
    return TablespaceInfo(name=name, uuid="", **fields)


@pytest.mark.parametrize(
    ("fields", "sqlstate", "told"),
    [
        ({"name": ""}, "42602", "no name"),
        ({"name": "a/b"}, "42602", "no name"),
        ({"name": ".."}, "42602", "no name"),
        ({"name": "1a"}, "42602", "no name"),
        ({"name": "a" * 64}, "42602", "no name"),
        ({"replicas": ("a", "b/c")}, "42602", "no id"),
        ({"replicas": ("a", "a")}, "22023", "twice"),
        ({"replicas": tuple(f"n{number}" for number in range(101))}, "22023", "at most"),
        ({"leader": "a"}, "22023", "not one of the replicas"),
        ({"ack_quorum": 0}, "22023", "ack quorum"),
        ({"ack_quorum": 3, "write_quorum": 2}, "22023", "ack quorum"),
        ({"write_quorum": 4}, "22023", "ack quorum"),
        ({"ensemble": 101, "write_quorum": 3}, "22023", "ack quorum"),
        ({"expected_replicas": 0}, "22023", "expected"),
        ({"expected_replicas": 101}, "22023", "expected"),
        ({"retention_bytes": -1}, "22023", "bytes"),
        ({"retention_s": float("nan")}, "22023", "seconds"),
        ({"retention_s": -1.0}, "22023", "seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], sqlstate: str, told: str) -> None:
    with pytest.raises(SqlError, match=told) as refused:
        validate(info(**{"name": "t", **fields}))
    assert refused.value.sqlstate == sqlstate


def test_made_read_altered_dropped_and_purged(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        some = Tablespaces(znodes, Layout(world.root))
        made = await some.create(info(replicas=("a", "b")))
        assert made.uuid
        assert made.created_us > 0
        assert await some.get("t") == made
        with pytest.raises(SqlError) as taken:
            await some.create(info())
        assert taken.value.sqlstate == "42710"
        altered = await some.alter("t", lambda now: msgspec.structs.replace(now, leader="b"))
        assert altered == await some.get("t") == msgspec.structs.replace(made, leader="b")
        with pytest.raises(SqlError, match="not one of the replicas"):
            await some.alter("t", lambda now: msgspec.structs.replace(now, leader="c"))
        with pytest.raises(SqlError, match="does not exist"):
            await some.alter("t", lambda now: now, uuid="another")
        with pytest.raises(SqlError, match="not dropped"):
            await some.purge(made)
        paths = Layout(world.root).tablespace("t")
        await znodes.create(f"{paths.readers}/r", make_parents=True)
        dropped = await some.drop("t")
        for operation in (some.get("t"), some.drop("t"), some.alter("t", lambda now: now)):
            with pytest.raises(SqlError) as missing:
                await operation
            assert missing.value.sqlstate == "42704"
        await some.purge(dropped)
        await some.purge(dropped)
        assert await znodes.exists(paths.info) is None
        again = await some.create(info())
        await some.purge(dropped)  # of the former one
        assert await some.get("t") == again

    world.run(program)


def test_changes_of_several_at_once_are_all_kept(world: World) -> None:
    async def program() -> None:
        nodes = [Tablespaces(await world.client(), Layout(world.root)) for _ in range(4)]
        await nodes[0].create(info(expected_replicas=1))

        async def add(some: Tablespaces, node: str) -> None:
            await some.alter(
                "t",
                lambda now: (
                    now
                    if node in now.replicas
                    else msgspec.structs.replace(now, replicas=(*now.replicas, node))
                ),
            )

        await asyncio.gather(*(add(some, f"n{number}") for number, some in enumerate(nodes)))
        assert sorted((await nodes[0].get("t")).replicas) == ["n0", "n1", "n2", "n3"]

    world.run(program)


def test_a_change_in_doubt_that_was_made_is_recognised(world: World) -> None:
    async def program() -> None:
        meddler = Meddler(await world.client())
        some = Tablespaces(meddler, Layout(world.root))  # type: ignore[arg-type]
        meddler.lose_replies = ["create"]
        made = await some.create(info())
        assert await some.get("t") == made
        meddler.lose_requests = ["create"]
        await some.create(info("u"))
        meddler.lose_replies = ["set"]
        await some.alter("t", lambda now: msgspec.structs.replace(now, expected_replicas=5))
        meddler.lose_replies = ["set"]
        dropped = await some.drop("t")
        meddler.lose_replies = ["delete"]
        await some.purge(dropped)
        with pytest.raises(SqlError, match="does not exist"):
            await some.get("t")

    world.run(program)


def test_doubt_that_lasts_is_told(world: World) -> None:
    class Silent:
        outcomes = (Outcome.UNKNOWN, Outcome.NOT_DONE, Outcome.NOT_DONE)

        def __init__(self) -> None:
            self.left = list(self.outcomes)

        async def exists(self, *_: Any) -> None:
            return None

        async def create(self, *_: Any, **__: Any) -> str:
            raise ZooKeeperUnavailableError(outcome=self.left.pop(0) if self.left else Outcome.NOT_DONE)

    async def program() -> None:
        some = Tablespaces(Silent(), Layout(world.root), patience_s=1.0)  # type: ignore[arg-type]
        with pytest.raises(SqlError) as unknown:
            await some.create(info())
        assert (unknown.value.sqlstate, unknown.value.outcome) == ("08007", "unknown")
        Silent.outcomes = (Outcome.NOT_DONE, Outcome.NOT_DONE, Outcome.NOT_DONE)
        some = Tablespaces(Silent(), Layout(world.root), patience_s=0.3)  # type: ignore[arg-type]
        with pytest.raises(SqlError) as not_done:
            await some.create(info())
        assert (not_done.value.sqlstate, not_done.value.outcome) == ("08001", "not done")

    world.run(program)


def test_watching(world: World) -> None:
    async def program() -> None:
        one = Tablespaces(await world.client(), Layout(world.root))
        other = Tablespaces(await world.client(), Layout(world.root))
        await one.create(info("first"))
        told: asyncio.Queue[tuple[str, TablespaceInfo | None]] = asyncio.Queue()
        end = await other.watch(lambda name, found: told.put_nowait((name, found)))
        assert told.get_nowait()[0] == "first"
        made = await one.create(info("second"))
        assert await told.get() == ("second", made)
        dropped = await one.drop("second")
        assert await told.get() == ("second", dropped)
        await one.purge(dropped)
        assert await told.get() == ("second", None)
        assert set(other.known) == {"first"}
        end()
        await one.drop("first")
        assert told.empty()
        other.close()

    world.run(program)
