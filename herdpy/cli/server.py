"""``herdpy server``: serve a directory to PostgreSQL's clients, until a signal ends it.

The flags as typer has them; ``serving`` makes settings of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from herdpy.cli.serving import ServerArguments, serve

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
    arguments = ServerArguments(
        data=data,
        config=config,
        host=host,
        port=port,
        log_level=log_level,
        log_format=log_format,
        set_=tuple(set_ or ()),
        check_config=check_config,
        print_config=print_config,
    )
    raise typer.Exit(serve(arguments))
