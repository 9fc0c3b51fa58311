"""BEGIN, COMMIT, ROLLBACK, savepoints, the modes of transactions, SET CONSTRAINTS and LOCK TABLE. Beside
``control``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from herdpy_server.sessions.result import Result
from herdpy_sql.deferred import NOTHING, Deferred, Name
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.references import settle_deferred
from herdpy_sql.plan import Begin, Commit, ReleaseSavepoint, Rollback, RollbackToSavepoint, Savepoint
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution
    from herdpy_server.store import Workspace
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.plan.commands import SetConstraints


async def begin(session: TransactionBlock, plan: Begin) -> Result:
    """BEGIN, or START TRANSACTION. SqlError 25001 and 22023 for its modes."""
    began = session.transaction is None
    if began:
        session.begin()
    elif not session.implicit:
        session.notice("WARNING", "25001", "there is already a transaction in progress")
    session.implicit = session.pipelined = False
    try:
        for name, value in modes_of(plan.modes):
            session.set_local(name, value)
    except SqlError:
        if began:
            await session.rollback()
        raise
    return Result(plan.tag, -1)


async def commit(session: TransactionBlock, plan: Commit) -> Result:
    """COMMIT. SqlError 25P01 for AND CHAIN outside of a block, and what becomes of the commit."""
    _outside(session, "COMMIT", chain=plan.chain)
    failed = session.failed
    modes = session.modes_left() if plan.chain else {}
    await session.commit()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK" if failed else "COMMIT", -1)


async def rollback(session: TransactionBlock, plan: Rollback) -> Result:
    """ROLLBACK. SqlError 25P01 as COMMIT."""
    _outside(session, "ROLLBACK", chain=plan.chain)
    modes = session.modes_left() if plan.chain else {}
    await session.rollback()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK", -1)


def _outside(session: TransactionBlock, what: str, *, chain: bool) -> None:
    """COMMIT or ROLLBACK where BEGIN was not said: a warning, or with AND CHAIN an error."""
    if not session.autocommit or (session.transaction is not None and not session.implicit):
        return
    if chain:
        raise SqlError("25P01", f"{what} AND CHAIN can only be used in transaction blocks")
    session.notice("WARNING", "25P01", "there is no transaction in progress")


async def savepoint(session: TransactionBlock, plan: Savepoint) -> Result:
    """SAVEPOINT. SqlError 25P01."""
    session.savepoint(plan.name)
    return Result("SAVEPOINT", -1)


async def release_savepoint(session: TransactionBlock, plan: ReleaseSavepoint) -> Result:
    """RELEASE SAVEPOINT. SqlError 25P01, 3B001."""
    session.release_savepoint(plan.name)
    return Result("RELEASE", -1)


async def rollback_to_savepoint(session: TransactionBlock, plan: RollbackToSavepoint) -> Result:
    """ROLLBACK TO SAVEPOINT. SqlError 25P01, 3B001."""
    session.rollback_to(plan.name)
    return Result("ROLLBACK", -1)


def modes_of(words: Iterable[str]) -> list[tuple[str, str]]:
    """The settings that transaction modes are, as BEGIN and SET TRANSACTION name them (in capitals)."""
    found: list[tuple[str, str]] = []
    for mode in words:
        if mode.startswith("ISOLATION LEVEL "):
            found.append(("transaction_isolation", mode.removeprefix("ISOLATION LEVEL ").lower()))
        elif mode in {"READ ONLY", "READ WRITE"}:
            found.append(("transaction_read_only", "on" if mode == "READ ONLY" else "off"))
        elif mode in {"DEFERRABLE", "NOT DEFERRABLE"}:
            found.append(("transaction_deferrable", "on" if mode == "DEFERRABLE" else "off"))
    return found


async def lock_table(execution: Execution, plan: LockTablePlan, bound: BoundStatement) -> Result:
    """LOCK TABLE. SqlError 25P01, and as locks raise."""
    if not execution.block.in_block:
        raise SqlError("25P01", "LOCK TABLE can only be used in transaction blocks")
    return await execution.run_plan(bound)


async def set_constraints(session: TransactionBlock, plan: SetConstraints) -> Result:
    """Carry it out; what becomes immediate is checked, and nothing changes when that fails.

    Raises:
        SqlError: 42704 there is no such constraint, 42809 it is not deferrable, 23503 it does not hold.
    """
    if session.transaction is None and not session.autocommit:
        session.begin()
    if not session.in_block:
        session.notice("WARNING", "25P01", "SET CONSTRAINTS can only be used in transaction blocks")
    names = None if plan.names is None else _found(session.catalog, plan)
    transaction = session.transaction
    if transaction is not None:
        workspace = transaction.workspace
        if not plan.deferred:
            while True:
                try:
                    settle_deferred(workspace, None if names is None else set(names))
                except MustWait as conflict:
                    await session.waits.for_lock(transaction, conflict)
                else:
                    break
        workspace.deferred = _after(workspace, names, deferred=plan.deferred)
    return Result(plan.tag, -1)


def _after(workspace: Workspace, names: tuple[Name, ...] | None, *, deferred: bool) -> Deferred:
    now = workspace.deferred or NOTHING
    return now.with_all(deferred=deferred) if names is None else now.with_named(names, deferred=deferred)


def _found(catalog: Catalog, plan: SetConstraints) -> tuple[Name, ...]:
    """The constraints that are named: all of one name in the schema that has it."""
    found: list[Name] = []
    for schema, name in plan.names or ():
        there: list[Table] = []
        for within in catalog.path if schema is None else (schema,):
            there = [one for one in catalog.tables.values() if one.schema == within and _has(one, name)]
            if there:
                break
        if not there:
            raise SqlError("42704", f'constraint "{name}" does not exist')
        keys = [(table.id, key) for table in there for key in table.foreign_keys if key.name == name]
        if plan.deferred and not (keys and all(key.deferrable for _, key in keys)):
            raise SqlError("42809", f'constraint "{name}" is not deferrable')
        found += [(number, name) for number, _ in keys]
    return tuple(found)


def _has(table: Table, name: str) -> bool:
    """Whether a table has a foreign key, a key or UNIQUE of that name."""
    if any(key.name == name for key in table.foreign_keys):
        return True
    if table.key_name == name and not table.has_hidden_key:
        return True
    return any(index.constraint and index.name == name for index in table.indexes)
