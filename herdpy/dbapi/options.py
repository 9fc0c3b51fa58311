"""The options of a connection: what each takes, where it may come from, what all together mean for servers.

Above ``url``. An option has one name, as a keyword of ``connect``, in a URL, in a profile, and (in
capitals, after ``HERDPY_``) in the environment. The first of these that gives it counts; see
``docs/drivers.md``.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from herdpy import options
from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.url import ServersUrl, ZooKeeper, parse_hosts
from herdpy.options import one_of, shown
from herdpy.zookeeper_access import ZooKeeperAccess

V = TypeVar("V")

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
        convert: its value from what was given; ValueError says what it takes.
        says: what it is for.
        directories: whether it is for a database in a directory, too.
        variable: the environment variable that gives it; empty: none does.
    """

    name: str
    convert: Callable[[Any], Any]
    says: str
    directories: bool = False
    variable: str = ""

    def read(self, value: object) -> Any:
        """Its value. InterfaceError names the option, what it takes and (but for passwords) the value."""
        return read_option(self.name, value, self.convert)


def read_option(name: str, value: object, convert: Callable[[Any], V]) -> V:
    """The value of an option by a converter; InterfaceError names it, what it takes and what was given."""
    try:
        return convert(value)
    except InterfaceError as error:
        raise InterfaceError(f"option {name}: {error.message}", hint=error.hint) from None
    except ValueError as error:
        given = "" if name in _PASSWORDS else f", not {shown(value)}"
        raise InterfaceError(f"option {name} is {error}{given}") from None


def _text(value: object) -> str:
    """Text that is not empty, of a reasonable length."""
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(given, str) or not given or "\0" in given or len(given) > MOST_CHARACTERS:
        raise ValueError(f"text of 1 to {MOST_CHARACTERS} characters")
    return given


def _secret(value: object) -> str:
    """A password, which may be empty."""
    if not isinstance(value, str) or "\0" in value or len(value) > MOST_CHARACTERS:
        raise ValueError(f"text of up to {MOST_CHARACTERS} characters")
    return value


def _seconds(value: object) -> float:
    """A time greater than 0, of seconds or of a number with its unit."""
    found = 0.0
    with contextlib.suppress(ValueError):
        is_text = isinstance(value, str)
        found = options.microseconds(str(value), "s") / 1e6 if is_text else float(options.number(value))
    if not 0 < found <= MOST_SECONDS:
        raise ValueError("a number of seconds greater than 0")
    return found


def _libpq_number(value: object) -> str:
    """A whole number, as libpq takes it."""
    found = options.number(value)
    if not abs(found) <= 2**31 - 1 or found != int(found):
        raise ValueError("a whole number")
    return str(int(found))


def _duration(value: object) -> str:
    """Milliseconds, of seconds or of a number with its unit (``500ms``, ``2min``); 0 is none at all."""
    if isinstance(value, str):
        try:
            milliseconds = options.microseconds(value, "s") / 1000
        except ValueError:
            raise ValueError("a duration such as 2.5, 500ms or 2min") from None
    else:
        milliseconds = options.number(value) * 1e3
    if not (math.isfinite(milliseconds) and 0 <= milliseconds <= 2**31 - 1):
        raise ValueError("a duration of up to 24 days")
    return str(max(1, round(milliseconds)) if milliseconds else 0)


def _lsn(value: object) -> str:
    """A position of the log."""
    if not _LSN.fullmatch(str(value)):
        raise ValueError("a position such as 12:345")
    return str(value)


def _file(value: object) -> str:
    """The path of a file that can be read."""
    path = os.path.expanduser(_text(value))
    if not os.path.isfile(path):
        raise InterfaceError(f"there is no file {path}")
    if not os.access(path, os.R_OK):
        raise InterfaceError(f"{path} cannot be read")
    return path


def _authorities(value: object) -> str:
    """A file of certificates, or libpq's word for those of the system."""
    return "system" if value == "system" else _file(value)


def _private_file(value: object) -> str:
    """A file that nobody else can read, since it has a password."""
    path = _file(value)
    check_private(path)
    return path


def check_private(path: str | os.PathLike[str]) -> None:
    """InterfaceError when others than its owner may read or write a file, or it is somebody else's."""
    found = os.stat(path)
    if found.st_mode & 0o077:
        raise InterfaceError(
            f"other users may read or write {os.fspath(path)}, and it has a password",
            hint=f"chmod 600 {os.fspath(path)}",
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise InterfaceError(f"{os.fspath(path)} has a password and belongs to another user")


def _hosts(value: object) -> list[tuple[str, int | None]]:
    """More servers."""
    return parse_hosts(str(value))


def _options(*found: Option) -> dict[str, Option]:
    return {one.name: one for one in found}


OPTIONS = _options(
    Option("autocommit", options.boolean, "each statement is its own transaction", directories=True),
    Option("user", _text, "the role", variable="HERDPY_USER"),
    Option("password", _secret, "its password", variable="HERDPY_PASSWORD"),
    Option("passfile", _private_file, "a file of passwords, as libpq's ~/.pgpass",
           variable="HERDPY_PASSFILE"),
    Option("hosts", _hosts, "more servers, as host:port,host:port"),
    Option("tablespace", _text, "the tablespace, where the URL's path does not name it"),
    Option("target", one_of("leader", "follower"), "which server: leader, or follower for reads",
           variable="HERDPY_TARGET"),
    Option("connect_timeout", _seconds, "seconds to find the leader at first",
           variable="HERDPY_CONNECT_TIMEOUT"),
    Option("failover_timeout", _seconds, "seconds to find it again, and to learn the outcome of a commit",
           variable="HERDPY_FAILOVER_TIMEOUT"),
    Option("request_timeout", _seconds, "seconds that one call may take, whatever happens to servers",
           variable="HERDPY_REQUEST_TIMEOUT"),
    Option("statement_timeout", _duration, "how long a statement may run", directories=True,
           variable="HERDPY_STATEMENT_TIMEOUT"),
    Option("lock_timeout", _duration, "how long it may wait for a lock", directories=True,
           variable="HERDPY_LOCK_TIMEOUT"),
    Option("application_name", _text, "shown in pg_stat_activity", directories=True,
           variable="HERDPY_APPLICATION_NAME"),
    Option("read_level", one_of(*READ_LEVELS), "how new what is read must be", directories=True,
           variable="HERDPY_READ_LEVEL"),
    Option("max_staleness", _duration, "how old it may be at the read level bounded", directories=True,
           variable="HERDPY_MAX_STALENESS"),
    Option("min_lsn", _lsn, "the position that the read level at_lsn waits for", directories=True),
    Option("sslmode", one_of(*TLS_MODES), "whether TLS is used, and what is verified",
           variable="HERDPY_SSLMODE"),
    Option("sslrootcert", _authorities, "the CAs of servers' certificates (PEM), or system",
           variable="HERDPY_SSLROOTCERT"),
    Option("sslcert", _file, "the client's certificate (PEM)", variable="HERDPY_SSLCERT"),
    Option("sslkey", _file, "its key (PEM)", variable="HERDPY_SSLKEY"),
    Option("sslpassword", _secret, "the key's password"),
    Option("sslcrl", _file, "certificates that were revoked (PEM)"),
    Option("sslnegotiation", one_of("postgres", "direct"), "how TLS begins"),
    Option("ssl_min_protocol_version", _text, "the oldest TLS that is accepted"),
    Option("channel_binding", one_of("disable", "prefer", "require"), "whether passwords are bound to TLS"),
    Option("require_auth", _text, "the ways of authentication that are accepted"),
    Option("gssencmode", one_of("disable", "prefer", "require"), "whether GSSAPI encrypts"),
    Option("keepalives", _libpq_number, "1: TCP keepalives are sent"),
    Option("keepalives_idle", _libpq_number, "seconds of silence before the first"),
    Option("keepalives_interval", _libpq_number, "seconds between them"),
    Option("keepalives_count", _libpq_number, "how many may be lost"),
    Option("tcp_user_timeout", _libpq_number, "milliseconds until data that is not acknowledged breaks the"
    " connection"),
    Option("trace", one_of("auto", "on", "off"), "whether statements are spans of OpenTelemetry; auto: on"
           " servers, where the program has a tracer provider", directories=True, variable="HERDPY_TRACE"),
    Option("zookeeper_tls", options.boolean, "herdpy+zk: ZooKeeper's servers use TLS"),
    Option("zookeeper_ca", _file, "the CAs of their certificates (PEM)"),
    Option("zookeeper_cert", _file, "the certificate that is shown to them (PEM)"),
    Option("zookeeper_key", _file, "its key (PEM)"),
    Option("ledgers_root", _text, "the znode of BookKeeper's metadata, for readers of the log"),
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
            found[option.name] = option.read(given)
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
            found[name] = OPTIONS[name].read(value)
    return found


def unknown(name: str, known: Iterable[str]) -> InterfaceError:
    """There is no such option; perhaps another was meant."""
    if name in ("create", "checkpoint_interval_s", "query_memory_bytes"):
        return InterfaceError(f"option {name} is for a database in a directory, not on servers")
    near = options.nearest(name, known)
    return InterfaceError(f"an option is not known: {name[:80]}", hint=f"Is {near} meant?" if near else None)


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
        trace: as of ``herdpy.dbapi.traced``.
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
    trace: str = "auto"

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
        settings.setdefault("herdpy.read_level", "bounded")
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
