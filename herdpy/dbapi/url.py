"""Where a database is: the URLs that :func:`herdpy.connect` takes.

============================  =====================================================
``herdpy:///path/to/dir``     the directory /path/to/dir
``herdpy:////path/to/dir``    the same, as SQLAlchemy's users write absolute paths
``herdpy:path/to/dir``        relative to the working directory
``herdpy:///./path/to/dir``   the same, for tools that insist on ``://``
``/path``, ``./path``         plain text that can only be a path; any ``os.PathLike``
============================  =====================================================

``herdpy://user:password@host:port,host2:port2/tablespace`` names servers, of which one leads.

Percent escapes are decoded (``%20``, ``%3F``). What follows ``?`` are options, as keywords of
``connect`` are. ``herdpy+zk://`` is kept for later.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from herdpy.dbapi.errors import InterfaceError, NotSupportedError

_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A directory, and the options that stood in its URL (values as text)."""

    path: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class Server:
    """Servers, as (host, port or None), and the options that stood in the URL (values as text)."""

    hosts: tuple[tuple[str, int | None], ...]
    user: str | None
    password: str | None
    database: str | None
    options: dict[str, str]


def parse(url: str | os.PathLike[str]) -> Target | Server:
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
    if not colon or scheme.lower() not in ("herdpy", "herdpy+zk"):
        raise InterfaceError(
            f"not a HerdPy URL: {url!r}",
            hint="Write herdpy:///path/to/directory, or pass a pathlib.Path.",
        )
    rest, _, query = rest.partition("?")
    if scheme.lower() == "herdpy+zk":
        raise _remote(url)
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
    return _target(path, dict(parse_qsl(query, keep_blank_values=True)), repr(url))


def _server(authority: str, path: str, query: str) -> Server:
    """The servers of a URL."""
    login, at, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    return Server(
        tuple(parse_hosts(hosts)),
        unquote(user) if at and user else None,
        unquote(password) if colon else None,
        unquote(path) or None,
        dict(parse_qsl(query, keep_blank_values=True)),
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


def boolean(name: str, value: object) -> bool:
    """An option that is true or false, as a keyword gives it or as a URL spells it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise InterfaceError(f"option {name} is true or false, not {value!r}")


def number(name: str, value: object) -> int | float:
    """An option that is a number, as a keyword gives it or as a URL spells it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        for read in (int, float):
            try:
                return read(value)
            except ValueError:
                continue
    raise InterfaceError(f"option {name} is a number, not {value!r}")


def _target(path: str, options: dict[str, str], shown: str) -> Target:
    if not path or path == "/":
        raise InterfaceError(f"no directory in {shown}", hint="Write herdpy:///path/to/directory.")
    if "\0" in path:
        raise InterfaceError(f"a path cannot contain NUL: {shown}")
    return Target(os.path.abspath(path), options)


def _remote(url: str) -> NotSupportedError:
    return NotSupportedError(
        f"{url!r}: servers are not looked up in ZooKeeper yet",
        sqlstate="0A000",
        hint="Name them: herdpy://host:port,host2:port2/tablespace.",
    )
