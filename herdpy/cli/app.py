"""The commands of ``herdpy``, put together. Every module imported here is light: see DESIGN.md."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer

from herdpy.cli import admin, backups, dev, drill, ledgers, snapshot, tablespaces
from herdpy.cli.backup import backup_command
from herdpy.cli.command_bulk import export_command, import_command
from herdpy.cli.command_changes import changes_command
from herdpy.cli.command_log import log_command
from herdpy.cli.command_sql import sql_command
from herdpy.cli.command_state import check_command, checkpoint_command, info_command, version_command
from herdpy.cli.doctor import doctor_command
from herdpy.cli.errors import guarded
from herdpy.cli.init import init_command
from herdpy.cli.restore import restore_command
from herdpy.cli.server import server_command
from herdpy.cli.snapshot import rescue_command
from herdpy.cli.spark import CONTEXT as SPARK_CONTEXT
from herdpy.cli.spark import spark_command
from herdpy.cli.status import status_command
from herdpy.cli.target import DatabaseCommand, takes_profile
from herdpy.cli.top import top_command


def _help(command: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line; those after a backspace (examples) stay as they are."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(one if one.startswith("\b") else " ".join(one.split()) for one in paragraphs)


def _on_database(group: typer.Typer, name: str, command: Callable[..., None]) -> None:
    group.command(name, cls=DatabaseCommand, help=_help(command))(guarded(takes_profile(command)))


app = typer.Typer(
    name="herdpy",
    help="A SQL database in a directory, embedded or served, that logs before it applies.\n\n"
    "A database is named by a URL (herdpy:///srv/flights) or by its directory (./flights).\n\n"
    "Exit codes: 0 all went well, 1 something failed or was found to be wrong, 2 wrong usage.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("server", help=_help(server_command))(guarded(server_command))
app.command("init", help=_help(init_command))(guarded(init_command))
app.command("doctor", help=_help(doctor_command))(guarded(doctor_command))
app.command("version", help=_help(version_command))(guarded(version_command))
for _name, _command in (
    ("status", status_command),
    ("top", top_command),
    ("sql", sql_command),
    ("import", import_command),
    ("export", export_command),
    ("changes", changes_command),
    ("log", log_command),
    ("check", check_command),
    ("info", info_command),
    ("checkpoint", checkpoint_command),
    ("backup", backup_command),
):
    _on_database(app, _name, _command)
app.command("restore", help=_help(restore_command))(guarded(restore_command))
app.command("spark", help=_help(spark_command), context_settings=SPARK_CONTEXT)(guarded(spark_command))

_tablespaces = typer.Typer(help=tablespaces.HELP, no_args_is_help=True)
for _name, _command in tablespaces.COMMANDS:
    _on_database(_tablespaces, _name, _command)
app.add_typer(_tablespaces, name="tablespace")

_snapshots = typer.Typer(help=snapshot.HELP, cls=snapshot.SnapshotGroup, no_args_is_help=True)
for _name, _command in snapshot.COMMANDS:
    _on_database(_snapshots, _name, _command)
_snapshots.command("list", help=_help(snapshot.list_command))(guarded(snapshot.list_command))
_snapshots.command("rescue", help=_help(rescue_command))(guarded(rescue_command))
app.add_typer(_snapshots, name="snapshot")

_backups = typer.Typer(help=backups.HELP, no_args_is_help=True)
for _name, _command in backups.COMMANDS:
    _backups.command(_name, help=_help(_command))(guarded(_command))
app.add_typer(_backups, name="backups")

_ledgers = typer.Typer(help=ledgers.HELP, no_args_is_help=True)
for _name, _command in ledgers.COMMANDS:
    _ledgers.command(_name, help=_help(_command))(guarded(_command))
app.add_typer(_ledgers, name="ledgers")

_admin = typer.Typer(help=admin.HELP, no_args_is_help=True)
for _name, _command in admin.COMMANDS:
    _admin.command(_name, help=_help(_command))(guarded(_command))
app.add_typer(_admin, name="admin")

_dev = typer.Typer(help=dev.HELP, no_args_is_help=True)
for _name, _command in dev.COMMANDS:
    _dev.command(_name, help=_help(_command))(guarded(_command))
app.add_typer(_dev, name="dev")

_drill = typer.Typer(help=drill.HELP, cls=drill.DrillGroup, no_args_is_help=True)
for _name, _command in drill.COMMANDS:
    _drill.command(_name, help=_help(_command))(guarded(_command))
app.add_typer(_drill, name="drill")
