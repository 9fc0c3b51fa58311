"""Where ``connect`` goes, whichever way it is written: URL, keywords, a profile, the environment.

Above ``url`` and ``options``; below all that opens connections, so that each kind of connection
(``herdpy.connect``, ``herdpy.aio``, pools, the command line) takes the same. Profiles are URLs and options
under a name, a TOML table each, in ``$XDG_CONFIG_HOME/herdpy/profiles.toml`` or
``~/.config/herdpy/profiles.toml``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy.dbapi import options as known
from herdpy.dbapi import traced, url
from herdpy.dbapi import url as urls
from herdpy.dbapi.errors import InterfaceError
from herdpy.distribution import driver_line
from herdpy.options import boolean, nearest, number

if TYPE_CHECKING:
    from herdpy.dbapi.link import Link
    from herdpy.dbapi.options import RemoteOptions

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Profile:
    """What a name stands for; ``options`` as keywords of ``connect``."""

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)


def profiles_path(environment: Mapping[str, str]) -> Path:
    """Where the profiles are."""
    base = environment.get("XDG_CONFIG_HOME")
    # As XDG's specification has it, a path that is not absolute does not count.
    directory = Path(base) if base and os.path.isabs(base) else Path("~/.config").expanduser()
    return directory / "herdpy" / "profiles.toml"


def load_profile(name: str, environment: Mapping[str, str] | None = None) -> Profile:
    """The profile of a name.

    Raises:
        InterfaceError: there is none, it is wrong, or it has a password that others may read.
    """
    path = profiles_path(os.environ if environment is None else environment)
    tables = _tables(path)
    found = tables.get(name)
    if not isinstance(found, dict):
        near = nearest(name, [one for one in tables if isinstance(tables[one], dict)])
        hint = f"Is {near} meant?" if near else "A profile is a table of the file, such as [shop]."
        raise InterfaceError(f"there is no profile {name[:80]!r} in {path}", hint=hint)
    given = dict(found)
    url = given.pop("url", None)
    if not isinstance(url, str) or url.startswith("@"):
        raise InterfaceError(f"profile {name} in {path} has no url")
    if _has_password(url, given):
        known.check_private(path)
    for option, value in given.items():
        if isinstance(value, dict | list):
            raise InterfaceError(f"profile {name} in {path}: option {option} is a single value")
    return Profile(url, given)


def _has_password(url: str, given: Mapping[str, Any]) -> bool:
    if "password" in given or "sslpassword" in given:
        return True
    target = urls.parse(url)
    if not isinstance(target, urls.ServersUrl):
        return False
    return target.password is not None or bool({"password", "sslpassword"} & target.options.keys())


def _tables(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InterfaceError(f"there are no profiles: {path} is not there") from None
    except OSError as error:
        raise InterfaceError(f"the profiles cannot be read: {error}") from error
    if len(text) > MOST_BYTES:
        raise InterfaceError(f"the profiles in {path} are more than {MOST_BYTES} bytes")
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise InterfaceError(f"the profiles in {path} are no TOML: {error}") from None


UrlOrPath = str | os.PathLike[str] | None


@dataclass(frozen=True)
class DirectoryAddress:
    """A database in a directory of this machine.

    Attributes:
        create: make it when it is missing.
        session: settings of each session, by name.
        database: settings of the database.
        trace: as of ``herdpy.dbapi.traced``.
    """

    path: str
    autocommit: bool
    create: bool
    session: Mapping[str, str] = field(default_factory=dict)
    database: Mapping[str, int | float] = field(default_factory=dict)
    trace: str = "auto"

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
    autocommit = known.read_option("autocommit", given.get("autocommit", False), boolean)
    if isinstance(target, url.ServersUrl):
        return ServersAddress(known.remote_options(target, given, environment), autocommit)
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
        found = load_profile(place[1:], environment)
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

        options = address.options
        traces = traced.is_wanted(options.trace, of_servers=True)
        remote = open_remote(options, autocommit=address.autocommit)
        if not traces:
            return remote
        place = options.hosts[0] if len(options.hosts) == 1 else None
        return traced.TracedLink(remote, options.database or "", place, remote.trace_as)
    traces = traced.is_wanted(address.trace, of_servers=False)
    link = _open_directory(address)
    return traced.TracedLink(link, address.name, None, None) if traces else link


def _open_directory(address: DirectoryAddress) -> Link:
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
    return InterfaceError(f"servers need psycopg: {driver_line()} ({error})")


def _directory(
    path: str, given: dict[str, Any], environment: Mapping[str, str], *, autocommit: bool
) -> DirectoryAddress:
    create = known.read_option("create", given.pop("create", True), boolean)
    given.pop("autocommit", None)
    found = known.from_environment(environment, servers=False)
    database: dict[str, int | float] = {}
    for name, value in given.items():
        option = known.OPTIONS.get(name)
        if option is None:
            database[name] = known.read_option(name, value, number)
        elif option.directories:
            found[name] = option.read(value)
        else:
            raise InterfaceError(f"option {name} is for servers, not for a database in a directory")
    trace = found.pop("trace", "auto")
    session = {known.SETTINGS.get(name, name): value for name, value in found.items()}
    return DirectoryAddress(path, autocommit, create, session, database, trace)
