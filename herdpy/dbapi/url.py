"""Where a database is: the URLs that :func:`herdpy.connect` takes.

============================  =====================================================
``herdpy:///path/to/dir``     the directory /path/to/dir
``herdpy:////path/to/dir``    the same, as SQLAlchemy's users write absolute paths
``herdpy:path/to/dir``        relative to the working directory
``herdpy:///./path/to/dir``   the same, for tools that insist on ``://``
``/path``, ``./path``         plain text that can only be a path; any ``os.PathLike``
============================  =====================================================

Percent escapes are decoded (``%20``, ``%3F``). What follows ``?`` are options, as keywords of
``connect`` are. URLs with a host, and ``herdpy+zk://``, name servers.
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


def parse(url: str | os.PathLike[str]) -> Target:
    """What ``url`` names. InterfaceError for what is no HerdPy URL, NotSupportedError for servers."""
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
        host, slash, rest = rest[2:].partition("/")
        if host:
            raise _remote(url)
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
        f"{url!r} names a server: that needs the remote driver, which this version does not have",
        sqlstate="0A000",
        hint="herdpy:///path/to/directory opens a database in this process.",
    )
