"""A connection of Airflow, as the URLs that HerdPy's driver, SQLAlchemy's dialect and Spark's jobs take.

host, port, login, password, schema, extra -> ConnectionAddress -> the driver's, SQLAlchemy's, a job's URL

Nothing here imports Airflow. What a connection says and nobody would read is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

#: Extras that common.sql's hook reads itself.
_OF_COMMON_SQL = frozenset(
    {
        *("placeholder", "insert_statement_format", "escape_word_format", "escape_column_names"),
        *("sqlalchemy_scheme", "dialect"),
    }
)
_PORT = 5432
_ZOOKEEPER_PORT = 2181


class AddressError(ValueError):
    """A connection's fields contradict each other, or name nothing."""


@dataclass(frozen=True, slots=True)
class ConnectionAddress:
    """Where a database is, and as which role.

    Attributes:
        scheme: herdpy, or herdpy+zk where servers are looked up in ZooKeeper.
        hosts: host and port of each server, or of each ZooKeeper; empty for a directory.
        path: the tablespace, ZooKeeper's root, or the directory.
        options: the driver's, as texts.
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def driver_url(self) -> str:
        """The URL for ``herdpy.connect`` and for jobs: without user and password, which go beside it."""
        if not self.hosts:
            return f"herdpy://{quote(self.path)}{_query(self.options)}"
        hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}/{_quoted(self.path)}{_query(self.options)}"

    @property
    def sqlalchemy_url(self) -> str:
        """The URL for SQLAlchemy, with user and password; hosts after the first are an option."""
        if not self.hosts:
            return f"herdpy:///{quote(self.path)}{_query(self.options)}"
        (host, port), *others = self.hosts
        options = dict(self.options)
        if others:
            more = [f"{_bracketed(name)}:{number}" for name, number in others]
            options["hosts"] = ",".join([*more, *filter(None, [options.get("hosts")])])
        role = ""
        if self.user is not None:
            role = (
                _quoted(self.user) + (f":{_quoted(self.password)}" if self.password is not None else "") + "@"
            )
        return f"{self.scheme}://{role}{_bracketed(host)}:{port}/{_quoted(self.path)}{_query(options)}"

    @property
    def role(self) -> dict[str, str]:
        """User and password, as keywords of ``herdpy.connect``."""
        given = {"user": self.user, "password": self.password}
        return {name: value for name, value in given.items() if value is not None}


def address(
    *,
    host: str | None,
    port: int | None,
    login: str | None,
    password: str | None,
    schema: str | None,
    extra: Mapping[str, Any],
) -> ConnectionAddress:
    """The address that a connection's fields name.

    ``host`` is one server or several with commas, each with a port of its own or with that of the connection.
    ``extra`` has options of the driver, or ``zookeeper`` (hosts and root: ``zk1:2181,zk2/herdpy``) or
    ``directory`` (an absolute path) instead of ``host``.

    Raises:
        AddressError: no place is named, or more than one; a port is none.
    """
    options = {name: _text(name, value) for name, value in extra.items() if name not in _OF_COMMON_SQL}
    zookeeper, directory = options.pop("zookeeper", None), options.pop("directory", None)
    if sum(map(bool, (host, zookeeper, directory))) != 1:
        raise AddressError(
            "a connection names a host, or zookeeper or directory among its extras: one of them"
        )
    if directory:
        return _directory(directory, port, login, password, schema, options)
    if zookeeper:
        if port is not None:
            raise AddressError("a port stands with each host of zookeeper, not beside them")
        named, _, root = zookeeper.partition("/")
        options = {"tablespace": schema, **options} if schema else options
        hosts = _hosts(named, _ZOOKEEPER_PORT)
        return ConnectionAddress(
            "herdpy+zk", hosts, root or "herdpy", login or None, password or None, options
        )
    assert host
    return ConnectionAddress(
        *("herdpy", _hosts(host, port or _PORT), schema or "herdpy", login or None, password or None, options)
    )


def _directory(
    path: str,
    port: int | None,
    login: str | None,
    password: str | None,
    schema: str | None,
    options: dict[str, str],
) -> ConnectionAddress:
    given = [
        n for n, v in (("port", port), ("login", login), ("password", password), ("schema", schema)) if v
    ]
    if given:
        raise AddressError(f"a directory has no {', '.join(given)}")
    if not path.startswith("/"):
        raise AddressError(
            f"a directory is an absolute path: workers start anywhere, {path!r} is somewhere else there"
        )
    return ConnectionAddress("herdpy", (), path, options=options)


def _hosts(text: str, port: int) -> tuple[tuple[str, int], ...]:
    return tuple(_host(one.strip(), port) for one in text.split(","))


def _host(text: str, port: int) -> tuple[str, int]:
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise AddressError(f"{text!r} is no host")
    elif text.count(":") > 1:  # an IPv6 address alone
        name, number = text, ""
    else:
        name, _, number = text.partition(":")
    if not name or not (number.isdigit() or not number) or not 0 < int(number or port) < 65536:
        raise AddressError(f"{text!r} is no host, or host:port")
    return name, int(number or port)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise AddressError(f"extra {name!r} is text, a number or a truth value, not {type(value).__name__}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _query(options: Mapping[str, str]) -> str:
    return "?" + urlencode(options, quote_via=quote) if options else ""
