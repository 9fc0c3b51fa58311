"""``herdpy server``: serve a directory to PostgreSQL's clients, until a signal ends it.

Flags become settings here, and nothing else: ``herdpy_server.config`` checks them together with the file
and the environment, and ``herdpy_server.server`` runs the process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError, tell

_SERVING = "Serving"
_LOOKING = "Looking at the configuration"


_DataOption = Annotated[
    str | None, typer.Option("--data", "-d", help="The data directory.", rich_help_panel=_SERVING)
]
_ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The configuration file.", rich_help_panel=_SERVING)
]
_HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        help="Where PostgreSQL's clients connect; several with commas.",
        rich_help_panel=_SERVING,
    ),
]
_PortOption = Annotated[
    str | None, typer.Option("--port", "-p", help="The port for them.", rich_help_panel=_SERVING)
]
_LogLevelOption = Annotated[
    str | None, typer.Option(help="debug, info, warning or error.", rich_help_panel=_SERVING)
]
_LogFormatOption = Annotated[str | None, typer.Option(help="text or json.", rich_help_panel=_SERVING)]
_SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Any other setting.", rich_help_panel=_SERVING),
]
_CheckConfigOption = Annotated[
    bool, typer.Option("--check-config", help="Check everything, and end.", rich_help_panel=_LOOKING)
]
_PrintConfigOption = Annotated[
    bool,
    typer.Option(
        "--print-config",
        help="Show the values that hold and where from, and end.",
        rich_help_panel=_LOOKING,
    ),
]


def server_command(
    data: _DataOption = None,
    config: _ConfigOption = None,
    host: _HostOption = None,
    port: _PortOption = None,
    log_level: _LogLevelOption = None,
    log_format: _LogFormatOption = None,
    set_: _SetOption = None,
    check_config: _CheckConfigOption = False,
    print_config: _PrintConfigOption = False,
) -> None:
    """Serve a database to psql, drivers and whatever else speaks PostgreSQL's protocol.

    It runs in the foreground. SIGTERM lets sessions end first, SIGINT (Ctrl-C) ends them; SIGHUP reads the
    configuration again. Flags stand over the environment (HERDPY_POSTGRES_PORT), that over the file.

    Exit codes: 0 ended as asked, 1 it could not start or end as it should, 2 the configuration is wrong.

    \b
    Examples:
      herdpy server --data ./flights
      herdpy server --config conf/server.toml --data /var/lib/herdpy
      herdpy server --data ./flights --port 5433 --set http.enabled=false
      herdpy server --config conf/server.toml --check-config
    """
    settings: Any = target.needed("herdpy_server.config")
    flags = [
        (flag, key, value)
        for flag, key, value in (
            ("--data", "data.directory", data),
            ("--host", "postgres.addresses", host),
            ("--port", "postgres.port", port),
            ("--log-level", "logging.level", log_level),
            ("--log-format", "logging.format", log_format),
        )
        if value is not None
    ] + [_setting(text) for text in set_ or ()]

    def read() -> Any:
        return settings.load(config, environment=os.environ, flags=flags)

    try:
        loaded = read()
    except settings.ConfigError as error:
        count = len(error.problems)
        for problem in error.problems:
            tell(problem)
        raise CliError(
            f"the configuration has {count} problem{'s' if count > 1 else ''}",
            hint="conf/server.toml lists every setting; herdpy server --help the flags.",
            code=USAGE,
        ) from error
    if check_config or print_config:
        for warning in loaded.warnings:
            tell(f"warning: {warning}")
        if print_config:
            sys.stdout.write(settings.effective(loaded.config, loaded.origins))
        if check_config:
            sys.stdout.write("The configuration is right.\n")
        return
    code: int = target.needed("herdpy_server.server").serve(loaded, read)
    raise typer.Exit(code)


def _setting(text: str) -> tuple[str, str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise CliError(f"--set {text}: write --set section.name=value", code=USAGE)
    return f"--set {key.strip()}", key.strip(), value
