"""``herdpy sql``: a prompt, or scripts from ``-c``, ``-f`` and standard input."""

from __future__ import annotations

import contextlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from herdpy.cli import target
from herdpy.cli.errors import FAILED, USAGE, CliError, print_note
from herdpy.cli.output import Format
from herdpy.cli.target import Place

if TYPE_CHECKING:
    from herdpy.cli.shell import Shell

_SHOWN_ROWS = 1_000
_CommandsOption = Annotated[
    list[str] | None,
    typer.Option("-c", "--command", metavar="SQL", help="Run this and end; may be given several times."),
]
_FilesOption = Annotated[
    list[Path] | None,
    typer.Option("-f", "--file", metavar="FILE", help="Run a script and end; - is standard input."),
]
_FormatOption = Annotated[Format, typer.Option("--format", help="How rows are shown.")]
_JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
_OutputOption = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write rows to a file.")
]
_HeaderOption = Annotated[bool, typer.Option("--header/--no-header", help="A line of column names.")]
_ExpandedOption = Annotated[bool, typer.Option("-x", "--expanded", help="One line a column.")]
_TimingOption = Annotated[bool, typer.Option("--timing", help="Show how long each statement takes.")]
_QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Rows only: no tags, no row counts.")]
_SingleTransactionOption = Annotated[
    bool, typer.Option("-1", "--single-transaction", help="All of it or nothing.")
]
_KeepGoingOption = Annotated[
    bool, typer.Option("--keep-going", help="Go on after an error; the exit code is 1 all the same.")
]


class Prompt(StrEnum):
    """What the prompt shows."""

    PLAIN = "plain"
    STATUS = "status"


_PromptOption = Annotated[
    Prompt, typer.Option("--prompt", help="status: with the leader, the read level and the lag.")
]


def sql_command(
    url: Place,
    commands: _CommandsOption = None,
    files: _FilesOption = None,
    format: _FormatOption = Format.TABLE,
    json: _JsonOption = False,
    output: _OutputOption = None,
    header: _HeaderOption = True,
    expanded: _ExpandedOption = False,
    timing: _TimingOption = False,
    quiet: _QuietOption = False,
    single_transaction: _SingleTransactionOption = False,
    keep_going: _KeepGoingOption = False,
    prompt: _PromptOption = Prompt.PLAIN,
) -> None:
    """Run SQL: at a prompt, or from the command line, files or standard input.

    The directory is made when there is none. At the prompt, a statement ends with a semicolon, \\\\?
    lists the backslash commands, Tab completes, Ctrl-C cancels what runs.

    \b
    Examples:
      herdpy sql ./flights
      herdpy sql herdpy://ann@db1,db2/flights --prompt status
      herdpy sql --profile flights
      herdpy sql ./flights --format csv -c "SELECT count(*) FROM flights"
      herdpy sql ./flights -1 -f schema.sql -f data.sql
      echo "SELECT 1" | herdpy sql ./flights --json
    """
    if json:
        format = Format.JSON
    found = target.parse(url, servers=True)
    interactive = not commands and not files and sys.stdin.isatty()
    if output is not None and interactive:
        raise CliError("-o is for -c, -f and standard input", hint="At the prompt, \\o FILE.", code=USAGE)
    texts = _texts(commands or [], files or []) if not interactive else []
    fresh = not found.exists
    connection = target.connect(found, autocommit=True)
    from herdpy.cli.shell import Shell

    shell = Shell(
        connection,
        found,
        format=format,
        header=header,
        expanded=expanded,
        timing=timing or interactive,
        quiet=quiet,
        limit=_SHOWN_ROWS if interactive else 0,
        stop=not keep_going or single_transaction,
        prompt=prompt.value,
    )
    try:
        if interactive:
            _prompt(shell, fresh)
        else:
            _run_scripts(shell, texts, output, single_transaction=single_transaction)
    finally:
        shell.close()


def _prompt(shell: Shell, fresh: bool) -> None:
    from herdpy import __version__
    from herdpy.cli import repl
    from herdpy.dbapi import url

    if shell.target.is_remote:
        print_note(f"HerdPy {__version__}: {shell.target.name} at {url.shown(shell.target.url)}")
    else:
        print_note(
            f"HerdPy {__version__}: {'a new database' if fresh else 'the database'} in {shell.target.path}"
        )
    print_note("Type \\? for help, \\q to quit.")
    repl.run(shell)


def _texts(commands: list[str], files: list[Path]) -> list[tuple[str, str | None]]:
    """The scripts and their names; read before the database is opened."""
    texts: list[tuple[str, str | None]] = [(command, None) for command in commands]
    for path in files or ([] if commands else [Path("-")]):
        try:
            if str(path) == "-":
                texts.append((sys.stdin.read(), "stdin" if files else None))
            else:
                texts.append((path.read_text(encoding="utf-8-sig"), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"cannot read {path}: {error}", code=USAGE) from error
    return texts


def _run_scripts(
    shell: Shell, texts: list[tuple[str, str | None]], output: Path | None, *, single_transaction: bool
) -> None:
    """Run them, their rows into ``output`` where there is one. Exit 1 when a statement failed."""
    from herdpy.cli.shell import Quit

    if output is not None:
        shell.send_to(output)
    with contextlib.suppress(Quit):
        if single_transaction:
            _run_in_one(shell, texts)
        else:
            _run_all(shell, texts)
    if shell.failures:
        raise typer.Exit(FAILED)


def _run_all(shell: Shell, texts: list[tuple[str, str | None]]) -> bool:
    """Whether all was good; what follows an error is not run where the shell stops at errors."""
    good = True
    for text, name in texts:
        good = shell.run_script(text, name) and good
        if not good and shell.stop:
            break
    return good


def _run_in_one(shell: Shell, texts: list[tuple[str, str | None]]) -> None:
    """All of it in a transaction, or nothing."""
    shell.connection.execute("BEGIN").close()
    if _run_all(shell, texts):
        shell.connection.commit()
    else:
        shell.connection.rollback()
        print_note("None of it was kept.")
