"""A session's transaction: begun, committed, rolled back, and the savepoints and settings in it.

Of the classes that a session is made of, from below: ``base`` is its state, ``block`` begins and ends its
transaction, ``waiting`` is how it waits, ``running`` runs a plan, ``admission`` says whether a statement may
run, ``statements`` runs one, ``extended`` has prepared statements and portals, ``session`` is what a client
sees. Everything runs in the engine's turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from herdpy.log import Append, LogError
from herdpy_server.sessions.base import SessionBase
from herdpy_server.sessions.large import let_go, prepare
from herdpy_server.sessions.modes import MODES, check_mode
from herdpy_server.sessions.work import LastWait
from herdpy_server.store import Workspace
from herdpy_server.tablespace import DuplicateRequestError, Tablespace, Transaction, lost, sql_error
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_server.tablespace import Isolation

_OF_NO_ROW = frozenset({"25006", "40001", "40P01", "55P03", "57014", "57P01", "57P03", "HP003"})
"""Errors that tell nothing of rows."""
_OF_DEFINITIONS = frozenset({"42P01", "42703", "42704", "42P07", "42701", "42710"})
"""Errors of planning that tell what is defined."""


class TransactionBlock(SessionBase):
    """The transaction that a session has open, if any, and what waits for it to be durable."""

    def __init__(self, tablespace: Tablespace) -> None:
        super().__init__(tablespace)
        self.settings.on_mode = self._mode

    def begin(self) -> None:
        """Begin a transaction."""
        self.settings.begin()
        settings = self.settings
        self.transaction = self.tablespace.begin(
            instant=False, lock_timeout_s=settings.lock_timeout_s, isolation=settings.isolation
        )
        self.transaction.partner = self.advisory
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
            await self.log_room()
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

    async def log_room(self) -> None:
        """Wait until the log takes a commit; in the same turn it takes one. Errors end the waiting."""
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
        named = (
            self.implicit
            and committed
            and not self.settings.is_statements_name
            and not (transaction and transaction.workspace.records)
        )
        self.failed = self.implicit = self.pipelined = False
        if transaction is not None and not committed:
            self.tablespace.rollback(transaction)
        if self.advisory is not None:
            self.advisory.end_transaction()
        self.settings.end(committed=committed, local=self.local)
        if not named:
            self.settings.take_request_id()
        self.local.clear()
        self._savepoints.clear()
        self._chained = {}

    def _mode(self, name: str, value: str) -> None:
        """A mode of the open transaction is about to change. SqlError 25001 as ``check_mode``."""
        check_mode(self, name, value)
        if name == "transaction_isolation" and self.transaction is not None and not self.transaction.queried:
            level = "read committed" if value == "read uncommitted" else value
            self.tablespace.isolate(self.transaction, cast("Isolation", level))

    def set_local(self, name: str, value: str | None) -> None:
        """Give a setting a value until the open transaction ends."""
        before = self.settings.kept(name)
        self.settings.set(name, value)
        self.local.setdefault(name.lower(), before)

    def set_lasting(self, name: str, value: str | None) -> None:
        """Give a setting a value for the session, if the open transaction commits."""
        self.settings.set(name, value)
        self.local.pop(name.lower(), None)

    def savepoint(self, name: str) -> None:
        """Remember this point of the open transaction. SqlError 25P01 outside of one."""
        if self.transaction is None and not self.autocommit:
            self.begin()
        mark = self._within_transaction("SAVEPOINT").workspace.mark()
        self._savepoints.append((name, mark, (self.settings.mark(), dict(self.local))))

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
        _name, mark, (settings, local) = self._savepoints[found]
        transaction.workspace.undo(mark)
        self.local = dict(local)
        self.settings.undo(settings)
        del self._savepoints[found + 1 :]
        self.failed = False

    def modes_left(self) -> Mapping[str, str]:
        """The open transaction's modes, as AND CHAIN hands them on.

        What has failed was undone to the newest savepoint, and with it what was SET since; without one
        only what a chain began it with is left.
        """
        if not self.failed:
            return {name: self.settings[name] for name in MODES}
        if not self._savepoints:
            return self._chained
        return {name: self._savepoints[-1][2][0][name] for name in MODES}

    def begin_alike(self, modes: Mapping[str, str]) -> None:
        """Begin a transaction with the modes of the one before."""
        self.begin()
        self._chained = modes
        for name, value in modes.items():
            if self.settings[name] != value:
                self.set_local(name, value)

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
