"""What ``connect`` was asked for, whichever way it was said: URL, keywords, profile, environment.

Above ``url``, ``options`` and ``profiles``; below all that opens connections, so that each kind of connection
(``herdpy.connect``, ``herdpy.aio``, pools, the command line) takes the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from herdpy.dbapi import options as known
from herdpy.dbapi import profiles, url
from herdpy.dbapi.errors import InterfaceError

if TYPE_CHECKING:
    from herdpy.dbapi.link import Link
    from herdpy.dbapi.remote.options import RemoteOptions

UrlOrPath = str | os.PathLike[str] | None


@dataclass(frozen=True)
class DirectoryAddress:
    """A database in a directory of this machine.

    Attributes:
        create: make it when it is missing.
        session: settings of each session, by name.
        database: settings of the database.
    """

    path: str
    autocommit: bool
    create: bool
    session: Mapping[str, str] = field(default_factory=dict)
    database: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What is shown of it."""
        return self.path


@dataclass(frozen=True)
class ServersAddress:
    """A tablespace on servers."""

    options: RemoteOptions
    autocommit: bool

    @property
    def name(self) -> str:
        """What is shown of it."""
        return self.options.name


def address_of(
    place: UrlOrPath = None,
    keywords: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> DirectoryAddress | ServersAddress:
    """What is meant by a URL or path, ``@`` and a profile's name, or None (``HERDPY_URL``), and keywords.

    Keywords count before the URL, the URL before the profile, the profile before the environment.

    Raises:
        InterfaceError: it names nothing, or an option is not known or wrong; also when psycopg is missing.
    """
    environment = os.environ if environment is None else environment
    target, given = target_of(place, environment)
    given |= {name: value for name, value in (keywords or {}).items() if value is not None}
    autocommit = url.boolean("autocommit", given.get("autocommit", False))
    if isinstance(target, url.ServersUrl):
        from herdpy.dbapi.remote.options import remote_options

        return ServersAddress(remote_options(target, given, environment), autocommit)
    return _directory(target.path, given, environment, autocommit=autocommit)


def target_of(
    place: UrlOrPath, environment: Mapping[str, str] | None = None
) -> tuple[url.DirectoryUrl | url.ServersUrl, dict[str, Any]]:
    """What a URL, a path, a profile (``@name``) or None (``HERDPY_URL``) names, and the options with it."""
    environment = os.environ if environment is None else environment
    if place is None:
        place = environment.get("HERDPY_URL") or None
        if place is None:
            raise InterfaceError("no URL is given", hint="Pass one, or set HERDPY_URL.")
    profile: dict[str, Any] = {}
    if isinstance(place, str) and place.startswith("@"):
        found = profiles.load(place[1:], environment)
        place, profile = found.url, dict(found.options)
    target = url.parse(place)
    for name in ("user", "password"):
        if getattr(target, name, None) is not None:  # the URL says it
            profile.pop(name, None)
    return target, {**profile, **target.options}


def open_link(address: DirectoryAddress | ServersAddress) -> Link:
    """A connection's link to it. Raises as ``herdpy.connect``."""
    if isinstance(address, ServersAddress):
        from herdpy.dbapi.remote.link import open_link as open_remote

        return open_remote(address.options, autocommit=address.autocommit)
    from herdpy.dbapi import embedded

    link = embedded.open_link(
        address.path, create=address.create, autocommit=True, settings=dict(address.database)
    )
    try:
        for name, value in address.session.items():
            quoted = value.replace("'", "''")
            link.execute(f"SET {name} = '{quoted}'")
        link.autocommit = address.autocommit
    except BaseException:
        link.close()
        raise
    return link


def missing(error: ImportError) -> ImportError | InterfaceError:
    """What to install, when it is psycopg that could not be imported; otherwise the error itself."""
    if "psycopg" not in str(error) and "pq wrapper" not in str(error):
        return error
    return InterfaceError(f'servers need psycopg: pip install "herdpy[remote]" ({error})')


def _directory(
    path: str, given: dict[str, Any], environment: Mapping[str, str], *, autocommit: bool
) -> DirectoryAddress:
    create = url.boolean("create", given.pop("create", True))
    given.pop("autocommit", None)
    found = known.from_environment(environment, servers=False)
    database: dict[str, int | float] = {}
    for name, value in given.items():
        option = known.OPTIONS.get(name)
        if option is None:
            database[name] = url.number(name, value)
        elif option.directories:
            found[name] = option.read(name, value)
        else:
            raise InterfaceError(f"option {name} is for servers, not for a database in a directory")
    session = {known.SETTINGS.get(name, name): value for name, value in found.items()}
    return DirectoryAddress(path, autocommit, create, session, database)
