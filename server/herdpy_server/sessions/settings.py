"""What a session can SET and SHOW: names, defaults, and the check of each value."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Engine


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``check`` gives the value as it is kept, or raises ValueError."""

    name: str
    default: str
    description: str
    check: Callable[[str], str] | None = None
    read_only: bool = False


def _one_of(*values: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        lowered = value.lower()
        if lowered not in values:
            raise ValueError(f"one of {', '.join(values)} is wanted")
        return lowered

    return check


def _boolean(value: str) -> str:
    lowered = value.lower()
    if lowered in {"on", "true", "yes", "1"}:
        return "on"
    if lowered in {"off", "false", "no", "0"}:
        return "off"
    raise ValueError("a Boolean value is wanted")


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: str) -> float:
    """A duration as PostgreSQL writes it: a number of milliseconds, or one with a unit."""
    text = value.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    if unit not in _UNITS_MS:
        raise ValueError(f"units are {', '.join(_UNITS_MS)}")
    amount = float(digits) * _UNITS_MS[unit]
    if not 0 <= amount <= 2**31:
        raise ValueError("it is out of range")
    return amount


def _duration(value: str) -> str:
    amount = milliseconds(value)
    return "0" if amount == 0 else f"{amount:g}ms"


def _zone(value: str) -> str:
    if value.upper() in {"UTC", "GMT", "Z"}:
        return "UTC"
    try:
        return zoneinfo.ZoneInfo(value).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("an IANA time zone is wanted") from error


_SETTINGS = [
    Setting("application_name", "", "Name of the application, shown in statistics."),
    Setting("client_encoding", "UTF8", "Always UTF8.", lambda v: _one_of("utf8", "utf-8")(v) and "UTF8"),
    Setting("client_min_messages", "notice", "Least level of the messages sent.", str.lower),
    Setting("datestyle", "ISO, MDY", "How dates are shown: always ISO.", read_only=False),
    Setting("default_transaction_isolation", "read committed", "Isolation of new transactions.",
            _one_of("read committed")),
    Setting("extra_float_digits", "1", "Floats are always shown exactly."),
    Setting("herdpy.engine", "auto", "Which engine answers a SELECT: auto, own or columnar.",
            _one_of("auto", "own", "columnar")),
    Setting("integer_datetimes", "on", "Always on.", read_only=True),
    Setting("lock_timeout", "0", "How long a lock is waited for; 0 for ever.", _duration),
    Setting("search_path", '"$user", public', "There is one schema."),
    Setting("server_encoding", "UTF8", "Always UTF8.", read_only=True),
    Setting("server_version", "15.0 (HerdPy)", "The PostgreSQL whose meaning is followed.", read_only=True),
    Setting("standard_conforming_strings", "on", "Always on.", _one_of("on")),
    Setting("statement_timeout", "0", "How long a statement may run; 0 for ever.", _duration),
    Setting("timezone", "UTC", "Time zone of dates and times with a zone.", _zone),
    Setting("transaction_isolation", "read committed", "Isolation of this transaction.",
            _one_of("read committed")),
    Setting("transaction_read_only", "off", "Whether this transaction may write.", _boolean),
]  # fmt: skip

KNOWN = {setting.name: setting for setting in _SETTINGS}


class Settings:
    """The settings of one session, with those of the open transaction (SET LOCAL) on top.

    Attributes:
        engine, zone: as SHOW says them.
        lock_timeout_s, statement_timeout_s: seconds, None for none. Read at every statement.
        revision: another number after every change.
    """

    def __init__(self) -> None:
        self._values = {name: setting.default for name, setting in KNOWN.items()}
        self._saved: dict[str, str] | None = None
        self.revision = 0
        self._derive()

    def _derive(self) -> None:
        self.revision += 1
        values = self._values
        self.engine = cast(Engine, values["herdpy.engine"])
        self.zone = values["timezone"]
        self.lock_timeout_s = _seconds(values["lock_timeout"])
        self.statement_timeout_s = _seconds(values["statement_timeout"])
        self.read_only = values["transaction_read_only"] == "on"

    def __getitem__(self, name: str) -> str:
        return self._values[self._known(name).name]

    def __iter__(self) -> Iterator[tuple[Setting, str]]:
        return iter([(KNOWN[name], value) for name, value in sorted(self._values.items())])

    def set(self, name: str, value: str | None) -> None:
        """Give a setting a value; None gives it its default.

        Raises:
            SqlError: 42704 it is not known, 55P02 it cannot be changed, 22023 the value is wrong.
        """
        setting = self._known(name)
        if setting.read_only:
            raise SqlError("55P02", f'parameter "{setting.name}" cannot be changed')
        if value is None:
            value = setting.default
        try:
            self._values[setting.name] = setting.check(value) if setting.check else value
        except ValueError as error:
            raise SqlError(
                "22023", f'invalid value for parameter "{setting.name}": "{value}"', hint=str(error)
            ) from error
        self._derive()

    def begin(self) -> None:
        """A transaction begins: remember what to go back to."""
        self._saved = dict(self._values)

    def end(self, *, committed: bool, local: frozenset[str]) -> None:
        """The transaction ended: SET is kept only when it committed, SET LOCAL never is."""
        if self._saved is None:
            return
        if committed:
            for name in local:
                self._values[name] = self._saved[name]
        else:
            self._values = self._saved
        self._saved = None
        self._derive()

    @staticmethod
    def _known(name: str) -> Setting:
        setting = KNOWN.get(name.lower())
        if setting is None:
            raise SqlError("42704", f'unrecognized configuration parameter "{name}"')
        return setting


def _seconds(value: str) -> float | None:
    amount = milliseconds(value)
    return amount / 1000 if amount else None
