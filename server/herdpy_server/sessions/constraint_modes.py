"""SET CONSTRAINTS: whether deferrable constraints are checked at COMMIT or now. Beside ``control``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.result import Result
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.deferred import NOTHING, Deferred, Name
from herdpy_sql.execute.reference_checks import settle_deferred
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.store import Workspace
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.plan.commands import SetConstraints


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
