"""UNDROP TABLE: the newest drop of a table of that name is looked for in the log, and taken back.

Above ``execution``, beside ``commands``. The log says which transaction dropped the table; the state of right
before it has the rows (``tablespace.past``), and ``herdpy_sql.execute.undrop`` makes them a table again, in
the open transaction or one of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from herdpy_server.roles.permissions import judge, must_own, owns
from herdpy_server.sessions.binding import PlanAlone
from herdpy_server.sessions.flashback import made, until_applied
from herdpy_server.sessions.result import Result
from herdpy_server.tablespace.past import BeforeTransaction
from herdpy_sql.catalog import is_temporary
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.undrop import DroppedTable, UndropTablePlan
from herdpy_sql.objects import SYSTEM
from herdpy_sql.plan.names import checked_name
from herdpy_sql.rights.acl import PUBLIC
from herdpy_sql.rights.held import subject_of
from herdpy_sql.rights.need import schema_needs
from herdpy_sql.sequences import SequenceState

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution
    from herdpy_server.tablespace.past import Drop, PastState
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.plan.commands import UndropTable


async def undrop_table(execution: Execution, plan: UndropTable, bound: BoundStatement) -> Result:
    """UNDROP TABLE.

    Raises:
        SqlError: 42P01 no table of that name was dropped in the time that is kept, 42P07 the name is taken,
            42501, 72000, and as ``UndropTablePlan``.
    """
    del bound
    block = execution.block
    block.check_writable(plan.tag)
    name = checked_name(plan.renamed or plan.name)
    catalog = block.catalog
    schemas = _schemas(catalog, plan.schema)
    await until_applied(block)
    past = block.tablespace.past
    places = {(schema, plan.name) for schema in schemas}
    drop: Drop | None = await made(block, lambda: past.last_drop(places, block.waits.check))
    if drop is None:
        raise _nothing(block, plan)
    state: PastState = await made(block, lambda: past.at(BeforeTransaction(drop.place), block.waits.check))
    _permit(block, state.catalog, drop)
    sequences = {number: SequenceState.decode(one) for number, one in state.sequences.items()}
    dropped = DroppedTable(drop.table, state.catalog, sequences, state.snapshot, partial(_is_role, block))
    answer = await execution.run_plan(PlanAlone(UndropTablePlan(dropped, name)))
    return Result(plan.tag, answer.rowcount)


def _schemas(catalog: Catalog, schema: str | None) -> tuple[str, ...]:
    schemas = catalog.path if schema is None else (schema,)
    found = tuple(one for one in schemas if not is_temporary(one) and one != "pg_temp")
    if not found:
        raise SqlError("0A000", "temporary tables are not brought back")
    return found


def _nothing(block: TransactionBlock, plan: UndropTable) -> SqlError:
    kept = block.tablespace.store.kept_past()
    name = plan.name if plan.schema is None else f"{plan.schema}.{plan.name}"
    return SqlError(
        "42P01",
        f'no table "{name}" was dropped in the time that is kept',
        hint=f"What was dropped before {kept.oldest_lsn} is gone; herdpy.flashback shows what is kept.",
        table=plan.name,
    )


def _permit(block: TransactionBlock, then: Catalog, drop: Drop) -> None:
    """See to it that the role owned the table, and may make one there. SqlError 42501."""
    role, subject, database = block.checked_role, subject_of(drop.table), block.identity.database
    if role is None or role.is_superuser:
        return
    if not owns(then, subject, role):
        raise must_own(subject, database)
    now = block.catalog
    if now.has_schema(drop.table.schema):
        needs = list(schema_needs(now, drop.table.schema, "C"))
        judge(needs, now, role, block.effective_role_of, database)


def _is_role(block: TransactionBlock, key: str) -> bool:
    """Whether a role is there, by its key."""
    if key in {PUBLIC, SYSTEM, block.effective_role.key} or block.roles is None:
        return True
    return any(one.key == key for one in block.roles)
