"""Statements and backslash commands, cut out of a text, run and shown: for the prompt, scripts and ``-c``."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from herdpy.cli import schema
from herdpy.cli.errors import CliError, database_error, print_note, render
from herdpy.cli.output import Format, write_result, write_table
from herdpy.cli.target import TargetDatabase

# Everything in which a semicolon does not count, and the semicolon itself. A string that is not
# closed matches as far as the text goes, without its closing quote.
_TOKEN = re.compile(
    r"""
      (?P<escape> (?<![\w$])[eE]'(?:[^'\\]|''|\\.)*(?P<escape_end>')? )
    | (?P<string> '(?:[^']|'')*(?P<string_end>')? )
    | (?P<name>   "(?:[^"]|"")*(?P<name_end>")? )
    | (?<![\w$])\$(?P<tag>[^\W\d]\w*)?\$
    | (?P<line>   --[^\n]* )
    | (?P<block>  /\* )
    | (?P<end>    ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*")


@dataclass(frozen=True, slots=True)
class StatementText:
    """A statement without its semicolon, or a backslash command; ``line`` is where it begins, from 1."""

    text: str
    line: int
    meta: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Whole pieces, then what was begun and not ended.

    Attributes:
        rest: the text after the last whole piece, without blanks and comments before it.
        rest_line: the line on which it begins, from 1.
        inside: what the end of the text is in: a quote ``'`` or ``"``, ``$`` for a dollar quote, ``*``
            for a comment, or "" for none.
    """

    pieces: tuple[StatementText, ...]
    rest: str
    rest_line: int
    inside: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing is left open, so that the whole text can be run."""
        return not self.rest and not self.inside


def split(text: str) -> Script:
    """Split ``text`` into pieces; never fails."""
    pieces: list[StatementText] = []
    at = 0
    while True:
        begin = _after_blanks(text, at)
        line = text.count("\n", 0, begin) + 1
        if begin == len(text):
            return Script(tuple(pieces), "", line)
        if text[begin] == "\\":
            stop = text.find("\n", begin)
            stop = len(text) if stop < 0 else stop
            pieces.append(StatementText(text[begin:stop].strip(), line, meta=True))
            at = stop
            continue
        end, inside = _end_of_statement(text, begin)
        if end is None:
            return Script(tuple(pieces), text[begin:].rstrip(), line, inside)
        if end > begin:
            pieces.append(StatementText(text[begin:end].rstrip(), line))
        at = end + 1


def _after_blanks(text: str, at: int) -> int:
    """Return where the next thing begins that is neither blank nor a whole comment."""
    while True:
        found = _BLANK.match(text, at)
        at = found.end() if found else at
        if not text.startswith("/*", at):
            return at
        after = _end_of_comment(text, at + 2)
        if after is None:
            return at
        at = after


def _end_of_statement(text: str, at: int) -> tuple[int | None, str]:
    """Return where the semicolon stands, or None and what the end of the text is inside of."""
    while True:
        token = _TOKEN.search(text, at)
        if token is None:
            return None, ""
        at = token.end()
        if token["end"]:
            return token.start(), ""
        if (token["escape"] and not token["escape_end"]) or (token["string"] and not token["string_end"]):
            return None, "'"
        if token["name"] and not token["name_end"]:
            return None, '"'
        if token["block"]:
            after = _end_of_comment(text, at)
            if after is None:
                return None, "*"
            at = after
        elif token.group().startswith("$"):
            close = text.find(token.group(), at)
            if close < 0:
                return None, "$"
            at = close + len(token.group())


def _end_of_comment(text: str, at: int) -> int | None:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


T = TypeVar("T")

_NESTING = 16
_LOOK_S = 0.25
PROMPT_STYLES = ("plain", "status")


@dataclass
class Shell:
    """What runs pieces of a script against one connection.

    Attributes:
        out: where rows go; everything else goes to standard error.
        quiet: no command tags ("INSERT 0 1") and row counts after results.
        limit: show at most this many rows of a table; 0 is all.
        stop: whether a script ends at its first error.
        prompt: "plain", or "status": with the leader, the read level and the lag.
        failures: how many pieces failed.
        last: the statement that ran last, for editing.
    """

    connection: Any
    target: TargetDatabase
    out: IO[str] = field(default_factory=lambda: sys.stdout)
    format: Format = Format.TABLE
    header: bool = True
    expanded: bool = False
    timing: bool = False
    quiet: bool = False
    limit: int = 0
    stop: bool = True
    prompt: str = "plain"
    failures: int = 0
    last: str = ""
    _depth: int = 0
    _file: IO[str] | None = None
    _screen: IO[str] = field(default_factory=lambda: sys.stdout)
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "herdpy-statement"))

    def close(self) -> None:
        """End the worker and close the connection."""
        self.send_to(None)
        self._worker.shutdown()
        self.connection.close()

    @property
    def transaction(self) -> str:
        """ "IDLE", "INTRANS" in a transaction, "INERROR" in a failed one."""
        return str(self.connection.info.transaction_status.name)

    def run_script(self, text: str, name: str | None = None) -> bool:
        """Run every piece of ``text``; False when one failed. A last statement needs no semicolon."""
        script = split(text)
        pieces = list(script.pieces)
        if script.rest:
            pieces.append(StatementText(script.rest, script.rest_line))
        good = True
        for piece in pieces:
            where = f"{name}:{piece.line}" if name else None
            if not self.run(piece, where):
                good = False
                if self.stop:
                    return False
        return good

    def run(self, piece: StatementText, where: str | None = None) -> bool:
        """Run one piece and show its result or its error; False when it failed."""
        try:
            if piece.meta:
                return run_backslash_command(self, piece.text)
            self.execute(piece.text)
        except BrokenPipeError:
            raise  # whoever read the rows has had enough
        except CliError as error:
            print_note(render(error, where=where))
        except Exception as error:
            if database_error(error) is None and not isinstance(error, OSError):
                raise
            print_note(render(error, piece.text, where))
        else:
            return True
        self.failures += 1
        return False

    def run_file(self, path: Path) -> bool:
        """Run a script from a file; CliError when it cannot be read, or scripts run each other for ever."""
        if self._depth >= _NESTING:
            raise CliError(f"scripts are nested more than {_NESTING} deep at {path}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"cannot read {path}: {error}") from error
        self._depth += 1
        try:
            return self.run_script(text, str(path))
        finally:
            self._depth -= 1

    def execute(self, sql: str, parameters: tuple[object, ...] = ()) -> None:
        """Run one statement and show what it gives; raises what the driver raises."""
        self.last = sql
        began = time.perf_counter()
        with contextlib.closing(self.connection.cursor()) as cursor:
            self.interruptibly(lambda: cursor.execute(sql, parameters) if parameters else cursor.execute(sql))
            self._show(cursor)
        if self.timing:
            print_note(f"Time: {(time.perf_counter() - began) * 1000:.3f} ms")
        self._show_notifications()

    def _show_notifications(self) -> None:
        """Print what the session has heard by now, as psql does; to standard error in other formats."""
        for one in self.connection.notifies(timeout_s=0):
            said = f' with payload "{one.payload}"' if one.payload else ""
            text = f'Asynchronous notification "{one.channel}"{said} received from server process with PID '
            text += f"{one.pid}."
            if one.missed:
                print_note("The session is a new one: it may have missed notifications.")
            elif self.format is Format.TABLE:
                self.out.write(f"{text}\n")
                self.out.flush()
            else:
                print_note(text)

    def _show(self, cursor: Any) -> None:
        if cursor.description is None:
            if not self.quiet and self.format is Format.TABLE:
                tag = getattr(cursor, "statusmessage", None)
                self.out.write(f"{tag}\n" if tag else f"OK, {max(cursor.rowcount, 0)} rows\n")
                self.out.flush()
            return
        count = write_result(
            cursor, self.format, self.out, header=self.header, expanded=self.expanded, limit=self.limit
        )
        if not self.quiet and self.format is Format.TABLE:
            rest = f", the first {self.limit:,} shown: \\limit 0 shows all" if 0 < self.limit < count else ""
            self.out.write(f"({count} row{'' if count == 1 else 's'}{rest})\n")
        self.out.flush()

    def interruptibly(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the worker; Ctrl-C cancels the running statement, whose error then comes."""

        def cancel(number: int, frame: object) -> None:
            print_note("Cancel request sent")
            self.connection.cancel()

        if threading.current_thread() is not threading.main_thread():
            return self._worker.submit(work).result()
        before = signal.signal(signal.SIGINT, cancel)
        try:
            running = self._worker.submit(work)
            # A signal that comes just before a wait does not end it: look again now and then.
            while not wait([running], timeout=_LOOK_S).done:
                pass
            return running.result()
        finally:
            signal.signal(signal.SIGINT, before)

    def send_to(self, path: Path | None) -> None:
        """Send rows to a file from now on; None: back to where they went at first."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self.out = self._screen
        if path is None:
            return
        try:
            self._file = path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise CliError(f"cannot write {path}: {error.strerror}") from error
        self._screen, self.out = self.out, self._file


class Quit(Exception):  # noqa: N818 - a signal to whoever reads the input
    """The rest of the input is not to be run."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A backslash command: its arguments, what it does, and the function that does it."""

    arguments: str
    help: str
    run: Callable[[Shell, list[str]], bool]


def run_backslash_command(shell: Shell, text: str) -> bool:
    """Run one backslash command; False when what it ran failed, CliError when it is misused."""
    try:
        name, *arguments = shlex.split(text.rstrip(";").replace("\\", "\\\\", 1))
    except ValueError as error:
        raise CliError(f"{text}: {error}") from error
    command = SHELL_COMMANDS.get(name)
    if command is None:
        raise CliError(f"there is no command {name}", hint="\\? lists them.")
    most = len(command.arguments.split())
    if len(arguments) > most:
        raise CliError(f"usage: {name} {command.arguments}".rstrip())
    return command.run(shell, arguments)


def _quit(shell: Shell, arguments: list[str]) -> bool:
    raise Quit


def _help(shell: Shell, arguments: list[str]) -> bool:
    width = max(len(f"{name} {command.arguments}") for name, command in SHELL_COMMANDS.items())
    for name, command in SHELL_COMMANDS.items():
        shell.out.write(f"  {f'{name} {command.arguments}':<{width}}  {command.help}\n")
    shell.out.write("A statement ends with a semicolon and may have many lines. Ctrl-C cancels it.\n")
    return True


def _describe(shell: Shell, arguments: list[str]) -> bool:
    if not arguments:
        return _list_tables(shell, [])
    table = schema.table(shell.connection, arguments[0].rstrip(";"))
    shell.out.write(f'Table "{table.label}"\n')
    rows = [(c.name, c.type, "" if c.nullable else "not null", c.default or "") for c in table.columns]
    write_table(["Column", "Type", "Nullable", "Default"], rows, shell.out)
    if table.key:
        shell.out.write(f'Primary key: "{table.key_name}" ({", ".join(table.key_text)})\n')
    else:
        shell.out.write("Primary key: none declared; a hidden one keeps the rows apart\n")
    if table.partition_key:
        shell.out.write(f"Partitioned: {table.partition_key}; its rows are in its partitions\n")
    if table.partition_of:
        shell.out.write(f"Partition of: {table.partition_of}\n")
    for index in table.indexes:
        shell.out.write(
            f'Index: "{index.name}" {"UNIQUE " if index.unique else ""}({", ".join(index.parts)})\n'
        )
    for check in table.checks:
        shell.out.write(f'Check: "{check.name}" {check.condition}\n')
    return True


def _list_tables(shell: Shell, arguments: list[str]) -> bool:
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
    print_note(f"Expanded display is {'on' if shell.expanded else 'off'}.")
    return True


def _timing(shell: Shell, arguments: list[str]) -> bool:
    shell.timing = _switch("\\timing", arguments, shell.timing)
    print_note(f"Timing is {'on' if shell.timing else 'off'}.")
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
    print_note(f"Output format is {shell.format}.")
    return True


def _limit(shell: Shell, arguments: list[str]) -> bool:
    if arguments:
        if not arguments[0].isdigit():
            raise CliError("usage: \\limit ROWS")
        shell.limit = int(arguments[0])
    print_note(f"Tables show {f'at most {shell.limit:,} rows' if shell.limit else 'every row'}.")
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
    if chosen not in PROMPT_STYLES:
        raise CliError(f"there is no prompt {chosen}", hint=f"There are {', '.join(PROMPT_STYLES)}.")
    shell.prompt = chosen
    return True


SHELL_COMMANDS: dict[str, ShellCommand] = {
    "\\d": ShellCommand("[TABLE]", "list tables, or describe one", _describe),
    "\\dt": ShellCommand("", "list tables", _list_tables),
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
