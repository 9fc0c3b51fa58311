"""Which database a command means, how it is named, and getting a connection to it.

A database is named by a URL (``herdpy:///srv/flights``), simply by its directory (``./flights``), or by a
profile (``@flights``); where a command takes servers too, by their URL (``herdpy://host:5432/flights``,
``herdpy+zk://zk1,zk2/root?tablespace=flights``). URL is every command's first argument. ``--profile NAME`` or
``HERDPY_URL`` stands in for it before anything else is read, so that what follows is the same arguments in
the same order: a command has the parameter ``url: Place``; :func:`takes_profile` gives it the option,
:class:`DatabaseCommand` the meaning.

The engine is imported when a command needs it (``extras``): a driver-only install can say what it lacks.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperArgument, TyperCommand

from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.extras import needed

VARIABLE = "HERDPY_URL"

Place = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="herdpy:///path/to/dir, or just the directory; herdpy://host:port,host:port/tablespace; "
        f"herdpy+zk://zk,zk/root?tablespace=name; @profile. [env var: {VARIABLE}]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of tables.")]
_Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="The same as @NAME in place of the URL.")
]


def takes_profile(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option ``--profile``, of which it never hears: see :class:`DatabaseCommand`."""

    @functools.wraps(command)
    def run(*args: Any, profile: str | None = None, **keywords: Any) -> None:
        del profile
        command(*args, **keywords)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Profile)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    run.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    run.__annotations__["profile"] = _Profile
    return run


def spelled_out(url: str | None, profile: str | None = None) -> str | None:
    """For what does not know profiles: the URL of one (``@name``) with its options behind it; else ``url``.

    A password goes into the environment of this process: URLs are shown. CliError (usage) for a profile that
    is not there, or when both are given.
    """
    if profile is not None:
        if url is not None:
            raise CliError("--url and --profile exclude each other", code=USAGE)
        url = f"@{profile}"
    if url is None or not url.startswith("@"):
        return url
    from urllib.parse import urlencode

    from herdpy.dbapi.address import load_profile
    from herdpy.dbapi.errors import Error

    try:
        found = load_profile(url[1:])
    except Error as error:
        raise CliError(error.message, hint=error.hint, code=USAGE) from error
    options = dict(found.options)
    if "password" in options:
        os.environ["HERDPY_PASSWORD"] = str(options.pop("password"))
    if not options:
        return found.url
    return f"{found.url}{'&' if '?' in found.url else '?'}{urlencode(options)}"


class DatabaseCommand(TyperCommand):
    """A command on a database, which it finds in ``--profile`` and in the environment, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in front of ``args`` what names the database, where no URL does."""
        parser = self.make_parser(ctx)
        given, _, _ = parser.parse_args(args=list(args))
        if ctx.resilient_parsing or given.get("help") is True:
            return super().parse_args(ctx, args)
        profile, default = given.get("profile"), os.environ.get(VARIABLE)
        if isinstance(profile, str):
            args = [f"@{profile}", *args]
            if parser.parse_args(args=list(args))[1]:
                ctx.fail("URL and --profile exclude each other.")
        elif default and not self._has_all(given):
            args = [default, *args]
        elif not given.get("url"):
            ctx.fail(f"No database is named: say its URL, --profile NAME, or set {VARIABLE}.")
        return super().parse_args(ctx, args)

    def _has_all(self, given: dict[str, Any]) -> bool:
        """Whether there is an argument for each that is needed: the first is the URL then."""
        needed = [one for one in self.params if isinstance(one, TyperArgument) and one.required]
        return all(isinstance(value := given.get(one.name or ""), str | tuple) and value for one in needed)


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
    if isinstance(found, address.ServersAddress):
        if not servers:
            raise CliError(
                "this command is for a database in a directory",
                hint="It reads files. See docs/cli.md for the commands for servers.",
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
