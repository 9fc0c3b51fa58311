"""Where a database is: the URLs that :func:`herdpy.connect` takes.

============================  =====================================================
``herdpy:///path/to/dir``     the directory /path/to/dir
``herdpy:////path/to/dir``    the same, as SQLAlchemy's users write absolute paths
``herdpy:path/to/dir``        relative to the working directory
``herdpy:///./path/to/dir``   the same, for tools that insist on ``://``
``/path``, ``./path``         plain text that can only be a path; any ``os.PathLike``
============================  =====================================================

``herdpy://user:password@host:port,host2:port2/tablespace`` names servers, of which one leads.
``herdpy+zk://user:password@zk1:2181,zk2:2181/root?tablespace=name`` names the ZooKeeper of a cluster, which
knows its servers.

Percent escapes are decoded (``%20``, ``%3F``). What follows ``?`` are options, as keywords of
``connect`` are.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from herdpy.dbapi.errors import InterfaceError
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

DEFAULT_ROOT = "/herdpy"
"""Where a cluster's znodes are, unless its configuration says otherwise."""
DEFAULT_ZOOKEEPER_PORT = 2181
MOST_OPTIONS = 100
_ZOOKEEPER_SCHEME = "herdpy+zk"


@dataclass(frozen=True, slots=True)
class DirectoryUrl:
    """A directory, and the options that stood in its URL (values as text)."""

    path: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """Where a cluster keeps what it knows of itself.

    Attributes:
        hosts: "host:port,host:port".
        root: the znode of the cluster, "/herdpy".
        access: whether TLS is used, and with which certificates; options say so.
    """

    hosts: str
    root: str
    access: ZooKeeperAccess = IN_THE_CLEAR

    def __str__(self) -> str:
        return f"{self.hosts}{self.root}"


@dataclass(frozen=True, slots=True)
class ServersUrl:
    """Servers, as (host, port or None), and the options that stood in the URL (values as text).

    Attributes:
        zookeeper: where the servers are looked up; then ``hosts`` is empty.
    """

    hosts: tuple[tuple[str, int | None], ...]
    user: str | None
    password: str | None = field(repr=False)
    database: str | None
    options: dict[str, str]
    zookeeper: ZooKeeper | None = None


def parse(url: str | os.PathLike[str]) -> DirectoryUrl | ServersUrl:
    """What ``url`` names. InterfaceError for what is no HerdPy URL."""
    if not isinstance(url, str):
        try:
            path = os.fspath(url)
        except TypeError:
            raise InterfaceError(f"a URL or a path is needed, not {type(url).__name__}") from None
        if not isinstance(path, str):
            raise InterfaceError("a path must be text, not bytes")
        return _target(path, {}, repr(url))
    if url.startswith(("/", "./", "../")) or url in (".", ".."):
        return _target(url, {}, repr(url))
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() not in ("herdpy", _ZOOKEEPER_SCHEME):
        raise InterfaceError(
            f"not a HerdPy URL: {shown(url)!r}",
            hint="Write herdpy:///path/to/directory or pass a pathlib.Path; of a server: herdpy://host:port/name.",
        )
    rest, _, query = rest.partition("?")
    if scheme.lower() == _ZOOKEEPER_SCHEME:
        return _cluster(rest, query)
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        if authority or "hosts=" in query:
            return _server(authority, rest, query)
        rest = slash + rest
    try:
        path = unquote(rest, errors="strict")
    except UnicodeDecodeError:
        raise InterfaceError(f"a URL's escapes must be UTF-8: {url!r}") from None
    if path.startswith(("/./", "/../")):  # relative, for tools that insist on ://
        path = path[1:]
    elif path.startswith("//"):
        path = "/" + path.lstrip("/")
    return _target(path, _options(query), repr(url))


def shown(url: str) -> str:
    """The URL as it may be shown: without a password."""
    url = re.sub(r"(//[^/?#]*?):[^/?#]*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", url)


def _options(query: str) -> dict[str, str]:
    """What follows ``?``. InterfaceError for what stands there twice: which one counts?"""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_OPTIONS):
        if name in found:
            raise InterfaceError(f"option {name} appears twice in the URL")
        found[name] = value
    return found


def _cluster(rest: str, query: str) -> ServersUrl:
    """The cluster that a ZooKeeper knows."""
    authority, _slash, path = rest.removeprefix("//").partition("/")
    login, at, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    options = _options(query)
    pairs = [*parse_hosts(hosts), *parse_hosts(options.pop("hosts", ""))] if rest.startswith("//") else []
    if not pairs:
        raise InterfaceError(
            "no host of ZooKeeper is named",
            hint="Write herdpy+zk://host:2181,host2:2181/root?tablespace=name.",
        )
    listed = ",".join(
        f"[{host}]:{port or DEFAULT_ZOOKEEPER_PORT}"
        if ":" in host
        else f"{host}:{port or DEFAULT_ZOOKEEPER_PORT}"
        for host, port in pairs
    )
    root = unquote(path).strip("/")
    place = ZooKeeper(listed, f"/{root}" if root else DEFAULT_ROOT)
    return ServersUrl(
        (), unquote(user) if at and user else None, unquote(password) if colon else None, None, options, place
    )


def _server(authority: str, path: str, query: str) -> ServersUrl:
    """The servers of a URL."""
    login, at, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    return ServersUrl(
        tuple(parse_hosts(hosts)),
        unquote(user) if at and user else None,
        unquote(password) if colon else None,
        unquote(path) or None,
        _options(query),
    )


def parse_hosts(text: str) -> list[tuple[str, int | None]]:
    """``host:port,[::1]:port,host`` as pairs; a host without a port has None."""
    found: list[tuple[str, int | None]] = []
    for part in filter(None, text.split(",")):
        host, colon, port = part.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = part, ""
        host = unquote(host.removeprefix("[").removesuffix("]"))
        if not host or (port and not (port.isdecimal() and 0 < int(port) < 65536)):
            raise InterfaceError(f"not a host and port: {part!r}")
        found.append((host, int(port) if port else None))
    return found


def _target(path: str, options: dict[str, str], shown: str) -> DirectoryUrl:
    if not path or path == "/":
        raise InterfaceError(f"no directory in {shown}", hint="Write herdpy:///path/to/directory.")
    if "\0" in path:
        raise InterfaceError(f"a path cannot contain NUL: {shown}")
    return DirectoryUrl(os.path.abspath(path), options)
