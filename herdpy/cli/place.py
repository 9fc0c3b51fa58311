"""How commands are told which database they work on: URL, ``--profile NAME``, or ``HERDPY_URL``.

The same for every command: URL is its first argument, and a profile or the environment stands in for it
before anything else is read, so that what follows is the same arguments in the same order. A command has the
parameter ``url: Place``; :func:`takes_profile` gives it the option, :class:`DatabaseCommand` the meaning.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

VARIABLE = "HERDPY_URL"

Place = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="herdpy:///path/to/dir, or just the directory; herdpy://host:port,host:port/tablespace; "
        f"herdpy+zk://zk,zk/root?tablespace=name; @profile. [env var: {VARIABLE}]",
    ),
]
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
    from herdpy.cli.errors import USAGE, CliError

    if profile is not None:
        if url is not None:
            raise CliError("--url and --profile exclude each other", code=USAGE)
        url = f"@{profile}"
    if url is None or not url.startswith("@"):
        return url
    from urllib.parse import urlencode

    from herdpy.dbapi import profiles
    from herdpy.dbapi.errors import Error

    try:
        found = profiles.load(url[1:])
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
