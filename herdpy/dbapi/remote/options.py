"""What a connection to servers was asked for: hosts, user, time-outs, settings. Below ``remote``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from herdpy.dbapi import options as known
from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.url import ServersUrl, ZooKeeper
from herdpy.zookeeper_access import ZooKeeperAccess

DEFAULT_PORT = 5432
DEFAULT_TABLESPACE = "herdpy"
_LIBPQ = frozenset(
    (
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslpassword", "sslnegotiation"),
        *("ssl_min_protocol_version", "channel_binding", "require_auth", "passfile", "gssencmode"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
    )
)
_SECONDS = ("connect_timeout", "failover_timeout", "request_timeout")


@dataclass(frozen=True)
class RemoteOptions:
    """What a connection to servers needs to know.

    Attributes:
        hosts: (name, port) of each server that may lead; none where ZooKeeper is asked.
        zookeeper: where the servers are looked up.
        target: "leader", or "follower" for reads that may go to one that follows.
        connect_timeout_s: for one attempt to find the leader.
        failover_timeout_s: how long a leader that was lost is looked for, and an outcome asked for.
        request_timeout_s: how long one call may take altogether; None: as long as it takes.
        settings: SET at the beginning of each session, by name.
        libpq: passed on to libpq.
        ledgers_root: the znode of BookKeeper's metadata, which readers of the log need.
    """

    hosts: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str | None = None
    target: str = "leader"
    application_name: str = "herdpy"
    connect_timeout_s: float = 10.0
    failover_timeout_s: float = 30.0
    request_timeout_s: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    libpq: Mapping[str, str] = field(default_factory=dict, repr=False)
    zookeeper: ZooKeeper | None = None
    ledgers_root: str | None = None

    @property
    def name(self) -> str:
        """What is shown of it."""
        if self.zookeeper is not None:
            return f"{self.zookeeper}/{self.database or ''}"
        return f"{','.join(f'{host}:{port}' for host, port in self.hosts)}/{self.database or ''}"


def remote_options(
    server: ServersUrl, given: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> RemoteOptions:
    """The options of a URL and of keywords together, and below them those of the environment.

    Args:
        given: keywords, and options of the URL; what the URL has in other places is taken from ``server``.
        environment: ``os.environ`` when it is left out.

    Raises:
        InterfaceError: one is not known, or wrong; it is named.
    """
    left = known.from_environment(os.environ if environment is None else environment, servers=True)
    in_url = {"user": server.user, "password": server.password}
    left |= known.checked(in_url) | known.checked(given)
    left.pop("autocommit", None)
    hosts = [*server.hosts, *left.pop("hosts", ())]
    if server.zookeeper is None and not hosts:
        raise InterfaceError("no host is named", hint="Write herdpy://host:port/tablespace.")
    if server.zookeeper is not None and hosts:
        raise InterfaceError(
            "option hosts is of a URL with herdpy+zk: the servers are looked up in ZooKeeper"
        )
    access = _access(server, left)
    made: dict[str, Any] = {f"{name}_s": left.pop(name) for name in _SECONDS if name in left}
    settings = {setting: left.pop(name) for name, setting in known.SETTINGS.items() if name in left}
    if left.get("target") == "follower":
        level = settings.setdefault("herdpy.read_level", "bounded")
        if level == "linearizable":
            raise InterfaceError(
                "option read_level: a server that follows does not answer at read level linearizable",
                hint="Choose bounded, at_lsn or any.",
            )
    made["libpq"] = {name: left.pop(name) for name in sorted(_LIBPQ & left.keys())}
    made["database"] = _tablespace(server, left.pop("tablespace", None))
    return RemoteOptions(
        tuple((host, port or DEFAULT_PORT) for host, port in hosts),
        settings=settings,
        zookeeper=server.zookeeper and replace(server.zookeeper, access=access),
        **made,
        **left,
    )


def _access(server: ServersUrl, left: dict[str, Any]) -> ZooKeeperAccess:
    """How ZooKeeper is reached; takes its options from those that are left."""
    given = {name: left.pop(f"zookeeper_{name}", None) for name in ("tls", "ca", "cert", "key")}
    named = [f"zookeeper_{name}" for name, value in given.items() if value is not None]
    if named and server.zookeeper is None:
        raise InterfaceError(
            f"option {named[0]} is for URLs with herdpy+zk: other URLs do not use ZooKeeper",
            hint="sslmode and its like are for the servers themselves.",
        )
    if not given["tls"] and (files := [name for name in named if name != "zookeeper_tls"]):
        raise InterfaceError(f"option {files[0]} needs zookeeper_tls=true")
    if (given["cert"] is None) != (given["key"] is None):
        raise InterfaceError("options zookeeper_cert and zookeeper_key belong together")
    return ZooKeeperAccess(bool(given["tls"]), given["ca"], given["cert"], given["key"])


def _tablespace(server: ServersUrl, named: str | None) -> str:
    if named is not None and server.database not in (None, named):
        raise InterfaceError(
            f"option tablespace is {named!r}, and the path of the URL names {server.database!r}"
        )
    name = named or server.database or DEFAULT_TABLESPACE
    if server.zookeeper is not None and ("/" in name or name in (".", "..")):
        raise InterfaceError(f"option tablespace is the name of one, not {name!r}")
    return name


__all__ = ["DEFAULT_PORT", "DEFAULT_TABLESPACE", "RemoteOptions", "remote_options"]
