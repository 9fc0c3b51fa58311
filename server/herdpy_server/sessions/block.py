"""A session's state: its settings, its role, its open transaction, and what it is to say to the client.

The lowest layer of a session, in the engine's turn. A statement changes it by beginning, committing and
rolling back the transaction; :class:`~herdpy_server.sessions.waits.StatementWaits` and
:class:`~herdpy_server.sessions.answer_checks.AnswerChecks` stand below, and everything that runs statements
is given the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, cast

from herdpy.log import Append, LogError
from herdpy.log.wait import Pause
from herdpy_server.roles.effective_role import EffectiveRole, dropped_role, unlimited_role
from herdpy_server.sessions.answer_checks import AnswerChecks
from herdpy_server.sessions.identity import Identity, Observer, SessionDirectory
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.sessions.listening import SessionChannels
from herdpy_server.sessions.settings import MESSAGE_LEVELS, MODES, Settings
from herdpy_server.sessions.time_slices import is_large, let_go, prepare
from herdpy_server.sessions.waits import StatementWaits
from herdpy_server.store import Mark
from herdpy_server.tablespace import DuplicateRequestError, Tablespace, Transaction, sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.sequences import SequenceMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from herdpy_server.roles.role import RoleStore
    from herdpy_server.sessions.advisory import AdvisoryLocks
    from herdpy_server.sessions.encoded_rows import RowForm
    from herdpy_server.sessions.identity import Auditor
    from herdpy_server.sessions.plans import PlanCache, PreparedStatement
    from herdpy_server.sessions.portals import Portal
    from herdpy_server.tablespace import Isolation
    from herdpy_server.tracing import SessionTrace
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.plan import OutputColumn

SettingsMark = tuple["Mapping[str, str]", "Mapping[str, str]"]
"""The settings at a savepoint, and the ``local`` ones."""


@dataclass(frozen=True, slots=True)
class SessionNotice:
    """One message that is no error.

    Attributes:
        severity: "WARNING", "NOTICE" or "INFO".
        sqlstate: five characters; "00000" when it says nothing.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None

    def is_wanted(self, least: str) -> bool:
        """Whether a client whose client_min_messages is ``least`` wants it. INFO is always sent."""
        return self.severity == "INFO" or MESSAGE_LEVELS.index(self.severity.lower()) >= MESSAGE_LEVELS.index(
            least
        )


class TransactionBlock:
    """The state of one session, and the transaction that it has open, if any.

    Attributes:
        tablespace: what the session is a session of. ``plans``: the plans that its sessions share.
        waits: what the running statement waits for. ``checks``: what must be so before an answer.
        autocommit: True: a statement outside BEGIN is a transaction of its own. False: one begins
            with the first statement, as PEP 249 wants.
        sequences: the values that it was given.
        settings: what SET and SHOW act upon; ``local``: what those go back to that end with the transaction.
        transaction: the open one, or None. ``failed``: only ROLLBACK can end it. ``implicit``: it was
            begun for a text of several statements, or a pipeline, and ends with it, unless BEGIN is said.
            ``pipelined``: for a pipeline. ``began_standby``: this replica followed when it began.
        savepoints: of the open transaction, in order: name, mark, and what was SET.
        prepared, portals: by name.
        allowed: what the session may keep.
        notices: what it has to say besides answers, in order; whoever answers the client empties it.
        roles: those that CREATE ROLE makes; None where nobody needs one.
        observer: is called for every statement that has ended; None for nobody.
        trace: is given the steps of statements; None where the server does not trace.
        may_recover: an error of the running statement may yet be taken back.
        auditor: is called for statements before they run; None for nobody.
        effective_role: the role whose rights count; ``checked_role`` is the same, None where it may do
        everything and there is no auditor.
        effective_role_of: gives others by their keys. ``role_now``: the role that SET ROLE says.
        identity: who the client is. ``directory``: who else there is; None for nobody.
        advisory: the advisory locks that it has; None before the first.
        channels: what it listens on; None before the first LISTEN.
        is_forwarded: another node forwards statements of its client's session, which listens there.
        exposed: a signal's exception may come wherever it is now: nothing that others share may be changed.
        text: the newest statement; it began at ``text_began_us`` (wall clock), and ``is_running`` or is over.
            ``source``: all that came in one piece with it.
        declares: the statement is DECLARE; ``streams_cursors``: then its query's rows are made when they are
            fetched, also where no loop runs the session.
        cursor_form: what a cursor's rows with these columns had better be encoded by, since the client will
            likely FETCH them so; None where nobody wants bytes.
        membership: of those that its host knows of, see ``open_sessions``.
        on_notification: called in the engine's turn when a notification waits and none did.
    """

    def __init__(self, tablespace: Tablespace, plans: PlanCache) -> None:
        self.tablespace = tablespace
        self.plans = plans
        self._store = tablespace.store
        seen = tablespace.catalog
        self._catalog = seen, seen.path, seen  # the newest one that was seen, along which path, and that
        self.autocommit = True
        self.settings = Settings()
        self.waits = StatementWaits(tablespace, self.settings)
        self.checks = AnswerChecks(tablespace, self.settings, self.waits)
        self.sequences = SequenceMemory(self.settings)
        self.local: dict[str, str] = {}
        self.transaction: Transaction | None = None
        self.may_recover = False
        self.failed = False
        self.began_standby = False
        self.implicit = self.pipelined = False
        self.prepared: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        self.allowed = SessionLimits()
        self.notices: list[SessionNotice] = []
        self.roles: RoleStore | None = None
        self.observer: Observer | None = None
        self.trace: SessionTrace | None = None
        self.identity = Identity()
        self.auditor: Auditor | None = None
        self.role_now: Callable[[], EffectiveRole] = unlimited_role
        self.effective_role: EffectiveRole = unlimited_role()
        self.checked_role: EffectiveRole | None = None
        self.effective_role_of: Callable[[str], EffectiveRole] = dropped_role
        self.directory: SessionDirectory | None = None
        self.advisory: AdvisoryLocks | None = None
        self.channels: SessionChannels | None = None
        self.is_forwarded = False
        self.exposed = False
        self.text = self.source = ""
        self.text_began_us = 0
        self.is_running = False
        self.declares = self.streams_cursors = False
        self.cursor_form: Callable[[Sequence[OutputColumn]], RowForm] | None = None
        self.membership: object = None
        self.on_notification: Callable[[], object] = lambda: None
        self.savepoints: list[tuple[str, Mark, SettingsMark]] = []
        self._chained: Mapping[str, str] = {}  # the modes that AND CHAIN began the open transaction with
        self.settings.on_role = self._take_role
        self.settings.on_mode = self._mode

    def begins(self, text: str) -> None:
        """A statement begins, whose time runs from now."""
        self.text = self.source = text
        self.text_began_us = time_ns() // 1000
        self.is_running = True
        self.waits.deadline.begin(self.settings.statement_timeout_s)

    @property
    def streams(self) -> bool:
        """Whether large answers are given piece by piece: to cursors, and where others wait for the loop."""
        return (self.declares and self.streams_cursors) or self.waits.deadline.loop is not None

    def use_advisory(self, locks: AdvisoryLocks) -> None:
        """The session's first advisory lock is about to be taken, and kept in ``locks``."""
        self.advisory = self.waits.advisory = locks

    def listen(self, channel: str | None, *, ends: bool) -> None:
        """Listen on a channel, or with ``ends`` not any more (None: on none), once the transaction commits.

        SqlError 54000.
        """
        if self.channels is None:
            if ends:
                return
            self.channels = SessionChannels(self.tablespace.notifications)
            self.channels.wake = self.on_notification
        self.channels.change(channel, ends=ends, depth=self.depth)
        if self.transaction is None:
            self.channels.end_transaction(committed=True)

    def report_to(self, trace: SessionTrace) -> None:
        """From now on the session's statements and their waits are given to ``trace``."""
        self.trace = self.waits.trace = self.checks.trace = trace
        self.observer = trace.observe

    def check_writable(self, tag: str) -> None:
        """Before a statement that writes. SqlError 25006 in a read-only transaction, or on a replica that
        follows."""
        if self.settings.read_only:
            settings, guard = self.settings, self.tablespace.guard
            is_read_only = settings.forward and settings["transaction_read_only"] == "on"
            if settings.standby and guard is not None and not is_read_only:
                raise guard.refusal(tag)
            raise SqlError("25006", f"cannot execute {tag} in a read-only transaction")

    async def covered(self) -> None:
        """Before something is changed: go on where no signal's exception can come, if that is not here."""
        if self.exposed:
            await Pause()

    def fail(self) -> None:
        """The open transaction has failed, if there is one: only ROLLBACK can end it, or take it back to a
        savepoint."""
        transaction = self.transaction
        if transaction is None:
            return
        self.failed = True
        if not self.savepoints and not self.may_recover:
            self.tablespace.locks.release_all(transaction)  # it can only be rolled back: others go on
            if self.advisory is not None:
                self.advisory.end_transaction()

    def notice(self, severity: str, sqlstate: str, message: str) -> None:
        """Have something said to the client, if it wants to know."""
        notice = SessionNotice(severity, sqlstate, message)
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
        return len(self.savepoints)

    @property
    def status(self) -> str:
        """ "idle", "active" in a transaction, "failed" in one that only ROLLBACK can end."""
        if self.failed:
            return "failed"
        return "idle" if self.transaction is None else "active"

    @property
    def seen(self) -> Catalog:
        """The same as ``catalog``, whatever the search path."""
        transaction = self.transaction
        return self._store.visible_catalog[0] if transaction is None else transaction.workspace.catalog

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next statement sees."""
        seen, path = self.seen, self.settings.path
        before, way, found = self._catalog
        if seen is not before or path is not way:
            found = seen.along(path)
            self._catalog = seen, path, found
        return found

    def act_as(self, effective_role: EffectiveRole) -> None:
        """From now on a role's rights count."""
        self.effective_role = effective_role
        self.checked_role = None if effective_role.is_superuser and self.auditor is None else effective_role
        if self.transaction is not None:
            self.transaction.workspace.role = effective_role.key
        self.settings.set_shown({"is_superuser": "on" if effective_role.is_superuser else "off"})

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
                self.tablespace.drop_temporary_leftovers()

    def begin(self) -> None:
        """Begin a transaction."""
        self.settings.begin()
        settings = self.settings
        self.began_standby = settings.standby
        self.transaction = self.tablespace.begin(instant=False, isolation=settings.isolation)
        self.transaction.partner = self.advisory
        self.transaction.workspace.memory = self.sequences
        self.transaction.workspace.role = self.effective_role.key

    async def commit(self) -> None:
        """Commit the open transaction, if there is one; a failed one is rolled back (25P02 is not raised)."""
        transaction = self.transaction
        if transaction is None:
            return
        if self.failed:
            await self.rollback()
            return
        failure: BaseException | None = None
        try:
            if transaction.workspace.deferred is not None:
                await self.waits.settle(transaction)
        except BaseException as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        if failure is not None:
            self.end(committed=False)
            await self.checks.confirm(failure, transaction.workspace)
            try:
                raise failure
            finally:
                del failure  # it has this frame
        try:
            await self.ready_to_commit(transaction)
        except BaseException as error:
            self.end(committed=False)
            if isinstance(error, LogError):
                raise sql_error(error) from error
            raise
        append: Append | None = None
        try:
            append = self.place(transaction)
        except DuplicateRequestError as known:
            failure = known
        if isinstance(failure, DuplicateRequestError):
            await failure.confirm()
            try:
                raise failure
            finally:
                del failure  # it has this frame
        workspace = transaction.workspace
        if append is not None or workspace.read_position:
            await self.checks.durable(append, workspace)
        await let_go(transaction)

    def place(self, transaction: Transaction) -> Append | None:
        """Give the open transaction its place in the log, in the turn in which it is ready to commit.

        The block is over, whatever comes of it.

        Returns:
            None when it changed nothing.

        Raises:
            SqlError: as ``Tablespace.commit``, or why the log takes no more; a DuplicateRequestError is still
                to be confirmed.
        """
        try:
            append = self.tablespace.commit(transaction, self.settings.request_id)
        except BaseException as error:
            self.end(committed=False)
            if isinstance(error, LogError):
                raise sql_error(error) from error
            raise
        self.end(committed=True)
        return append

    async def ready_to_commit(self, transaction: Transaction) -> None:
        """Wait for what the commit of a transaction with locks needs: checks that were put off, the parts
        of a large one, and room in the log.

        One that is instant must not come here: others would change between its reads and its commit what it
        has no locks for. It has seen to all of this in its turn.

        Raises:
            SqlError, LogError: as ``Tablespace.commit``.
        """
        assert not transaction.instant
        if transaction.workspace.deferred is not None:
            await self.waits.settle(transaction)
        if is_large(transaction):
            await prepare(transaction)
        if self.tablespace.log.is_full:
            await self.waits.log_room()

    async def rollback(self) -> None:
        """Undo the open transaction, if there is one."""
        transaction = self.transaction
        if transaction is not None:
            self.end(committed=False)
            await let_go(transaction)

    def roll_back_now(self) -> None:
        """Undo the open transaction, if there is one; within the engine's turn."""
        if self.transaction is not None:
            self.end(committed=False)

    def abort(self) -> None:
        """An error happened: an implicit transaction is undone, another has failed."""
        if self.transaction is not None:
            if self.implicit:
                self.end(committed=False)
            else:
                self.fail()

    def end_portals(self, *, committed: bool) -> None:
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

    def end(self, *, committed: bool) -> None:
        """The open transaction has committed, or is rolled back now: what belongs to it goes."""
        if self.portals:
            self.end_portals(committed=committed)
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
        if self.channels is not None:
            self.channels.end_transaction(committed=committed)
        self.settings.end(committed=committed, local=self.local)
        if self.settings.request_id and not named:
            self.settings.take_request_id()
        self.local.clear()
        self.savepoints.clear()
        self._chained = {}

    def _mode(self, name: str, value: str) -> None:
        """A mode of the open transaction is about to change. SqlError 25001."""
        self._check_mode(name, value)
        if name == "transaction_isolation" and self.transaction is not None and not self.transaction.queried:
            level = "read committed" if value == "read uncommitted" else value
            self.tablespace.isolate(self.transaction, cast("Isolation", level))

    def _check_mode(self, name: str, value: str) -> None:
        """SqlError 25001 for a mode that must be set before the transaction's first query, and is not."""
        transaction, nested = self.transaction, self.depth > 0
        if transaction is None or (self.settings[name] == value and name != "transaction_deferrable"):
            return
        queried = transaction.queried
        if name == "transaction_isolation":
            if queried:
                raise _late("SET TRANSACTION ISOLATION LEVEL must be called before any query")
            if nested:
                raise _late("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
        elif name == "transaction_read_only" and value == "off":
            if nested:
                raise _late("cannot set transaction read-write mode inside a read-only transaction")
            if queried:
                raise _late("transaction read-write mode must be set before any query")
        elif name == "transaction_deferrable":
            if nested:
                raise _late("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
            if queried:
                raise _late("SET TRANSACTION [NOT] DEFERRABLE must be called before any query")

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
        self.savepoints.append((name, mark, (self.settings.mark(), dict(self.local))))

    def release_savepoint(self, name: str) -> None:
        """Forget a savepoint and those after it."""
        self._within_transaction("RELEASE SAVEPOINT")
        del self.savepoints[self._find_savepoint(name) :]
        if self.channels is not None:
            self.channels.released(len(self.savepoints))

    def rollback_to(self, name: str) -> None:
        """Undo what came after a savepoint, and the transaction's failure with it."""
        transaction = self._within_transaction("ROLLBACK TO SAVEPOINT")
        found = self._find_savepoint(name)
        for portal in [one for one in self.portals.values() if one.depth > found and not one.held]:
            self.drop_portal(portal.name)
        _name, mark, (settings, local) = self.savepoints[found]
        transaction.workspace.undo(mark)
        if self.channels is not None:
            self.channels.undone(found)
        self.local = dict(local)
        self.settings.undo(settings)
        del self.savepoints[found + 1 :]
        self.failed = False

    def modes_left(self) -> Mapping[str, str]:
        """The open transaction's modes, as AND CHAIN keeps them.

        What has failed was undone to the newest savepoint, and with it what was SET since; without one
        only what a chain began it with is left.
        """
        if not self.failed:
            return {name: self.settings[name] for name in MODES}
        if not self.savepoints:
            return self._chained
        return {name: self.savepoints[-1][2][0][name] for name in MODES}

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
        for at in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[at][0] == name:
                return at
        self.fail()
        raise SqlError("3B001", f'savepoint "{name}" does not exist')


def _late(message: str) -> SqlError:
    return SqlError("25001", message)
