"""What a session has: its settings, its role, its open transaction, what it is to tell.

The lowest of the classes that a session is made of; ``block`` begins and ends the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.sessions.notices import Notice
from herdpy_server.sessions.observer import Observer
from herdpy_server.sessions.settings import Settings
from herdpy_server.sessions.standing import Standing, everything, nothing
from herdpy_server.sessions.system_state import Directory, Identity
from herdpy_server.sessions.work import Pause
from herdpy_server.store import Mark
from herdpy_server.tablespace import Tablespace, Transaction
from herdpy_sql.sequences import SequenceMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from herdpy_server.sessions.advisory import AdvisoryLocks
    from herdpy_server.sessions.audit import Auditor
    from herdpy_server.sessions.portals import Portal
    from herdpy_server.sessions.prepared import PreparedStatement
    from herdpy_server.sessions.roles import Roles
    from herdpy_sql.catalog import Catalog


SettingsMark = tuple["Mapping[str, str]", "Mapping[str, str]"]
"""The settings at a savepoint, and the ``local`` ones."""


class SessionBase:
    """A session's state, and what follows from that alone.

    Attributes:
        autocommit: True: a statement outside BEGIN is a transaction of its own. False: one begins
            with the first statement, as PEP 249 wants.
        sequences: the values that it was given.
        settings: what SET and SHOW act upon; ``local``: what those go back to that end with the transaction.
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
        exposed: a signal's exception may come wherever it is now: nothing that others share may be changed.
    """

    def __init__(self, tablespace: Tablespace) -> None:
        self.tablespace = tablespace
        self.autocommit = True
        self.settings = Settings()
        self.sequences = SequenceMemory(self.settings)
        self.local: dict[str, str] = {}
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
        self.exposed = False
        self._savepoints: list[tuple[str, Mark, SettingsMark]] = []
        self._chained: Mapping[str, str] = {}  # the modes that AND CHAIN began the open transaction with
        self._basis: object = None  # the guard's, when the newest statement began to read

    async def covered(self) -> None:
        """Before something is changed: go on where no signal's exception can come, if that is not here."""
        if self.exposed:
            await Pause()

    @property
    def failed(self) -> bool:
        """Whether only ROLLBACK can end the open transaction, or take it back to a savepoint."""
        return self._failed

    @failed.setter
    def failed(self, failed: bool) -> None:
        self._failed = failed
        if failed and not self._savepoints and not self.may_recover and self.transaction is not None:
            self.tablespace.locks.release_all(self.transaction)  # it can only be rolled back: others go on
            if self.advisory is not None:
                self.advisory.end_transaction()

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
                self.tablespace.drop_temporary_leftovers()
