"""Backslash commands of the shell, named as psql names them.

Each is one function over the :class:`~herdpy.cli.shell.Shell`; the table at the end is what ``\\?``
prints and what completion offers.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy.cli import schema
from herdpy.cli.errors import CliError, tell
from herdpy.cli.output import Format, write_table
from herdpy.cli.prompt import STYLES

if TYPE_CHECKING:
    from herdpy.cli.shell import Shell


class Quit(Exception):  # noqa: N818 - a signal to whoever reads the input
    """The rest of the input is not to be run."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A backslash command: its arguments, what it does, and the function that does it."""

    arguments: str
    help: str
    run: Callable[[Shell, list[str]], bool]


def run(shell: Shell, text: str) -> bool:
    """Run one backslash command; False when what it ran failed, CliError when it is misused."""
    try:
        name, *arguments = shlex.split(text.rstrip(";").replace("\\", "\\\\", 1))
    except ValueError as error:
        raise CliError(f"{text}: {error}") from error
    command = COMMANDS.get(name)
    if command is None:
        raise CliError(f"there is no command {name}", hint="\\? lists them.")
    most = len(command.arguments.split())
    if len(arguments) > most:
        raise CliError(f"usage: {name} {command.arguments}".rstrip())
    return command.run(shell, arguments)


def _quit(shell: Shell, arguments: list[str]) -> bool:
    raise Quit


def _help(shell: Shell, arguments: list[str]) -> bool:
    width = max(len(f"{name} {command.arguments}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        shell.out.write(f"  {f'{name} {command.arguments}':<{width}}  {command.help}\n")
    shell.out.write("A statement ends with a semicolon and may have many lines. Ctrl-C cancels it.\n")
    return True


def _describe(shell: Shell, arguments: list[str]) -> bool:
    if not arguments:
        return _tables(shell, [])
    table = schema.table(shell.connection, arguments[0].rstrip(";"))
    shell.out.write(f'Table "{table.label}"\n')
    rows = [(c.name, c.type, "" if c.nullable else "not null", c.default or "") for c in table.columns]
    write_table(["Column", "Type", "Nullable", "Default"], rows, shell.out)
    if table.key:
        shell.out.write(f'Primary key: "{table.key_name}" ({", ".join(table.key_text)})\n')
    else:
        shell.out.write("Primary key: none declared; a hidden one keeps the rows apart\n")
    for index in table.indexes:
        shell.out.write(
            f'Index: "{index.name}" {"UNIQUE " if index.unique else ""}({", ".join(index.parts)})\n'
        )
    for check in table.checks:
        shell.out.write(f'Check: "{check.name}" {check.condition}\n')
    return True


def _tables(shell: Shell, arguments: list[str]) -> bool:
    tables = schema.tables(shell.connection)
    if not tables:
        shell.out.write("There are no tables.\n")
        return True
    rows = [(t.label, len(t.columns), ", ".join(t.key_text) or None, len(t.indexes)) for t in tables]
    write_table(["Table", "Columns", "Primary key", "Indexes"], rows, shell.out)
    return True


def _indexes(shell: Shell, arguments: list[str]) -> bool:
    rows = [
        (index.name, table.label, "yes" if index.unique else "no", ", ".join(index.parts))
        for table in schema.tables(shell.connection)
        for index in (schema.IndexInfo(table.key_name, True, table.key_text), *table.indexes)
        if index.parts
    ]
    if not rows:
        shell.out.write("There are no indexes.\n")
        return True
    write_table(["Index", "Table", "Unique", "Columns"], rows, shell.out)
    return True


def _databases(shell: Shell, arguments: list[str]) -> bool:
    write_table(["Database", "Directory"], [(shell.target.name, str(shell.target.path))], shell.out)
    return True


def _expanded(shell: Shell, arguments: list[str]) -> bool:
    shell.expanded = _switch("\\x", arguments, shell.expanded)
    tell(f"Expanded display is {'on' if shell.expanded else 'off'}.")
    return True


def _timing(shell: Shell, arguments: list[str]) -> bool:
    shell.timing = _switch("\\timing", arguments, shell.timing)
    tell(f"Timing is {'on' if shell.timing else 'off'}.")
    return True


def _switch(name: str, arguments: list[str], now: bool) -> bool:
    if not arguments:
        return not now
    if arguments[0] not in ("on", "off"):
        raise CliError(f"usage: {name} [on|off]")
    return arguments[0] == "on"


def _format(shell: Shell, arguments: list[str]) -> bool:
    if arguments:
        if arguments[0] not in list(Format):
            raise CliError(f"formats are {', '.join(Format)}")
        shell.format = Format(arguments[0])
    tell(f"Output format is {shell.format}.")
    return True


def _limit(shell: Shell, arguments: list[str]) -> bool:
    if arguments:
        if not arguments[0].isdigit():
            raise CliError("usage: \\limit ROWS")
        shell.limit = int(arguments[0])
    tell(f"Tables show {f'at most {shell.limit:,} rows' if shell.limit else 'every row'}.")
    return True


def _include(shell: Shell, arguments: list[str]) -> bool:
    if not arguments:
        raise CliError("usage: \\i FILE")
    return shell.run_file(Path(arguments[0]).expanduser())


def _output(shell: Shell, arguments: list[str]) -> bool:
    shell.send_to(Path(arguments[0]).expanduser() if arguments else None)
    return True


def _edit(shell: Shell, arguments: list[str]) -> bool:
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="herdpy-") as directory:
        path = Path(directory) / "query.sql"
        path.write_text(shell.last, encoding="utf-8")
        try:
            subprocess.run([*editor, str(path)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CliError(f"cannot edit with {editor[0]}: {error}", hint="Set EDITOR.") from error
        text = path.read_text(encoding="utf-8").strip()
    return shell.run_script(text) if text else True


def _connection(shell: Shell, arguments: list[str]) -> bool:
    from herdpy.dbapi.url import shown

    shell.out.write(f"{shown(shell.target.url)} (transaction: {shell.transaction})\n")
    return True


def _prompt(shell: Shell, arguments: list[str]) -> bool:
    chosen = arguments[0] if arguments else ("plain" if shell.prompt == "status" else "status")
    if chosen not in STYLES:
        raise CliError(f"there is no prompt {chosen}", hint=f"There are {', '.join(STYLES)}.")
    shell.prompt = chosen
    return True


COMMANDS: dict[str, ShellCommand] = {
    "\\d": ShellCommand("[TABLE]", "list tables, or describe one", _describe),
    "\\dt": ShellCommand("", "list tables", _tables),
    "\\di": ShellCommand("", "list indexes", _indexes),
    "\\l": ShellCommand("", "list databases", _databases),
    "\\x": ShellCommand("[on|off]", "one line a column instead of one line a row", _expanded),
    "\\timing": ShellCommand("[on|off]", "show how long each statement took", _timing),
    "\\format": ShellCommand("[NAME]", "table, csv, json, jsonl or arrow", _format),
    "\\limit": ShellCommand("[ROWS]", "show at most this many rows of a table; 0 shows all", _limit),
    "\\i": ShellCommand("FILE", "run the statements of a file", _include),
    "\\o": ShellCommand("[FILE]", "send rows to a file; without one, back to the screen", _output),
    "\\e": ShellCommand("", "edit the last statement with $EDITOR and run it", _edit),
    "\\prompt": ShellCommand(
        "[STYLE]", "status: show the leader, the read level and the lag; plain", _prompt
    ),
    "\\conninfo": ShellCommand("", "what this shell is connected to", _connection),
    "\\?": ShellCommand("", "this list", _help),
    "\\q": ShellCommand("", "quit (so does Ctrl-D)", _quit),
}
