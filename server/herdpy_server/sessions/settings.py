"""What a session can SET and SHOW: the values of its settings, and of its open transaction's on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from herdpy_server.sessions.known_settings import (
    KNOWN,
    MODES,
    Setting,
    memory_bytes,
    milliseconds,
    path_of,
    position,
)
from herdpy_server.tablespace import Isolation
from herdpy_server.tablespace.guard import Level, ReadLevel
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Engine
from herdpy_sql.plan.commands import SHOWN_NAMES
from herdpy_sql.system.state import OWNER

_REQUEST_ID = "herdpy.request_id"
OF_ROLES = ("session_authorization", "role")
"""Settings that say whose rights count."""
MAX_CUSTOM = 1_000
"""Settings of its user's own (``SET a.b = ...``) that a session can have."""
MAX_CUSTOM_LENGTH = 65_536
"""Characters of the value of one of those."""


class Settings:
    """The settings of one session, with those of the open transaction (SET LOCAL) on top.

    Attributes:
        engine, zone: as SHOW says them.
        lock_timeout_s, statement_timeout_s: seconds, None for none. Read at every statement.
        idle_session_s, idle_transaction_s: how long the client may say nothing outside of a transaction, and
            within one; None for ever. The door's business.
        read_only: what is begun now may not write.
        isolation: of what is begun now.
        on_mode: is called before a mode of the open transaction is given a value.
        check_role: is called before a role is taken on (SET ROLE, SET SESSION AUTHORIZATION).
        on_role: is called when another role's rights count.
        request_id: the name of the next commit; empty when it has none.
        is_statements_name: the name came with a statement, so no later commit may have it.
        max_result_bytes: the largest answer of the columnar engine; 0 without a limit.
        read_level: how new what is read must be, where the database has several replicas.
        standby: the database only follows another one, so nothing may write; see :meth:`set_standby`.
        path: the schemas where names without one are looked for, whether they exist or not.
        temporary_schema: where the session's temporary tables are; "" as long as there is none.
        commit_position: of the newest commit that had a name; empty when there was none.
        revision: another number after every change.
        max_custom: how many settings that HerdPy does not know there may be.
    """

    def __init__(self) -> None:
        self._values = {name: setting.default for name, setting in KNOWN.items()}
        self._defaults = dict(self._values)
        self._saved: dict[str, str] | None = None  # what to go back to; made at the first change
        self._in_transaction = False
        self.max_custom = MAX_CUSTOM
        self.standby = False
        self.on_mode: Callable[[str, str], object] = lambda _name, _value: None
        self.check_role: Callable[[str, str], object] = _nobody_else
        self.on_role: Callable[[], object] = lambda: None
        self._role = ("none", "")
        self.temporary_schema = ""
        self.commit_position = ""
        self.request_id, self.is_statements_name = b"", False
        self.revision = 0
        self._derive()

    def _derive(self) -> None:
        self.revision += 1
        values = self._values
        values["in_hot_standby"] = "on" if self.standby else "off"
        if not self._in_transaction:
            values["transaction_read_only"] = (
                "on" if self.standby else values["default_transaction_read_only"]
            )
            values["transaction_isolation"] = values["default_transaction_isolation"]
            values["transaction_deferrable"] = values["default_transaction_deferrable"]
        level = values["transaction_isolation"]
        self.isolation = "read committed" if level == "read uncommitted" else cast(Isolation, level)
        self.engine = cast(Engine, values["herdpy.engine"])
        self.zone = values["timezone"]
        role = (values["role"], values["session_authorization"])
        user = role[1] if role[0] == "none" else role[0]
        self.path = path_of(values["search_path"], user, self.temporary_schema)
        self.lock_timeout_s = _seconds(values["lock_timeout"])
        self.statement_timeout_s = _seconds(values["statement_timeout"])
        request_id = values[_REQUEST_ID].encode()
        if request_id != self.request_id:
            self.request_id, self.is_statements_name = request_id, False
        self.read_level = ReadLevel(
            cast(Level, values["herdpy.read_level"]),
            milliseconds(values["herdpy.max_staleness_ms"]) / 1000,
            position(values["herdpy.min_lsn"]),
        )
        self.max_result_bytes = memory_bytes(values["herdpy.max_result_size"])
        self.idle_session_s = _seconds(values["idle_session_timeout"])
        self.idle_transaction_s = _seconds(values["idle_in_transaction_session_timeout"])
        self.read_only = self.standby or values["transaction_read_only"] == "on"
        if role != self._role:
            self._role = role
            self.on_role()

    def use_temporary_schema(self, name: str) -> None:
        """The session has temporary tables from now on, in a schema of its own."""
        self.temporary_schema = name
        self._derive()

    def set_standby(self, standby: bool) -> None:
        """The database begins to follow another one, or to lead.

        Where it leads again, a transaction that is open stays one that only reads.
        """
        if standby != self.standby:
            self.standby = standby
            self._derive()

    def __getitem__(self, name: str) -> str:
        try:
            return self._values[name.lower()]
        except KeyError:
            raise _unknown(name) from None

    def __iter__(self) -> Iterator[tuple[Setting, str]]:
        for name, value in sorted(self._values.items()):
            yield KNOWN.get(name) or Setting(name, "", "A setting of its user's own."), value

    def start_with(self, name: str, value: str) -> None:
        """What the client, or the server's configuration, begins the session with: RESET goes back to it.

        Raises:
            SqlError: as :meth:`set`; settings that cannot be changed can be given here.
        """
        name = name.lower()
        setting = KNOWN.get(name)
        kept = value if setting is not None and setting.read_only else self.checked(name, value)
        self._defaults[name] = self._values[name] = kept
        self._derive()

    def tell(self, values: Mapping[str, str]) -> None:
        """Have SHOW say what the server is: of settings that cannot be changed."""
        self._defaults |= values
        self._values |= values
        self._derive()

    def checked(self, name: str, value: str | None) -> str:
        """A value, or the default for None, as it would be kept; SqlError as :meth:`set`."""
        setting = KNOWN.get(name.lower())
        if setting is None:
            return self._checked_custom(name, value)
        if setting.read_only:
            raise SqlError("55P02", f'parameter "{setting.name}" cannot be changed')
        if value is None:
            return self._defaults[setting.name]
        try:
            kept = setting.check(value) if setting.check else value
        except ValueError as error:
            raise SqlError(
                "22023",
                f'invalid value for parameter "{SHOWN_NAMES.get(setting.name, setting.name)}": "{value}"',
                hint=str(error),
            ) from error
        if self.standby and setting.name == "transaction_read_only" and kept == "off":
            raise SqlError("0A000", "cannot set transaction read-write mode during recovery")
        return kept

    def _checked_custom(self, name: str, value: str | None) -> str:
        """Settings with a dot in their names are their users' own, and may have any value."""
        if "." not in name or name.lower().startswith("herdpy."):
            raise _unknown(name)
        if not all(part.isidentifier() for part in name.split(".")):
            raise SqlError("42602", f'invalid configuration parameter name "{name}"')
        if name.lower() not in self._values and len(self._values) >= len(KNOWN) + self.max_custom:
            raise SqlError("53400", f"a session can have at most {self.max_custom} settings of its own")
        if len(value or "") > MAX_CUSTOM_LENGTH:
            raise SqlError("22023", f'the value of parameter "{name}" is too long')
        return self._defaults.get(name.lower(), "") if value is None else value

    def set(self, name: str, value: str | None) -> None:
        """Give a setting a value; None gives it its default.

        Raises:
            SqlError: 42704 it is not known, 55P02 it cannot be changed, 22023 the value is wrong, 42602
                and 53400 for a setting of the user's own.
        """
        checked = self.checked(name, value)
        if self._in_transaction and name.lower() in MODES:
            self.on_mode(name.lower(), checked)
        if name.lower() in OF_ROLES:
            self.check_role(name.lower(), checked)
        self._save()
        self._values[name.lower()] = checked
        if name.lower() == "session_authorization":
            self._values["role"] = "none"
        self._derive()

    def _save(self) -> None:
        if self._in_transaction and self._saved is None:
            self._saved = dict(self._values)

    def reset(self) -> None:
        """Give every setting its default, but for those of the open transaction, and who the user is."""
        self._save()
        kept = {name: self._values[name] for name in (*MODES, *OF_ROLES)}
        self._values = {**self._values, **self._defaults, **kept}
        for name in self._values.keys() - self._defaults.keys():
            self._values[name] = ""
        self._derive()

    def take_request_id(self) -> bytes:
        """The name of the commit that is made now; the next one has none."""
        taken = self.request_id
        if taken:
            self._values[_REQUEST_ID], self.request_id = "", b""
            self.is_statements_name = False
        return taken

    def name_commit(self, request_id: bytes) -> None:
        """The statement that comes now brought a name for the commit that it is, or is part of."""
        self._values[_REQUEST_ID], self.request_id = request_id.decode(), request_id
        self.is_statements_name = True

    def committed(self, position: str) -> None:
        """A commit that has a name is durable: its client is told where."""
        self.commit_position = position

    def begin(self) -> None:
        """A transaction begins: remember what to go back to."""
        self._in_transaction = True
        self._saved = None

    def mark(self) -> Mapping[str, str]:
        """What a savepoint keeps of the settings, for :meth:`undo`."""
        return dict(self._values)

    def undo(self, mark: Mapping[str, str]) -> None:
        """ROLLBACK TO a savepoint: what was SET since is undone, but for the name of the commit to come."""
        if self._saved is not None and mark != self._values:
            unset = dict.fromkeys(self._values.keys() - mark.keys(), "")
            self._values = {**unset, **mark, _REQUEST_ID: self._values[_REQUEST_ID]}
            self._derive()

    def kept(self, name: str) -> str:
        """The value of a setting, "" of one that is not there yet."""
        return self._values.get(name.lower(), "")

    def end(self, *, committed: bool, local: Mapping[str, str]) -> None:
        """The transaction ended: SET is kept only when it committed, SET LOCAL never is.

        Args:
            local: what those go back to that SET LOCAL was the last to set.
        """
        saved, self._saved, self._in_transaction = self._saved, None, False
        if saved is None:
            return
        if not committed:
            self._values = saved
        else:
            self._values.update(local)
        self._derive()


def _nobody_else(_name: str, value: str) -> None:
    """Of a database without roles."""
    if value not in {"", "none", OWNER}:
        raise SqlError("22023", f'role "{value}" does not exist')


def _unknown(name: str) -> SqlError:
    return SqlError("42704", f'unrecognized configuration parameter "{name}"')


def _seconds(value: str) -> float | None:
    amount = milliseconds(value)
    return amount / 1000 if amount else None
