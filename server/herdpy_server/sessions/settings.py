"""What a session can SET and SHOW: the values of its settings, and of its open transaction's on top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from herdpy_server.sessions.known_settings import KNOWN, Setting, milliseconds
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Engine
from herdpy_sql.plan.commands import SHOWN_NAMES

_OF_TRANSACTION = ("transaction_isolation", "transaction_read_only")
MAX_CUSTOM = 1_000
"""Settings of its user's own (``SET a.b = ...``) that a session can have."""
MAX_CUSTOM_LENGTH = 65_536
"""Characters of the value of one of those."""


class Settings:
    """The settings of one session, with those of the open transaction (SET LOCAL) on top.

    Attributes:
        engine, zone: as SHOW says them.
        lock_timeout_s, statement_timeout_s: seconds, None for none. Read at every statement.
        read_only: what is begun now may not write.
        revision: another number after every change.
    """

    def __init__(self) -> None:
        self._values = {name: setting.default for name, setting in KNOWN.items()}
        self._defaults = dict(self._values)
        self._saved: dict[str, str] | None = None
        self.revision = 0
        self._derive()

    def _derive(self) -> None:
        self.revision += 1
        values = self._values
        if self._saved is None:
            values["transaction_read_only"] = values["default_transaction_read_only"]
        self.engine = cast(Engine, values["herdpy.engine"])
        self.zone = values["timezone"]
        self.lock_timeout_s = _seconds(values["lock_timeout"])
        self.statement_timeout_s = _seconds(values["statement_timeout"])
        self.read_only = values["transaction_read_only"] == "on"

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
            return setting.check(value) if setting.check else value
        except ValueError as error:
            raise SqlError(
                "22023",
                f'invalid value for parameter "{SHOWN_NAMES.get(setting.name, setting.name)}": "{value}"',
                hint=str(error),
            ) from error

    def _checked_custom(self, name: str, value: str | None) -> str:
        """Settings with a dot in their names are their users' own, and may have any value."""
        if "." not in name or name.lower().startswith("herdpy."):
            raise _unknown(name)
        if not all(part.isidentifier() for part in name.split(".")):
            raise SqlError("42602", f'invalid configuration parameter name "{name}"')
        if name.lower() not in self._values and len(self._values) >= len(KNOWN) + MAX_CUSTOM:
            raise SqlError("53400", f"a session can have at most {MAX_CUSTOM} settings of its own")
        if len(value or "") > MAX_CUSTOM_LENGTH:
            raise SqlError("22023", f'the value of parameter "{name}" is too long')
        return self._defaults.get(name.lower(), "") if value is None else value

    def set(self, name: str, value: str | None) -> None:
        """Give a setting a value; None gives it its default.

        Raises:
            SqlError: 42704 it is not known, 55P02 it cannot be changed, 22023 the value is wrong, 42602
                and 53400 for a setting of the user's own.
        """
        self._values[name.lower()] = self.checked(name, value)
        self._derive()

    def reset(self) -> None:
        """Give every setting its default, but for those of the open transaction."""
        kept = {name: self._values[name] for name in _OF_TRANSACTION}
        self._values = {**self._values, **self._defaults, **kept}
        for name in self._values.keys() - self._defaults.keys():
            self._values[name] = ""
        self._derive()

    def begin(self) -> None:
        """A transaction begins: remember what to go back to."""
        self._saved = dict(self._values)

    def end(self, *, committed: bool, local: frozenset[str]) -> None:
        """The transaction ended: SET is kept only when it committed, SET LOCAL never is."""
        if self._saved is None:
            return
        saved, self._saved = self._saved, None
        if not committed:
            self._values = saved
        else:
            for name in local:
                if name in saved:
                    self._values[name] = saved[name]
                else:
                    self._values[name] = ""
        self._derive()


def _unknown(name: str) -> SqlError:
    return SqlError("42704", f'unrecognized configuration parameter "{name}"')


def _seconds(value: str) -> float | None:
    amount = milliseconds(value)
    return amount / 1000 if amount else None
