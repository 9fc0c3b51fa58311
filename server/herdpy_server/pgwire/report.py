"""The settings that a client is told of when its session begins, and whenever they change.

Source: PostgreSQL's manual, "Asynchronous Operations" of the message flow: these and no others. Beside them
a client is told where its newest commit is that had a name, as if that were one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.settings import Settings

_REPORTED = {
    "application_name": "",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "on",
    "server_encoding": "UTF8",
    "server_version": "15.0",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}

COMMIT_POSITION = "herdpy.commit_position"


@dataclass(frozen=True, slots=True)
class ReportedSettings:
    """The values as of one revision of a session's settings."""

    revision: int
    values: dict[str, str]


def report(settings: Settings) -> ReportedSettings:
    """What is to be told of a session's settings; where it has no such setting, what is always so."""
    values = {}
    for name, fixed in _REPORTED.items():
        try:
            values[name] = settings[name.lower()]
        except SqlError:
            values[name] = fixed
    return ReportedSettings(settings.revision, values)
