"""Profiles: URLs and options under a name, in a file of their user's. Below ``address``.

``$XDG_CONFIG_HOME/herdpy/profiles.toml``, or ``~/.config/herdpy/profiles.toml``, has a table for each::

    [shop]
    url = "herdpy://db1,db2,db3/shop"
    user = "ann"
    read_level = "bounded"
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from herdpy.dbapi import options as known
from herdpy.dbapi import url as urls
from herdpy.dbapi.errors import InterfaceError

MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Profile:
    """What a name stands for; ``options`` as keywords of ``connect``."""

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)


def path_of(environment: Mapping[str, str]) -> Path:
    """Where the profiles are."""
    base = environment.get("XDG_CONFIG_HOME")
    # As XDG's specification has it, a path that is not absolute does not count.
    directory = Path(base) if base and os.path.isabs(base) else Path("~/.config").expanduser()
    return directory / "herdpy" / "profiles.toml"


def names(environment: Mapping[str, str] | None = None) -> list[str]:
    """The profiles that there are; none when there is no file. InterfaceError when it cannot be read."""
    path = path_of(os.environ if environment is None else environment)
    return sorted(_tables(path)) if path.exists() else []


def load(name: str, environment: Mapping[str, str] | None = None) -> Profile:
    """The profile of a name.

    Raises:
        InterfaceError: there is none, it is wrong, or it has a password that others may read.
    """
    path = path_of(os.environ if environment is None else environment)
    tables = _tables(path)
    found = tables.get(name)
    if not isinstance(found, dict):
        near = difflib.get_close_matches(name, [one for one in tables if isinstance(tables[one], dict)], 1)
        hint = f"Is {near[0]} meant?" if near else "A profile is a table of the file, such as [shop]."
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
