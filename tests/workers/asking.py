"""Asking a pool, and the session's own process, the same thing at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from herdpy_server.serving import ServedDatabase
from herdpy_server.sessions import Session
from herdpy_server.sessions.query_backend import IN_PROCESS, QueryBackend, QueryRequest
from herdpy_server.store import StoreSnapshot
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import Interrupt, Limits


def question(
    database: ServedDatabase,
    text: str,
    *params: object,
    session: Session | None = None,
    before_snapshot: Callable[[], object] = lambda: None,
) -> QueryRequest:
    """What a session asks when it runs the text now; its own changes are part of what it sees.

    ``before_snapshot`` is called when the worker has LMDB open, and before the snapshot is taken.
    """
    session = session or database.session()
    transaction = session.transaction or database.tablespace.begin(instant=True)
    ready, values = database.plans.statements(text)[0].bound(transaction.workspace.catalog, "auto", params)
    plan = ready.plan
    assert plan.source is not None, f"{text} does not need a worker"

    def open_snapshot() -> StoreSnapshot:
        before_snapshot()
        return transaction.workspace.snapshot()

    limits = Limits(memory_bytes=256 << 20)
    return QueryRequest(plan.source, values, Clock(0, 0), open_snapshot, limits, Interrupt())


async def answered(backend: QueryBackend, asked: QueryRequest) -> pa.Table:
    """The whole answer."""
    answer = await backend.ask(asked)
    try:
        return await answer.all()
    finally:
        answer.close()


async def by_worker(database: ServedDatabase, text: str, *params: object, **more: Any) -> list[Any]:
    """Rows that a worker gives."""
    assert database.workers is not None
    return rows(await answered(database.workers, question(database, text, *params, **more)))


async def by_both(database: ServedDatabase, text: str, *params: object, **more: Any) -> list[Any]:
    """Rows that a worker gives; fails when this process gives others, or of other types."""
    assert database.workers is not None
    theirs = await answered(database.workers, question(database, text, *params, **more))
    ours = await answered(IN_PROCESS, question(database, text, *params, **more))
    assert theirs.schema == ours.schema
    assert rows(theirs) == rows(ours)
    return rows(theirs)


def rows(table: pa.Table) -> list[Any]:
    """Sorted: queries of these tests need not say an order."""
    return sorted(zip(*[column.to_pylist() for column in table.columns], strict=True), key=repr)
