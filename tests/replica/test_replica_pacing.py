"""What a replica that leads tells its log about commits that may share entries."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy import compiled
from herdpy.log import LSN, Append, LoggedTransaction
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica import leading
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.node import ClusterSettings
from herdpy_server.sessions.answer_checks import AnswerChecks
from herdpy_server.tablespace.locks import LockTable
from herdpy_server.tablespace.tablespace import Transaction
from herdpy_server.tablespace_host import DatabaseSettings


def test_the_log_is_paced_as_the_node_is_configured() -> None:
    info = TablespaceInfo(name="t", uuid="", expected_replicas=3, ensemble=3, write_quorum=3, ack_quorum=2)
    host = SimpleNamespace(settings=DatabaseSettings(), commit_delay_s=0.007, commit_siblings=5)
    settings = ReplicaBase.log_settings(cast(Any, SimpleNamespace(info=info, host=host)))
    assert (settings.commit_delay_s, settings.commit_siblings) == (0.007, 5)


def test_the_defaults_of_node_and_log_are_one() -> None:
    node, log = ClusterSettings(zookeeper=""), LedgerLogSettings()
    assert (node.commit_delay_s, node.commit_siblings) == (log.commit_delay_s, log.commit_siblings)


def test_the_log_counts_the_transactions_that_have_locks() -> None:
    locks = LockTable()
    led: dict[str, Any] = {}

    class FakeTakeover:
        async def lead(self, acknowledge: object, **others: Any) -> str:
            led.update(others, acknowledge=acknowledge)
            return "log"

    tablespace = SimpleNamespace(locks=locks, acknowledge=lambda _appends, _error: None)
    host = SimpleNamespace(coordination=SimpleNamespace(renewal=SimpleNamespace(clock=lambda: 0.0)))
    begun = leading._begun(
        cast(Any, host),
        cast(Any, SimpleNamespace(tablespace=tablespace)),
        cast(Any, FakeTakeover()),
        lambda _error: None,
    )
    assert asyncio.run(begun) == "log"
    owner = Transaction(instant=False)
    locks.acquire(owner, 1, b"x")
    assert led["open_transactions"]() == 1
    locks.release_all(owner)
    assert led["open_transactions"]() == 0


@pytest.mark.skipif(compiled.IMPLEMENTATION == "compiled", reason="compiled code takes no stand-in")
def test_a_session_that_waits_for_what_it_has_read_hurries_the_log() -> None:
    hurried: list[str] = []

    async def read(pending: bool) -> None:
        append = Append(LoggedTransaction(0, []))
        append.resolve(LSN(1, 1))
        tablespace = SimpleNamespace(
            durable_of=lambda _position: append if pending else None,
            log=SimpleNamespace(hurry=lambda: hurried.append("hurried")),
        )
        waits = SimpleNamespace(logged=lambda: None)
        await AnswerChecks(cast(Any, tablespace), cast(Any, None), cast(Any, waits))._read_durable(5)

    asyncio.run(read(False))
    assert hurried == []
    asyncio.run(read(True))
    assert hurried == ["hurried"]
