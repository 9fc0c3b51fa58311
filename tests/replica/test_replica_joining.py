"""A server that is asked for a database before it has heard which tablespaces there are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from herdpy_server.replica.node import ClusterNode, ClusterSettings
from herdpy_server.serving import ServedNode
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_sql.errors import SqlError


def test_nothing_is_said_not_to_exist_before_all_is_known(tmp_path: Path) -> None:
    """3D000 would be believed: clients give up, although the next moment would have the database."""

    async def program() -> None:
        cluster = ClusterNode(tmp_path, ClusterSettings(zookeeper="127.0.0.1:1"), DatabaseSettings())
        node = ServedNode(tmp_path, cluster.driver, cluster)
        for coordination in (None, SimpleNamespace(tablespaces=SimpleNamespace(known={}))):
            cluster._coordination = coordination  # type: ignore[assignment]
            for ask in (node.session, node.find):
                with pytest.raises(SqlError, match="has not joined its cluster yet") as told:
                    ask("herdpy")
                assert told.value.sqlstate == "57P03"
        cluster._knows_all = True
        for ask in (node.session, node.find):
            with pytest.raises(SqlError, match='"herdpy" does not exist') as told:
                ask("herdpy")
            assert told.value.sqlstate == "3D000"

    asyncio.run(program())
