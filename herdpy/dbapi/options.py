"""The options of a connection: what each takes, where it may come from, what all together mean for servers.

Above ``url``. An option has one name, as a keyword of ``connect``, in a URL, in a profile, and (in
capitals, after ``HERDPY_``) in the environment. The first of these that gives it counts; see
``docs/drivers.md``.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from herdpy import durations
from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.url import ServersUrl, ZooKeeper, boolean, number, parse_hosts
from herdpy.zookeeper_access import ZooKeeperAccess

READ_LEVELS = ("linearizable", "bounded", "at_lsn", "any")
TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
MOST_SECONDS = 10_000_000.0
MOST_CHARACTERS = 4096
_LSN = re.compile(r"-?\d{1,19}:-?\d{1,19}")
_PASSWORDS = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        read: its value from what was given, or InterfaceError that names it.
        says: what it is for.
        directories: whether it is for a database in a directory, too.
        variable: the environment variable that gives it; empty: none does.
    """

    name: str
    read: Callable[[str, object], Any]
    says: str
    directories: bool = False
    variable: str = ""


def text(name: str, value: object) -> str:
    """Text that is not empty, of a reasonable length."""
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(given, str) or not given or "\0" in given or len(given) > MOST_CHARACTERS:
        shown = "" if name in _PASSWORDS else f", not {_short(value)}"
        raise InterfaceError(f"option {name} is text of 1 to {MOST_CHARACTERS} characters{shown}")
    return given


def secret(name: str, value: object) -> str:
    """A password, which may be empty and is never told."""
    if not isinstance(value, str) or "\0" in value or len(value) > MOST_CHARACTERS:
        raise InterfaceError(f"option {name} is text of up to {MOST_CHARACTERS} characters")
    return value


def seconds(name: str, value: object) -> float:
    """A time greater than 0."""
    found = float(number(name, value))
    if not 0 < found <= MOST_SECONDS:
        raise InterfaceError(f"option {name} is a number of seconds greater than 0, not {_short(value)}")
    return found


def whole(name: str, value: object) -> str:
    """A whole number, as libpq takes it."""
    found = number(name, value)
    if found != int(found) or abs(found) > 2**31 - 1:
        raise InterfaceError(f"option {name} is a whole number, not {_short(value)}")
    return str(int(found))


def duration(name: str, value: object) -> str:
    """Milliseconds, of seconds or of a number with its unit (``500ms``, ``2min``); 0 is none at all."""
    if isinstance(value, str):
        try:
            milliseconds = durations.microseconds(value, "s") / 1000
        except ValueError:
            raise InterfaceError(
                f"option {name} is a duration such as 2.5, 500ms or 2min, not {_short(value)}"
            ) from None
    else:
        milliseconds = number(name, value) * 1e3
    if not (math.isfinite(milliseconds) and 0 <= milliseconds <= 2**31 - 1):
        raise InterfaceError(f"option {name} is a duration of up to 24 days, not {_short(value)}")
    return str(max(1, round(milliseconds)) if milliseconds else 0)


def lsn(name: str, value: object) -> str:
    """A position of the log."""
    if not _LSN.fullmatch(str(value)):
        raise InterfaceError(f"option {name} is a position such as 12:345, not {_short(value)}")
    return str(value)


def file(name: str, value: object) -> str:
    """The path of a file that can be read."""
    path = os.path.expanduser(text(name, value))
    if not os.path.isfile(path):
        raise InterfaceError(f"option {name}: there is no file {path}")
    if not os.access(path, os.R_OK):
        raise InterfaceError(f"option {name}: {path} cannot be read")
    return path


def trusted(name: str, value: object) -> str:
    """A file of certificates, or libpq's word for those of the system."""
    return "system" if value == "system" else file(name, value)


def private(name: str, value: object) -> str:
    """A file that nobody else can read, since it has a password."""
    path = file(name, value)
    check_private(path, f"option {name}: ")
    return path


def check_private(path: str | os.PathLike[str], told: str = "") -> None:
    """InterfaceError when others than its owner may read or write a file, or it is somebody else's."""
    found = os.stat(path)
    if found.st_mode & 0o077:
        raise InterfaceError(
            f"{told}other users may read or write {os.fspath(path)}, and it has a password",
            hint=f"chmod 600 {os.fspath(path)}",
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise InterfaceError(f"{told}{os.fspath(path)} has a password and belongs to another user")


def one_of(*words: str) -> Callable[[str, object], str]:
    """One of some words."""

    def read(name: str, value: object) -> str:
        if value not in words:
            raise InterfaceError(f"option {name} is one of {', '.join(words)}, not {_short(value)}")
        return str(value)

    return read


def hosts(name: str, value: object) -> list[tuple[str, int | None]]:
    """More servers."""
    del name
    return parse_hosts(str(value))


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _options(*found: Option) -> dict[str, Option]:
    return {one.name: one for one in found}


OPTIONS = _options(
    Option("autocommit", boolean, "each statement is its own transaction", directories=True),
    Option("user", text, "the role", variable="HERDPY_USER"),
    Option("password", secret, "its password", variable="HERDPY_PASSWORD"),
    Option("passfile", private, "a file of passwords, as libpq's ~/.pgpass", variable="HERDPY_PASSFILE"),
    Option("hosts", hosts, "more servers, as host:port,host:port"),
    Option("tablespace", text, "the tablespace, where the URL's path does not name it"),
    Option("target", one_of("leader", "follower"), "which server: leader, or follower for reads",
           variable="HERDPY_TARGET"),
    Option("connect_timeout", seconds, "seconds to find the leader at first",
           variable="HERDPY_CONNECT_TIMEOUT"),
    Option("failover_timeout", seconds, "seconds to find it again, and to learn the outcome of a commit",
           variable="HERDPY_FAILOVER_TIMEOUT"),
    Option("request_timeout", seconds, "seconds that one call may take, whatever happens to servers",
           variable="HERDPY_REQUEST_TIMEOUT"),
    Option("statement_timeout", duration, "how long a statement may run", directories=True,
           variable="HERDPY_STATEMENT_TIMEOUT"),
    Option("lock_timeout", duration, "how long it may wait for a lock", directories=True,
           variable="HERDPY_LOCK_TIMEOUT"),
    Option("application_name", text, "shown in pg_stat_activity", directories=True,
           variable="HERDPY_APPLICATION_NAME"),
    Option("read_level", one_of(*READ_LEVELS), "how new what is read must be", directories=True,
           variable="HERDPY_READ_LEVEL"),
    Option("max_staleness", duration, "how old it may be at the read level bounded", directories=True,
           variable="HERDPY_MAX_STALENESS"),
    Option("min_lsn", lsn, "the position that the read level at_lsn waits for", directories=True),
    Option("sslmode", one_of(*TLS_MODES), "whether TLS is used, and what is verified",
           variable="HERDPY_SSLMODE"),
    Option("sslrootcert", trusted, "the CAs of servers' certificates (PEM), or system",
           variable="HERDPY_SSLROOTCERT"),
    Option("sslcert", file, "the client's certificate (PEM)", variable="HERDPY_SSLCERT"),
    Option("sslkey", file, "its key (PEM)", variable="HERDPY_SSLKEY"),
    Option("sslpassword", secret, "the key's password"),
    Option("sslcrl", file, "certificates that were revoked (PEM)"),
    Option("sslnegotiation", one_of("postgres", "direct"), "how TLS begins"),
    Option("ssl_min_protocol_version", text, "the oldest TLS that is accepted"),
    Option("channel_binding", one_of("disable", "prefer", "require"), "whether passwords are bound to TLS"),
    Option("require_auth", text, "the ways of authentication that are accepted"),
    Option("gssencmode", one_of("disable", "prefer", "require"), "whether GSSAPI encrypts"),
    Option("keepalives", whole, "1: TCP keepalives are sent"),
    Option("keepalives_idle", whole, "seconds of silence before the first"),
    Option("keepalives_interval", whole, "seconds between them"),
    Option("keepalives_count", whole, "how many may be lost"),
    Option("tcp_user_timeout", whole, "milliseconds until data that is not acknowledged breaks the"
    " connection"),
    Option("zookeeper_tls", boolean, "herdpy+zk: ZooKeeper's servers use TLS"),
    Option("zookeeper_ca", file, "the CAs of their certificates (PEM)"),
    Option("zookeeper_cert", file, "the certificate that is shown to them (PEM)"),
    Option("zookeeper_key", file, "its key (PEM)"),
    Option("ledgers_root", text, "the znode of BookKeeper's metadata, for readers of the log"),
)  # fmt: skip
"""All of them but the settings of a database in a directory."""

SETTINGS = {
    "statement_timeout": "statement_timeout",
    "lock_timeout": "lock_timeout",
    "read_level": "herdpy.read_level",
    "max_staleness": "herdpy.max_staleness_ms",
    "min_lsn": "herdpy.min_lsn",
}
"""Options that are settings of each session."""


def from_environment(environment: Mapping[str, str], *, servers: bool) -> dict[str, Any]:
    """What the environment gives, by name of the option; a variable that is empty gives nothing.

    Args:
        servers: for a connection to servers, and not to a directory.
    """
    found: dict[str, Any] = {}
    for option in OPTIONS.values():
        given = environment.get(option.variable) if option.variable else None
        if not given or not (servers or option.directories):
            continue
        try:
            found[option.name] = option.read(option.name, given)
        except InterfaceError as error:
            raise InterfaceError(f"{option.variable}: {error.message}", hint=error.hint) from None
    return found


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """The values of options for servers. InterfaceError for one that is not known, or is wrong.

    None counts as not given.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in OPTIONS:
            raise unknown(name, OPTIONS)
        if value is not None:
            found[name] = OPTIONS[name].read(name, value)
    return found


def unknown(name: str, known: Iterable[str]) -> InterfaceError:
    """There is no such option; perhaps another was meant."""
    if name in ("create", "checkpoint_interval_s", "query_memory_bytes"):
        return InterfaceError(f"option {name} is for a database in a directory, not on servers")
    near = difflib.get_close_matches(name, list(known), 1)
    return InterfaceError(
        f"an option is not known: {name[:80]}", hint=f"Is {near[0]} meant?" if near else None
    )


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
    left = from_environment(os.environ if environment is None else environment, servers=True)
    in_url = {"user": server.user, "password": server.password}
    left |= checked(in_url) | checked(given)
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
    settings = {setting: left.pop(name) for name, setting in SETTINGS.items() if name in left}
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
