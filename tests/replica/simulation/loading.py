"""A write whose row stands in a staged ledger: what publishing a load logs, in a client's transaction."""

from __future__ import annotations

import pyarrow as pa

from herdpy.log import LoadBatch, LoadDone, LoadOp, LogError
from herdpy.log.staging import StagedLedger
from herdpy_server.sessions import Session
from herdpy_server.store.batches import to_stream
from herdpy_sql.errors import SqlError
from tests.replica.simulation.world import NAME, Node

TABLE = "w"


def load_id(number: int) -> str:
    """Under which a write is a load."""
    return f"load {number}"


async def load_row(session: Session, node: Node, number: int) -> None:
    """Add the write's row, in the open transaction, as a load. SqlError where it cannot be staged."""
    replica, transaction = node.replica, session.transaction
    assert replica is not None
    assert transaction is not None
    log_id = replica.log.state.log_id if replica.log is not None else ""
    stream = to_stream(pa.record_batch({"id": pa.array([number], pa.int64())}))
    try:
        ledger = await StagedLedger.create(
            node.bk, replica.log_settings(), log_id=log_id, tablespace=NAME, load_id=load_id(number)
        )
        for at in range(0, len(stream), 100):
            await ledger.write(stream[at : at + 100])
        part = await ledger.finish(rows=1)
    except LogError as error:
        raise SqlError("58030", str(error)) from error
    if session.transaction is not transaction:
        raise SqlError("40001", "the transaction was ended meanwhile")
    space = transaction.workspace
    table = space.catalog.by_name[TABLE]
    space.insert(table, (number,))
    space.records[-1:] = [
        LoadBatch(table.id, LoadOp.INSERT, -1, (part,)),
        LoadDone(load_id(number), table.id, 1, 0, 0, 0),
    ]
