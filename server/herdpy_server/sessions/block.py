"""A session's transaction: begun, committed, rolled back, and the savepoints and settings in it.

The lowest of the classes that a session is made of: ``block`` holds the open transaction, ``waiting`` is how
it waits, ``statements`` runs one statement, ``extended`` has prepared statements and portals, ``session`` is
what a client sees. Everything runs in the engine's turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from herdpy.log import Append, LogError
from herdpy_server.sessions.large import let_go, prepare
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.sessions.modes import check_mode
from herdpy_server.sessions.notices import Notice
from herdpy_server.sessions.observer import Observer
from herdpy_server.sessions.settings import Settings
from herdpy_server.sessions.standing import Standing, everything, nothing
from herdpy_server.sessions.system_state import Directory, Identity
from herdpy_server.sessions.work import LastWait
from herdpy_server.store import Mark, Workspace
from herdpy_server.tablespace import DuplicateRequestError, Tablespace, Transaction, lost, sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.sequences import SequenceMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_server.sessions.advisory import AdvisoryLocks
    from herdpy_server.sessions.audit import Auditor
    from herdpy_server.sessions.portals import Portal
    from herdpy_server.sessions.prepared import PreparedStatement
    from herdpy_server.sessions.roles import Roles
    from herdpy_server.tablespace import Isolation
    from herdpy_sql.catalog import Catalog

_OF_NO_ROW = frozenset({"25006", "40001", "40P01", "55P03", "57014", "57P01", "57P03", "HP003"})
"""Errors that tell nothing of rows."""
_OF_DEFINITIONS = frozenset({"42P01", "42703", "42704", "42P07", "42701", "42710"})
"""Errors of planning that tell what is defined."""


class TransactionBlock:
    """The transaction that a session has open, if any, and what waits for it to be durable.

    Attributes:
        autocommit: True: a statement outside BEGIN is a transaction of its own. False: one begins
            with the first statement, as PEP 249 wants.
        sequences: the values that it was given.
        settings: what SET and SHOW act upon; ``local`` names those that end with the transaction.
        transaction: the open one, or None. ``failed``: only ROLLBACK can end it. ``implicit``: it was
            begun for a text of several statements, or a pipeline, and ends with it, unless BEGIN is said.
            ``pipelined``: for a pipeline.
        prepared, portals: by name.
        allowed: what the session may keep.
        notices: what it has to say besides answers, in order; whoever answers the client empties it.
        roles: those that CREATE ROLE makes; None where nobody needs one.
        observer: is told of every statement that has ended; None for nobody.
        may_recover: an error of the running statement may yet be taken back.
        auditor: is told of statements before they run; None for nobody.
        standing: of the role whose rights count; ``judged`` is the same, None where it may do everything and
            nobody is told of it.
        standing_of: gives others' standings by their keys. ``role_now``: that of the role that SET ROLE says.
        identity: who the client is. ``directory``: who else there is; None for nobody.
        advisory: the advisory locks that it has; None before the first.
    """

    def __init__(self, tablespace: Tablespace) -> None:
        self.tablespace = tablespace
        self.autocommit = True
        self.settings = Settings()
        self.settings.on_mode = self._mode
        self.sequences = SequenceMemory(self.settings)
        self.local: set[str] = set()
        self.transaction: Transaction | None = None
        self.may_recover = False
        self._failed = False
        self.implicit = self.pipelined = False
        self.prepared: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        self.allowed = SessionLimits()
        self.notices: list[Notice] = []
        self.roles: Roles | None = None
        self.observer: Observer | None = None
        self.identity = Identity()
        self.auditor: Auditor | None = None
        self.role_now: Callable[[], Standing] = everything
        self.settings.on_role = self._take_role
        self.standing: Standing = everything()
        self.judged: Standing | None = None
        self.standing_of: Callable[[str], Standing] = nothing
        self.directory: Directory | None = None
        self.advisory: AdvisoryLocks | None = None
        self._savepoints: list[tuple[str, Mark]] = []
        self._basis: object = None  # the guard's, when the newest statement began to read

    @property
    def failed(self) -> bool:
        """Whether only ROLLBACK can end the open transaction, or take it back to a savepoint."""
        return self._failed

    @failed.setter
    def failed(self, failed: bool) -> None:
        self._failed = failed
        if failed and not self._savepoints and not self.may_recover and self.transaction is not None:
            self.tablespace.locks.release_all(self.transaction)  # it can only be rolled back: others go on

    def notice(self, severity: str, sqlstate: str, message: str) -> None:
        """Have something said to the client, if it wants to know."""
        notice = Notice(severity, sqlstate, message)
        if notice.is_wanted(self.settings["client_min_messages"]):
            self.notices.append(notice)

    @property
    def in_block(self) -> bool:
        """Whether statements that need a transaction block have one: a pipeline alone is none."""
        if self.transaction is None:
            return not self.autocommit
        return not (self.implicit and self.pipelined)

    @property
    def depth(self) -> int:
        """How many savepoints the open transaction has."""
        return len(self._savepoints)

    @property
    def status(self) -> str:
        """ "idle", "active" in a transaction, "failed" in one that only ROLLBACK can end."""
        if self.failed:
            return "failed"
        return "idle" if self.transaction is None else "active"

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""
        if self.transaction is not None:
            return self.transaction.workspace.catalog.along(self.settings.path)
        return self.tablespace.catalog.along(self.settings.path)

    def act_as(self, standing: Standing) -> None:
        """From now on a role's rights count."""
        self.standing = standing
        self.judged = None if standing.is_superuser and self.auditor is None else standing
        if self.transaction is not None:
            self.transaction.workspace.role = standing.key

    def _take_role(self) -> None:
        """SET ROLE, or its end."""
        self.act_as(self.role_now())

    def make_temporary_schema(self) -> None:
        """See to it that the session has a schema for temporary tables."""
        if not self.settings.temporary_schema:
            self.settings.use_temporary_schema(self.tablespace.temporary.give())

    def drop_temporary(self) -> None:
        """The session's temporary tables go."""
        schema = self.settings.temporary_schema
        if schema:
            self.settings.use_temporary_schema("")
            self.tablespace.temporary.living.discard(schema)
            if not self.settings.standby:
                self.tablespace.temporary.sweep(self.tablespace)

    def begin(self) -> None:
        """Begin a transaction."""
        self.settings.begin()
        settings = self.settings
        self.transaction = self.tablespace.begin(
            instant=False, lock_timeout_s=settings.lock_timeout_s, isolation=settings.isolation
        )
        self.transaction.workspace.memory = self.sequences
        self.transaction.workspace.role = self.standing.key

    async def commit(self) -> None:
        """Commit the open transaction, if there is one; a failed one is rolled back (25P02 is not raised)."""
        transaction = self.transaction
        if transaction is None:
            return
        if self.failed:
            await self.rollback()
            return
        try:
            await self._settle(transaction)
        except BaseException as error:
            self._end(committed=False)
            await self._confirm(error, transaction.workspace)
            raise
        try:
            await prepare(transaction)
            append = self.tablespace.commit(transaction, self.settings.request_id)
        except BaseException as error:
            self._end(committed=False)
            if isinstance(error, LogError):
                raise sql_error(error) from error
            if isinstance(error, DuplicateRequestError):
                await error.confirm()
            raise
        self._end(committed=True)
        await self._durable(append, transaction.workspace)
        await let_go(transaction)

    async def _settle(self, transaction: Transaction) -> None:
        """Before a commit: make the checks that the transaction has put off. SqlError 23503."""
        raise NotImplementedError

    async def rollback(self) -> None:
        """Undo the open transaction, if there is one."""
        transaction = self.transaction
        if transaction is not None:
            self._end(committed=False)
            await let_go(transaction)

    def roll_back_now(self) -> None:
        """Undo the open transaction, if there is one; within the engine's turn."""
        if self.transaction is not None:
            self._end(committed=False)

    def abort(self) -> None:
        """An error happened: an implicit transaction is undone, another has failed."""
        if self.transaction is not None:
            if self.implicit:
                self._end(committed=False)
            else:
                self.failed = True

    def _end_portals(self, *, committed: bool) -> None:
        """A transaction ended: its portals go. Cursors WITH HOLD stay, if it committed."""
        for name, portal in list(self.portals.items()):
            if portal.hold and (committed or portal.held):
                portal.held = True
            else:
                self.drop_portal(name)

    def drop_portal(self, name: str) -> bool:
        """Forget a portal and let go of its answer; False when there is none."""
        portal = self.portals.pop(name, None)
        if portal is not None:
            portal.close()
        return portal is not None

    def drop_portals(self) -> None:
        """Forget all portals."""
        for name in list(self.portals):
            self.drop_portal(name)

    def _end(self, *, committed: bool) -> None:
        if self.portals:
            self._end_portals(committed=committed)
        transaction, self.transaction = self.transaction, None
        # A pipeline that has only given the next commit its name, or only read, leaves the name to that.
        named = self.implicit and committed and not (transaction and transaction.workspace.records)
        self.failed = self.implicit = self.pipelined = False
        if transaction is not None and not committed:
            self.tablespace.rollback(transaction)
        if self.advisory is not None:
            self.advisory.end_transaction()
        self.settings.end(committed=committed, local=frozenset(self.local))
        if not named:
            self.settings.take_request_id()
        self.local.clear()
        self._savepoints.clear()

    def _mode(self, name: str, value: str) -> None:
        """A mode of the open transaction is about to change. SqlError 25001 as ``check_mode``."""
        check_mode(self, name, value)
        if name == "transaction_isolation" and self.transaction is not None and not self.transaction.queried:
            level = "read committed" if value == "read uncommitted" else value
            self.tablespace.isolate(self.transaction, cast("Isolation", level))

    def set_local(self, name: str, value: str | None) -> None:
        """Give a setting a value until the open transaction ends."""
        self.settings.set(name, value)
        self.local.add(name.lower())

    def savepoint(self, name: str) -> None:
        """Remember this point of the open transaction. SqlError 25P01 outside of one."""
        if self.transaction is None and not self.autocommit:
            self.begin()
        self._savepoints.append((name, self._within_transaction("SAVEPOINT").workspace.mark()))

    def release_savepoint(self, name: str) -> None:
        """Forget a savepoint and those after it."""
        self._within_transaction("RELEASE SAVEPOINT")
        del self._savepoints[self._find_savepoint(name) :]

    def rollback_to(self, name: str) -> None:
        """Undo what came after a savepoint, and the transaction's failure with it."""
        transaction = self._within_transaction("ROLLBACK TO SAVEPOINT")
        found = self._find_savepoint(name)
        for portal in [one for one in self.portals.values() if one.depth > found and not one.held]:
            self.drop_portal(portal.name)
        transaction.workspace.undo(self._savepoints[found][1])
        del self._savepoints[found + 1 :]
        self.failed = False

    def _within_transaction(self, what: str) -> Transaction:
        if self.transaction is None or self.implicit:
            raise SqlError("25P01", f"{what} can only be used in transaction blocks")
        return self.transaction

    def _find_savepoint(self, name: str) -> int:
        for at in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[at][0] == name:
                return at
        self.failed = True
        raise SqlError("3B001", f'savepoint "{name}" does not exist')

    # Answers rest only on what is durable.

    async def _durable(self, append: Append | None, workspace: Workspace, *, last: bool = False) -> None:
        """Answer only when what was written, and all that was read, cannot be lost any more.

        Args:
            last: nothing but the answer comes after this.
        """
        if append is None:
            if workspace.rests_on_loss:
                raise lost()
            if workspace.read_position:
                await self._read_durable(workspace.read_position)
            workspace.verified()
            return
        try:
            await (LastWait(append) if last else append)
        except LogError as error:
            raise sql_error(error) from error
        if append.transaction.request_id:
            self.settings.committed(str(append.lsn))

    async def _read_durable(self, position: int) -> None:
        append = self.tablespace.durable_of(position)
        if append is not None:
            try:
                await append
            except LogError as error:
                raise lost(error) from error

    async def _durable_definitions(self, error: SqlError | None = None) -> None:
        """An error of planning is an answer too: it may say that a table is there, or is not."""
        if self.transaction is None or self.transaction.workspace.own_catalog is None:
            await self._read_durable(self.tablespace.store.visible_catalog[1])
        guard, wanted = self.tablespace.guard, self.settings.read_level
        if guard is not None and error is not None and error.sqlstate in _OF_DEFINITIONS:
            if not guard.is_open(wanted):
                await guard.admit(wanted)
            basis = guard.basis
            if not guard.holds(wanted, basis):
                await guard.confirm(wanted, basis)

    async def _confirm(self, error: BaseException, workspace: Workspace) -> None:
        """Before ``error`` is raised: what it tells of rows must be durable, as any answer."""
        if isinstance(error, DuplicateRequestError):
            await error.confirm()
        if isinstance(error, SqlError) and error.sqlstate not in _OF_NO_ROW:
            await self._durable(None, workspace)
            guard = self.tablespace.guard
            if guard is not None and not self.settings.standby:
                await guard.confirm(self.settings.read_level, self._basis)
