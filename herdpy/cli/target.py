"""Which database a command means, and getting a connection to it.

A database is named by a URL (``herdpy:///srv/flights``), simply by its directory (``./flights``), or by a
profile (``@flights``); where a command takes servers too, by their URL (``herdpy://host:5432/flights``,
``herdpy+zk://zk1,zk2/root?tablespace=flights``). The engine is imported here and nowhere earlier, so that a
driver-only install can say what it lacks.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from herdpy.cli.errors import USAGE, CliError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class TargetDatabase:
    """A database in a directory, or on servers.

    Attributes:
        path: the directory, absolute; of servers, the tablespace.
        url: what the driver is given: a URL, or ``@`` and a profile.
        is_remote: it is on servers.
    """

    path: Path
    url: str
    is_remote: bool = False

    @property
    def name(self) -> str:
        """What the shell's prompt calls it."""
        return self.path.name or "herdpy"

    @property
    def exists(self) -> bool:
        """Whether the directory holds a database (its marker is the last file of making one)."""
        return self.is_remote or (self.path / "HERDPY").is_file()

    @property
    def log(self) -> Path:
        """Where its ledgers lie."""
        return self.path / "log"

    @property
    def store(self) -> Path:
        """Where LMDB's files lie."""
        return self.path / "store"


def parse(text: str, *, servers: bool = False) -> TargetDatabase:
    """Return the database that ``text`` (a URL, a directory, @profile) names; CliError (usage) otherwise.

    Args:
        servers: the command works on servers, too.
    """
    if not _SCHEME.match(text) and not text.startswith("@"):
        if not text or "\0" in text:
            raise CliError(f"{text!r} is not a directory", code=USAGE)
        path = Path(text).expanduser().absolute()
        return TargetDatabase(path, f"herdpy://{quote(str(path))}")
    from herdpy.dbapi import address
    from herdpy.dbapi.errors import Error

    try:
        found = address.address_of(text)
    except Error as error:
        raise CliError(error.message, hint=error.hint or "Write herdpy:///path/to/dir", code=USAGE) from error
    if isinstance(found, address.Servers):
        if not servers:
            raise CliError(
                "this command is for a database in a directory",
                hint="It reads files. The table in docs/cli.md says what there is for servers.",
                code=USAGE,
            )
        return TargetDatabase(Path(found.options.database or "herdpy"), text, is_remote=True)
    return TargetDatabase(Path(found.path), text)


def existing(text: str, *, servers: bool = False) -> TargetDatabase:
    """As :func:`parse`; CliError when there is no database in the directory."""
    target = parse(text, servers=servers)
    if not target.exists:
        raise CliError(
            f"there is no database in {target.path}",
            hint="herdpy sql and herdpy import make one; or is the path wrong?",
        )
    return target


def connect(target: TargetDatabase, *, autocommit: bool) -> Any:
    """Open a PEP 249 connection; CliError when what it needs is not installed."""
    if not target.is_remote:
        needed("herdpy_server.embedded")
    return needed("herdpy.dbapi").connect(target.url, autocommit=autocommit)


def needed(module: str) -> ModuleType:
    """Import a module that needs the ``server`` extra; CliError that names the extra if it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in {"herdpy", "herdpy_sql", "herdpy_server"}:
            raise
        raise CliError(
            f"this needs the Python package {error.name}, which is not installed",
            hint='Opening a database in a directory needs the server extra: pip install "herdpy[server]"',
        ) from error
