"""What a connection to servers was asked for: hosts, user, time-outs, settings. Below ``remote``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.url import Server, boolean, number, parse_hosts

DEFAULT_PORT = 5432
_LIBPQ = frozenset(
    (
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslpassword", "sslnegotiation"),
        *("ssl_min_protocol_version", "channel_binding", "require_auth", "passfile", "gssencmode"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
    )
)
_SECONDS = ("connect_timeout", "failover_timeout")
_SETTINGS = {
    "statement_timeout": "statement_timeout",
    "lock_timeout": "lock_timeout",
    "read_level": "herdpy.read_level",
    "max_staleness": "herdpy.max_staleness_ms",
    "min_lsn": "herdpy.min_lsn",
}


@dataclass(frozen=True)
class RemoteOptions:
    """What a connection to servers needs to know.

    Attributes:
        hosts: (name, port) of each server that may lead.
        target: "leader", or "follower" for reads that may go to one that follows.
        connect_timeout_s: for one attempt to find the leader.
        failover_timeout_s: how long a leader that was lost is looked for, and an outcome asked for.
        settings: SET at the beginning of each session, by name.
        libpq: passed on to libpq.
    """

    hosts: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str | None = None
    target: str = "leader"
    application_name: str = "herdpy"
    connect_timeout_s: float = 10.0
    failover_timeout_s: float = 30.0
    settings: Mapping[str, str] = field(default_factory=dict)
    libpq: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What is shown of it."""
        return f"{','.join(f'{host}:{port}' for host, port in self.hosts)}/{self.database or ''}"


def remote_options(server: Server, given: Mapping[str, Any]) -> RemoteOptions:
    """The options of a URL and of keywords together. InterfaceError for one that is not known, or wrong."""
    left = dict(given)
    hosts = [*server.hosts, *parse_hosts(str(left.pop("hosts", "")))]
    if not hosts:
        raise InterfaceError("no host is named", hint="Write herdpy://host:port/tablespace.")
    made: dict[str, Any] = {}
    for name in ("user", "password", "application_name"):
        value = left.pop(name, getattr(server, name, None))
        if value is not None:
            made[name] = str(value)
    for name in _SECONDS:
        if name in left:
            seconds = number(name, left.pop(name))
            if not seconds > 0:
                raise InterfaceError(f"option {name} is a number of seconds, not {seconds}")
            made[f"{name}_s"] = float(seconds)
    settings = {setting: _shown(name, left.pop(name)) for name, setting in _SETTINGS.items() if name in left}
    made["target"] = target = str(left.pop("target", "leader"))
    if target not in ("leader", "follower"):
        raise InterfaceError(f"option target is leader or follower, not {target!r}")
    if target == "follower" and settings.setdefault("herdpy.read_level", "bounded") == "linearizable":
        raise InterfaceError(
            "a server that follows does not answer at read level linearizable",
            hint="Choose bounded, at_lsn or any.",
        )
    libpq = {name: str(left.pop(name)) for name in sorted(_LIBPQ & left.keys())}
    if left:
        raise InterfaceError(f"an option is not known: {min(left)}")
    return RemoteOptions(
        tuple((host, port or DEFAULT_PORT) for host, port in hosts),
        database=server.database or "herdpy",
        settings=settings,
        libpq=libpq,
        **made,
    )


def _shown(name: str, value: object) -> str:
    """The text of a setting. A duration is given in seconds, as everywhere in Python, or with its unit."""
    if name not in ("statement_timeout", "lock_timeout", "max_staleness"):
        return str(value)
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit() and name != "max_staleness":
        return value
    return str(round(number(name, value) * 1000))


__all__ = ["DEFAULT_PORT", "RemoteOptions", "boolean", "remote_options"]
