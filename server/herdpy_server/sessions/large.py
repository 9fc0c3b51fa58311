"""What there is to do for a transaction of many changes, in steps between which others have their turn.

Beside ``share``. Its records are encoded before it takes its place in the log, while it holds its locks, so
that the commit itself only joins bytes; what it held is let go of after its end.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from herdpy_server.sessions.share import SLICE_S
from herdpy_server.sessions.work import Pause

if TYPE_CHECKING:
    from herdpy_server.store import Mark, Workspace
    from herdpy_server.tablespace import Transaction

_FEW_CHANGES = 8192


def is_large(transaction: Transaction) -> bool:
    """Whether the commit of a transaction is to be prepared: it has much to log, and it holds its locks."""
    return not transaction.instant and transaction.workspace.logs_much


async def prepare(transaction: Transaction) -> None:
    """Encode what the commit of a large transaction will log. RecordError when that cannot be."""
    if is_large(transaction):
        await _in_steps(transaction.workspace.encode_some)


async def let_go(transaction: Transaction) -> None:
    """Give back the memory of a transaction that has ended, and whose commit is applied."""
    if transaction.workspace.change_count > _FEW_CHANGES:
        await _in_steps(transaction.workspace.forget_some)


async def undo(workspace: Workspace, mark: Mark) -> None:
    """Take back a statement of a transaction that goes on."""
    if workspace.change_count - mark.changes > _FEW_CHANGES:
        await _in_steps(lambda: workspace.undo_some(mark))
    else:
        workspace.undo(mark)


async def _in_steps(step: Callable[[], bool]) -> None:
    until = perf_counter() + SLICE_S
    while step():
        if perf_counter() > until:
            await Pause()
            until = perf_counter() + SLICE_S
