"""The statements that a session carries out itself, by family, and their table.

Transactions, settings, prepared statements, cursors, roles and rights, tablespaces, upkeep. Each is called
with its plan, which ``herdpy_sql.plan`` has parsed, and with the session's state, or with ``Execution`` where
it runs plans; it checks who may and when. COPY is ``copying``'s, the names of commits ``request_ids``'.

Above ``execution``, which is given the table by ``session``.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from herdpy.log.wait import Work
from herdpy_server.roles.right_changes import right_change, schema_creation
from herdpy_server.roles.role_changes import change_members, change_roles
from herdpy_server.sessions.binding import AnalyzedTable, PlanAlone
from herdpy_server.sessions.copying import copy_in, copy_out, parameters_in
from herdpy_server.sessions.flashback import past_state
from herdpy_server.sessions.plans import Prepared, PreparedStatement, no_statement
from herdpy_server.sessions.portals import Portal, no_portal
from herdpy_server.sessions.request_ids import request_function
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.undropping import undrop_table
from herdpy_server.store.notified import check_channel
from herdpy_server.tablespace import now_us
from herdpy_server.tablespace.cluster import no_cluster
from herdpy_sql.clock import Clock
from herdpy_sql.deferred import NOTHING, Deferrable, Deferred, Name
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.define import DefinePlan
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.plan import (
    Begin,
    ChangeRights,
    ChangeRoles,
    ChangeTablespaces,
    Checkpoint,
    CheckTablespace,
    CloseCursor,
    Commit,
    CopyFrom,
    CopyParameters,
    CopyTo,
    CreateSchemaFor,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Explain,
    Fetch,
    Listen,
    Plan,
    Prepare,
    ReleaseSavepoint,
    RequestFunction,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetConstraints,
    SetSetting,
    ShowSetting,
    UndropTable,
    Vacuum,
)

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Control, Execution
    from herdpy_server.store import Workspace
    from herdpy_server.tablespace.cluster import Cluster
    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.storage import View


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
    _check_begun(session, "COMMIT", chain=plan.chain)
    failed = session.failed
    modes = session.modes_left() if plan.chain else {}
    await session.commit()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK" if failed else "COMMIT", -1)


async def rollback(session: TransactionBlock, plan: Rollback) -> Result:
    """ROLLBACK. SqlError 25P01 as COMMIT."""
    _check_begun(session, "ROLLBACK", chain=plan.chain)
    modes = session.modes_left() if plan.chain else {}
    await session.rollback()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK", -1)


def _check_begun(session: TransactionBlock, what: str, *, chain: bool) -> None:
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
    """SET CONSTRAINTS; what becomes immediate is checked, and nothing changes when that fails.

    Raises:
        SqlError: 42704 there is no such constraint, 42809 it is not deferrable, 23503 it does not hold.
    """
    if session.transaction is None and not session.autocommit:
        session.begin()
    if not session.in_block:
        session.notice("WARNING", "25P01", "SET CONSTRAINTS can only be used in transaction blocks")
    names = None if plan.names is None else _constraints_named(session.catalog, plan)
    transaction = session.transaction
    if transaction is not None:
        workspace = transaction.workspace
        if not plan.deferred:
            await session.waits.settle(transaction, None if names is None else set(names))
        workspace.deferred = _deferred_after(workspace, names, deferred=plan.deferred)
    return Result(plan.tag, -1)


def _deferred_after(workspace: Workspace, names: tuple[Name, ...] | None, *, deferred: bool) -> Deferred:
    now = workspace.deferred or NOTHING
    return now.with_all(deferred=deferred) if names is None else now.with_named(names, deferred=deferred)


def _constraints_named(catalog: Catalog, plan: SetConstraints) -> tuple[Name, ...]:
    """The constraints that are named: all of one name in the schema that has it."""
    found: list[Name] = []
    for schema, name in plan.names or ():
        there: list[Table] = []
        for within in catalog.path if schema is None else (schema,):
            there = [
                one for one in catalog.tables.values() if one.schema == within and _has_constraint(one, name)
            ]
            if there:
                break
        if not there:
            raise SqlError("42704", f'constraint "{name}" does not exist')
        keys: list[tuple[int, Deferrable]] = [
            (table.id, key) for table in there for key in table.foreign_keys if key.name == name
        ]
        keys += [
            (table.id, key) for table in there for key in table.indexes if key.deferrable and key.name == name
        ]
        if plan.deferred and not (keys and all(key.deferrable for _, key in keys)):
            raise SqlError("42809", f'constraint "{name}" is not deferrable')
        found += [(number, name) for number, _ in keys]
    return tuple(found)


def _has_constraint(table: Table, name: str) -> bool:
    """Whether a table has a foreign key, a key or UNIQUE of that name."""
    if any(key.name == name for key in table.foreign_keys):
        return True
    if table.key_name == name and not table.has_hidden_key:
        return True
    return any(index.constraint and index.name == name for index in table.indexes)


async def set_setting(session: TransactionBlock, plan: SetSetting) -> Result:
    """SET, SET LOCAL, SET TRANSACTION and SET SESSION CHARACTERISTICS. SqlError as ``Settings.set``."""
    if plan.name == "session characteristics":
        for mode, chosen_value in modes_of((plan.value or "").split(", ")):
            session.settings.set(f"default_{mode}", chosen_value)
        return Result("SET", -1)
    if not plan.local:
        session.set_lasting(plan.name, plan.value)
        return Result("SET", -1)
    if session.transaction is None and not session.autocommit:
        session.begin()
    if not session.in_block:
        what = "SET TRANSACTION" if plan.name == "transaction" else "SET LOCAL"
        session.notice("WARNING", "25P01", f"{what} can only be used in transaction blocks")
    chosen: list[tuple[str, str | None]] = [(plan.name, plan.value)]
    if plan.name == "transaction":
        chosen = [*modes_of((plan.value or "").split(", "))]
    for name, value in chosen:
        if session.transaction is not None:
            session.set_local(name, value)
        else:
            session.settings.checked(name, value)
    return Result("SET", -1)


async def reset_setting(session: TransactionBlock, plan: ResetSetting) -> Result:
    """RESET. SqlError as ``Settings.set``."""
    if plan.name == "all":
        session.settings.reset()
    else:
        session.set_lasting(plan.name, None)
    return Result("RESET", -1)


async def show_setting(session: TransactionBlock, plan: ShowSetting) -> Result:
    """SHOW. SqlError 42704."""
    rows: list[tuple[Any, ...]]
    if plan.name == "all":
        rows = [(setting.name, value, setting.description) for setting, value in session.settings]
    else:
        rows = [(session.settings[plan.name],)]
    return Result("SHOW", len(rows), plan.columns, rows)


async def prepare_statement(session: TransactionBlock, plan: Prepare) -> Result:
    """PREPARE: the names are those of the protocol's Parse, too.

    SqlError 42P05, 53400, and as planning raises.
    """
    text = plan.statement.text
    prepared = Prepared(session.plans, plan.statement, plan.types)
    catalog = session.catalog
    if prepared.as_of is not None:
        catalog = catalog.reading((await past_state(session, prepared.as_of)).catalog)
    made = PreparedStatement(
        session.plans,
        text,
        prepared,
        catalog,
        session.settings.engine,
        by_sql=True,
        source=session.source,
    )
    if plan.name in session.prepared:
        raise SqlError("42P05", f'prepared statement "{plan.name}" already exists')
    session.allowed.check_statements(len(session.prepared))
    session.prepared[plan.name] = made
    return Result("PREPARE", -1)


async def execute_prepared(execution: Execution, plan: Execute, bound: BoundStatement) -> Result:
    """EXECUTE. SqlError 26000, 0A000, and as the statement raises."""
    del bound
    session = execution.block
    found = session.prepared.get(plan.name)
    if found is None:
        raise no_statement(plan.name)
    if found.named:
        raise SqlError("0A000", f'EXECUTE cannot give "{plan.name}" the name of its commit, only Bind can')
    now = now_us()
    transaction = session.transaction
    started = now if transaction is None else transaction.started_us
    found.binds += 1
    datums = plan.datums(found.param_types, Clock(started, now, session.settings.style))
    return await execution.statement(found, datums)


async def deallocate(session: TransactionBlock, plan: Deallocate) -> Result:
    """DEALLOCATE. SqlError 26000."""
    if plan.name is None:
        session.prepared.clear()
    elif session.prepared.pop(plan.name, None) is None:
        raise no_statement(plan.name)
    return Result(plan.tag, -1)


async def discard(session: TransactionBlock, plan: Discard) -> Result:
    """DISCARD. SqlError 25001."""
    if plan.what == "ALL":
        if session.transaction is not None:
            how = "run inside a transaction block" if session.in_block else "be executed within a pipeline"
            raise SqlError("25001", f"DISCARD ALL cannot {how}")
        session.drop_portals()
        session.prepared.clear()
        session.settings.set("session_authorization", None)
        session.settings.reset()
        if session.advisory is not None:
            session.advisory.unlock_all()
        session.listen(None, ends=True)
    if plan.what in {"ALL", "SEQUENCES"}:
        session.sequences.forget()
    if plan.what in {"ALL", "TEMP", "TEMPORARY"}:
        session.drop_temporary()
    return Result(plan.tag, -1)


_VALUE_ERRORS = "22"
"""The class of errors that computing a row raises: those of a cursor are raised when its rows are fetched."""


async def declare_cursor(execution: Execution, plan: DeclareCursor, bound: BoundStatement) -> Result:
    """DECLARE: the query begins now, its rows are fetched later.

    Raises:
        SqlError: 25P01 outside of a transaction, unless WITH HOLD; 42P03 the name is taken; 53400; and
            what the query raises, but for errors of single values, which its first FETCH raises.
    """
    session = execution.block
    alone = session.transaction is None and session.autocommit
    if not plan.hold and not session.in_block:
        raise SqlError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
    if plan.name in session.portals:
        raise SqlError("42P03", f'cursor "{plan.name}" already exists')
    session.allowed.check_portals(len(session.portals))
    portal = Portal(plan.name, None, ())
    portal.columns = plan.query.columns
    portal.by_sql, portal.hold, portal.scroll = True, plan.hold, plan.scroll
    portal.depth = session.depth
    portal.is_binary = plan.binary
    portal.source = session.source
    portal.scrolls = plan.scroll == "SCROLL" or (not plan.scroll and plan.goes_back)
    session.may_recover = session.declares = True
    try:
        answer = await execution.run_plan(bound.inner(plan.query))
        portal.columns = answer.columns
        execution.cursors.hold(portal, answer)
        if portal.buffer is not None:
            if session.cursor_form is not None and not plan.hold:
                portal.buffer.prefer(session.cursor_form(answer.columns or ()))
            await portal.buffer.reach(None if plan.hold else 1)  # errors but of values are DECLARE's
    except SqlError as error:
        if plan.hold or not error.sqlstate.startswith(_VALUE_ERRORS) or session.transaction is None:
            raise
        session.failed = False
        portal.failure = error
    except BaseException:
        portal.close()
        raise
    finally:
        session.may_recover = session.declares = False
    portal.held = alone
    session.portals[plan.name] = portal
    return Result("DECLARE CURSOR", -1)


async def fetch(execution: Execution, plan: Fetch, bound: BoundStatement) -> Result:
    """FETCH or MOVE. SqlError 34000, and as ``Portal.fetch``."""
    del bound
    session = execution.block
    portal = session.portals.get(plan.name)
    if portal is None:
        raise no_portal(plan.name, "cursor")
    await _run_portal(execution, portal)
    return await portal.fetch(session, plan.direction, plan.count, move=plan.move)


async def close_cursor(session: TransactionBlock, plan: CloseCursor) -> Result:
    """CLOSE. SqlError 34000."""
    if plan.name is None:
        session.drop_portals()
    elif not session.drop_portal(plan.name):
        raise no_portal(plan.name, "cursor")
    return Result(plan.tag, -1)


async def _run_portal(execution: Execution, portal: Portal) -> None:
    """See to it that a portal has its answer."""
    if portal.has_run:
        return
    if portal.spent or portal.statement is None:
        portal.result = Result("", 0, portal.columns, [])
    else:
        execution.cursors.hold(portal, await execution.statement(portal.statement, portal.datums))


async def change_roles_by_plan(session: TransactionBlock, plan: ChangeRoles) -> Result:
    """CREATE, ALTER and DROP ROLE. SqlError as ``change_roles``."""
    await change_roles(session, plan.command)
    return Result(plan.command.name, -1)


async def change_rights(execution: Execution, plan: ChangeRights, bound: BoundStatement) -> Result:
    """GRANT, REVOKE and their relatives. SqlError as ``right_change`` and ``change_members``."""
    del bound
    session, command = execution.block, plan.command
    if command.name in {"GRANT ROLE", "REVOKE ROLE"}:
        await change_members(session, command)
        return Result(command.name, -1)
    return await _define(execution, command.name, right_change(session, command))


async def create_schema_for(execution: Execution, plan: CreateSchemaFor, bound: BoundStatement) -> Result:
    """CREATE SCHEMA ... AUTHORIZATION. SqlError as ``schema_creation``."""
    del bound
    return await _define(execution, plan.tag, schema_creation(execution.block, plan))


async def _define(execution: Execution, tag: str, work: Callable[[View], None]) -> Result:
    """Change definitions, in the open transaction or one of its own."""
    plan = DefinePlan(tag, "rights", work)
    await execution.run_plan(PlanAlone(plan))
    return Result(tag, -1)


async def change_tablespaces(session: TransactionBlock, plan: ChangeTablespaces) -> Result:
    """CREATE, ALTER and DROP TABLESPACE; the node does it, see ``tablespace.cluster``.

    What these change is in ZooKeeper and not in the log: it is done at once, no transaction takes it back,
    and so inside BEGIN there is none. Any node does it, also one whose replica only follows.

    Raises:
        SqlError: 42501 the user may not, 25001 inside a transaction block, 25006, 55000 where there is no
            cluster; and as ``Cluster.change``.
    """
    command = plan.command
    cluster = _cluster_for(session, command.name, command.tablespace)
    for remark in await session.waits.until(cluster.change(command, session.identity.database)):
        session.notice(*remark)
    return Result(command.name, -1)


async def check_tablespace(session: TransactionBlock, plan: CheckTablespace) -> Result:
    """CHECK TABLESPACE: compare replicas. SqlError as above, and as ``Cluster.check``."""
    cluster = _cluster_for(session, plan.tag, plan.name)
    checked = await session.waits.until(cluster.check(plan.name))
    for remark in checked.remarks:
        session.notice(*remark)
    return Result(plan, len(checked.rows), plan.columns, list(checked.rows))


def _cluster_for(session: TransactionBlock, name: str, tablespace: str) -> Cluster:
    """The node, if the user may ask it for statement ``name`` now."""
    if session.transaction is not None and not session.implicit:
        raise SqlError("25001", f"{name} cannot run inside a transaction block")
    if session.settings.read_only and not session.settings.standby:
        raise SqlError("25006", f"cannot execute {name} in a read-only transaction")
    if not session.effective_role.is_superuser:
        what = name.split(maxsplit=1)[0].lower()
        raise SqlError(
            "42501", f'permission denied to {what} tablespace "{tablespace}"', hint="Must be superuser."
        )
    cluster = session.tablespace.cluster
    if cluster is None:
        raise no_cluster()
    return cluster


async def listen(session: TransactionBlock, plan: Listen) -> Result:
    """LISTEN and UNLISTEN. SqlError 22023 for a name that is none, 54000; 0A000 in a forwarded session."""
    if session.is_forwarded:
        raise SqlError(
            "0A000",
            f"{plan.tag} cannot be forwarded to the leader with other statements",
            hint="Send it in a query of its own.",
        )
    if plan.channel is not None and not plan.ends:
        check_channel(plan.channel)
    if session.transaction is None and not session.autocommit:
        session.begin()
    session.listen(plan.channel, ends=plan.ends)
    return Result(plan.tag, -1)


async def checkpoint(session: TransactionBlock, plan: Checkpoint) -> Result:
    """CHECKPOINT."""
    del plan
    await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    return Result("CHECKPOINT", -1)


async def vacuum(execution: Execution, plan: Vacuum, bound: BoundStatement) -> Result:
    """VACUUM and ANALYZE. SqlError 25001."""
    del bound
    session = execution.block
    if plan.reclaims:
        if session.transaction is not None:
            raise SqlError("25001", "VACUUM cannot run inside a transaction block")
        await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    for one in plan.analyzed:
        await execution.run_plan(AnalyzedTable(execution.binding, one))
    return Result(plan.tag, -1)


async def explain(execution: Execution, plan: Explain, bound: BoundStatement) -> Result:
    """EXPLAIN, with ANALYZE as it ran. SqlError as the statement raises."""
    found: dict[str, object] | None = None
    if plan.analyze:
        plan = plan.measured()
        began = time.perf_counter()
        answer = await execution.run_plan(bound.inner(plan.plan), as_planned=True)
        if answer.stream is not None:
            answer = await answer.stream.whole()
        elapsed_ms = (time.perf_counter() - began) * 1000
        found = {"Rows": max(answer.rowcount, 0), "Execution Time": elapsed_ms}
    rows = [(line,) for line in plan.lines(found)]
    return Result("EXPLAIN", len(rows), plan.columns, rows)  # type: ignore[arg-type]


_OF_THE_BLOCK: dict[type[Plan], Callable[[TransactionBlock, Any], Awaitable[Result]]] = {
    Begin: begin,
    Commit: commit,
    Rollback: rollback,
    Savepoint: savepoint,
    ReleaseSavepoint: release_savepoint,
    RollbackToSavepoint: rollback_to_savepoint,
    SetSetting: set_setting,
    ResetSetting: reset_setting,
    ShowSetting: show_setting,
    Checkpoint: checkpoint,
    Prepare: prepare_statement,
    Deallocate: deallocate,
    CloseCursor: close_cursor,
    Discard: discard,
    SetConstraints: set_constraints,
    Listen: listen,
    ChangeRoles: change_roles_by_plan,
    ChangeTablespaces: change_tablespaces,
    CheckTablespace: check_tablespace,
}
"""Those that need only the session's state."""


def _with_block(handler: Callable[[TransactionBlock, Any], Awaitable[Result]]) -> Control:
    def handle(execution: Execution, plan: Plan, bound: BoundStatement) -> Awaitable[Result]:
        del bound
        return handler(execution.block, plan)

    return handle


CONTROLS: Mapping[type[Plan], Control] = {
    **{plan: _with_block(handler) for plan, handler in _OF_THE_BLOCK.items()},
    Vacuum: vacuum,
    Explain: explain,
    LockTablePlan: lock_table,
    RequestFunction: request_function,
    UndropTable: undrop_table,
    Execute: execute_prepared,
    DeclareCursor: declare_cursor,
    Fetch: fetch,
    CopyFrom: copy_in,
    CopyParameters: parameters_in,
    CopyTo: copy_out,
    ChangeRights: change_rights,
    CreateSchemaFor: create_schema_for,
}
"""What carries out each of the statements that a session carries out itself."""
