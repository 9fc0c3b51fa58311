"""``herdpy admin``: look after one running server by gRPC: its service Admin, and lists of other services.

Each command is one call: its arguments make the request, and the answer is shown as a table or as JSON.
The .proto files of herdpy/rpc say what the fields mean.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.extras import needed
from herdpy.cli.output import write_document, write_table
from herdpy.cli.snapshot import grpc_address
from herdpy.cli.target import JsonOption

HELP = """Look after one running server: its sessions, settings, ledgers, snapshots and log levels.

The role must be a superuser (for "load": one that may change a table). The password, where one is needed,
is taken from HERDPY_PASSWORD.
"""
_TIMEOUT_S = 60.0
Server = Annotated[
    str,
    typer.Argument(metavar="URL", help="The server: grpc://role@host:port, or grpcs:// for TLS."),
]
Ca = Annotated[Path | None, typer.Option("--ca", help="A PEM file with the CAs of the server's certificate.")]
OfTablespace = Annotated[
    str, typer.Option("--tablespace", metavar="NAME", help="Without: the only one, or the default one.")
]
Pid = Annotated[int, typer.Argument(metavar="PID", help="The session, as `herdpy admin sessions` shows it.")]


def _call(
    url: str, ca: Path | None, method: str, request: str, *, service: str = "Admin", **fields: Any
) -> dict[str, Any]:
    """The answer of one call of a service as JSON has it, with the fields that have their default value.

    Raises:
        CliError: the URL names no gRPC endpoint, the server refuses, or it does not answer in time.
    """
    grpc = needed("grpc", "server")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core has lines of its own for standard error
    module = f"herdpy.rpc.{service.lower()}_pb2"
    messages, stub = needed(module), getattr(needed(f"{module}_grpc"), f"{service}Stub")
    remote_error = needed("herdpy.rpc.address").RemoteError
    address, _tablespace = grpc_address(url, "", ca)
    try:
        with address.blocking_channel() as channel:
            answer = getattr(stub(channel), method)(
                getattr(messages, request)(**fields), metadata=address.metadata, timeout=_TIMEOUT_S
            )
    except grpc.RpcError as error:
        raise CliError(str(remote_error.of(error))) from error
    shown: dict[str, Any] = needed("google.protobuf.json_format").MessageToDict(
        answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return shown


def _show(answer: dict[str, Any], *, json: bool) -> None:
    if json:
        write_document(answer)
        return
    rows = [(name.replace("_", " "), _text(value)) for name, value in answer.items()]
    write_table(["Field", "Value"], rows, sys.stdout, numeric=[False, False])


def _show_list(answer: dict[str, Any], *, json: bool) -> None:
    """Show an answer that is one list of messages, a row each."""
    (rows,) = answer.values()
    if json:
        write_document(rows)
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [[_text(row.get(name)) for name in names] for row in rows]
    write_table([name.replace("_", " ") for name in names], table, sys.stdout)


def _text(value: Any) -> str | None:
    """A field in one cell: an LSN as it is written elsewhere, a map or list by its members."""
    if isinstance(value, dict):
        if value.keys() == {"ledger_id", "entry_id"}:
            return f"{value['ledger_id']}:{value['entry_id']}"
        return ", ".join(f"{name}={_text(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(str(_text(one)) for one in value)
    return None if value is None else str(value)


def node_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Show what the server is and what is wrong with it."""
    _show(_call(url, ca, "GetNode", "GetNodeRequest"), json=json)


def tablespaces_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Show the tablespaces that the server has a replica of, with their positions."""
    _show_list(_call(url, ca, "ListTablespaces", "ListTablespacesRequest"), json=json)


def ledgers_command(
    url: Server, tablespace: OfTablespace = "", ca: Ca = None, json: JsonOption = False
) -> None:
    """Show the ledgers of a tablespace's log as the server knows them, oldest first."""
    _show_list(_call(url, ca, "ListLedgers", "ListLedgersRequest", tablespace=tablespace), json=json)


def snapshots_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Show the snapshots that the server keeps for downloads, oldest first, with their leases."""
    _show_list(_call(url, ca, "List", "ListSnapshotsRequest", service="Snapshots"), json=json)


def load_command(
    url: Server,
    load_id: Annotated[str, typer.Argument(metavar="ID", help="The load, as its maker named it.")],
    tablespace: OfTablespace = "",
    ca: Ca = None,
    json: JsonOption = False,
) -> None:
    """Show what a staged load added, and with which entry. The leader remembers the newest 10,000 loads."""
    request = {"load_id": load_id, "tablespace": tablespace}
    answer = _call(url, ca, "Describe", "DescribeLoadRequest", service="Loads", **request)
    if "done" not in answer:
        raise CliError(f'load "{load_id}" was not published, or is no longer remembered')
    _show(answer["done"], json=json)


def sessions_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Show the clients' sessions."""
    _show_list(_call(url, ca, "ListSessions", "ListSessionsRequest"), json=json)


def settings_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Show every setting with the value that holds."""
    _show_list(_call(url, ca, "ListSettings", "ListSettingsRequest"), json=json)


def cancel_command(url: Server, pid: Pid, ca: Ca = None) -> None:
    """End the statement that a session runs; the session goes on."""
    _call(url, ca, "CancelSession", "SessionId", pid=pid)


def terminate_command(url: Server, pid: Pid, ca: Ca = None) -> None:
    """End a session."""
    _call(url, ca, "TerminateSession", "SessionId", pid=pid)


def checkpoint_command(
    url: Server, tablespace: OfTablespace = "", ca: Ca = None, json: JsonOption = False
) -> None:
    """Make a checkpoint; a server that is alone deletes the ledgers before it."""
    _show(_call(url, ca, "Checkpoint", "CheckpointRequest", tablespace=tablespace), json=json)


def levels_command(
    url: Server,
    levels: Annotated[
        list[str] | None, typer.Argument(metavar="[LEVEL] [PART=LEVEL]...", help="The levels to set.")
    ] = None,
    ca: Ca = None,
    json: JsonOption = False,
) -> None:
    """Show the least level that each part of the server logs, or set it until the next start or reload.

    \b
    Examples:
      herdpy admin log-levels grpc://127.0.0.1:8481
      herdpy admin log-levels grpc://127.0.0.1:8481 info herdpy.checkpointer=debug
    """
    if not levels:
        _show(_call(url, ca, "GetLogLevels", "GetLogLevelsRequest"), json=json)
        return
    plain = [one for one in levels if "=" not in one]
    if len(plain) > 1:
        raise CliError(f"one level is for all other parts, not {' and '.join(plain)}", code=USAGE)
    parts = dict(one.split("=", 1) for one in levels if "=" in one)
    _show(_call(url, ca, "SetLogLevels", "LogLevels", level="".join(plain), levels=parts), json=json)


def reload_command(url: Server, ca: Ca = None, json: JsonOption = False) -> None:
    """Have the server read its configuration again, as SIGHUP does."""
    _show(_call(url, ca, "ReloadConfiguration", "ReloadConfigurationRequest"), json=json)


def upgrade_command(
    url: Server,
    finish: Annotated[
        bool,
        typer.Option("--finish", help="Raise the level: the way back to the older version ends here."),
    ] = False,
    ca: Ca = None,
    json: JsonOption = False,
) -> None:
    """Show how far an upgrade is: the level of the cluster or directory, and each server's version.

    With --finish the level is raised to the newest that the server knows, once every server runs it.
    """
    method = "FinishUpgrade" if finish else "GetUpgrade"
    answer = _call(url, ca, method, f"{method}Request")
    if json:
        write_document(answer)
        return
    servers = answer.pop("servers")
    _show({name: value or None for name, value in answer.items()}, json=False)
    write_table(
        ["Node", "Version", "Knows level"],
        [(one["node"] or None, one["version"] or None, one["level"]) for one in servers],
        sys.stdout,
    )


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("node", node_command),
    ("tablespaces", tablespaces_command),
    ("ledgers", ledgers_command),
    ("snapshots", snapshots_command),
    ("load", load_command),
    ("sessions", sessions_command),
    ("cancel", cancel_command),
    ("terminate", terminate_command),
    ("checkpoint", checkpoint_command),
    ("settings", settings_command),
    ("log-levels", levels_command),
    ("reload", reload_command),
    ("upgrade", upgrade_command),
)
