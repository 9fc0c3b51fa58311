"""The settings that there are: names, defaults, checks of values. ``settings`` keeps the values."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass

from herdpy_server.sessions.notices import LEVELS


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``name`` is folded; ``check`` gives the value as it is kept, or raises ValueError."""

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
    """As PostgreSQL shows it: a whole number of the largest unit that allows one."""
    amount = round(milliseconds(value))
    for unit, size in reversed(_UNITS_MS.items()):
        if amount and size >= 1 and amount % size == 0:
            return f"{amount // int(size)}{unit}"
    return "0"


def _zone(value: str) -> str:
    if value.upper() in {"UTC", "GMT", "Z"}:
        return "UTC"
    try:
        return zoneinfo.ZoneInfo(value).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("an IANA time zone is wanted") from error


def _level(value: str) -> str:
    """A level of messages; "info" and "fatal" are known to PostgreSQL, but ask for what others do."""
    return _one_of(*LEVELS)({"info": "notice", "fatal": "error", "panic": "error"}.get(value.lower(), value))


def _iso(value: str) -> str:
    """A style of dates: the order of day and month may be chosen, the look may not."""
    parts = [part.strip().upper() for part in value.split(",")]
    orders = {"MDY": "MDY", "US": "MDY", "NONEURO": "MDY", "DMY": "DMY", "EURO": "DMY", "YMD": "YMD"}
    for part in parts:
        if part not in orders and part not in {"ISO", "DEFAULT"}:
            raise ValueError("dates are always shown as ISO has them")
    if any(orders.get(part, "MDY") != "MDY" for part in parts):
        raise ValueError("dates are read as year, month and day, or as month, day and year")
    return "ISO, MDY"


def _digits(value: str) -> str:
    if not -15 <= int(value) <= 3:
        raise ValueError("it is between -15 and 3")
    return str(int(value))


_SETTINGS = [
    Setting("application_name", "", "Name of the application, shown in statistics.", lambda v: v[:63]),
    Setting("bytea_output", "hex", "How bytes are shown: always in hexadecimal.", _one_of("hex")),
    Setting("check_function_bodies", "on", "There are no functions to be checked.", _boolean),
    Setting("client_encoding", "UTF8", "Always UTF8.",
            lambda v: _one_of("utf8", "utf-8", "unicode")(v) and "UTF8"),
    Setting("client_min_messages", "notice", "Least level of the messages sent.", _level),
    Setting("datestyle", "ISO, MDY", "How dates are shown: always ISO.", _iso),
    Setting("default_table_access_method", "heap", "There is one way to keep tables.", _one_of("heap")),
    Setting("default_tablespace", "", "There is one tablespace.", _one_of("")),
    Setting("default_transaction_isolation", "read committed", "Isolation of new transactions.",
            _one_of("read committed")),
    Setting("default_transaction_read_only", "off", "Whether new transactions may not write.", _boolean),
    Setting("extra_float_digits", "1", "Floats are always shown exactly.", _digits),
    Setting("herdpy.engine", "auto", "Which engine answers a SELECT: auto, own or columnar.",
            _one_of("auto", "own", "columnar")),
    Setting("idle_in_transaction_session_timeout", "0", "How long a transaction may idle; 0 for ever.",
            _duration),
    Setting("idle_session_timeout", "0", "How long a session may idle; 0 for ever.", _duration),
    Setting("in_hot_standby", "off", "Whether this server only follows another.", read_only=True),
    Setting("integer_datetimes", "on", "Always on.", read_only=True),
    Setting("intervalstyle", "postgres", "How intervals are shown.", _one_of("postgres")),
    Setting("is_superuser", "on", "Whether the user may do everything.", read_only=True),
    Setting("jit", "off", "Whether queries are compiled: DuckDB knows best.", _boolean),
    Setting("lock_timeout", "0", "How long a lock is waited for; 0 for ever.", _duration),
    Setting("max_identifier_length", "63", "Longest name, in bytes.", read_only=True),
    Setting("row_security", "on", "There is no row security.", _boolean),
    Setting("search_path", '"$user", public', "There is one schema."),
    Setting("server_encoding", "UTF8", "Always UTF8.", read_only=True),
    Setting("server_version", "15.0 (HerdPy)", "The PostgreSQL whose meaning is followed.", read_only=True),
    Setting("server_version_num", "150000", "The same as a number.", read_only=True),
    Setting("session_authorization", "", "The user who connected.", read_only=True),
    Setting("standard_conforming_strings", "on", "Always on.", _one_of("on")),
    Setting("statement_timeout", "0", "How long a statement may run; 0 for ever.", _duration),
    Setting("synchronize_seqscans", "on", "Scans are in no order anyway.", _boolean),
    Setting("synchronous_commit", "on", "Commits are always durable before they are answered.",
            lambda v: v if v in {"local", "remote_write", "remote_apply"} else _boolean(v)),
    Setting("timezone", "UTC", "Time zone of dates and times with a zone.", _zone),
    Setting("transaction_isolation", "read committed", "Isolation of this transaction.",
            _one_of("read committed")),
    Setting("transaction_read_only", "off", "Whether this transaction may write.", _boolean),
    Setting("xmloption", "content", "There is no XML.", _one_of("content", "document")),
]  # fmt: skip

KNOWN = {setting.name: setting for setting in _SETTINGS}
