"""The prompt of ``herdpy sql``: editing, history, completion, its status, and the loop around the shell.

Enter runs the text once its last statement is ended (by ``;``, or it is a backslash command) and begins a new
line until then, so a statement is edited as a whole. Ctrl-C clears the line, Ctrl-D leaves. History is one
file for all databases, ``$HERDPY_HISTORY`` or ``~/.local/state/herdpy/history``.

Completion goes by the place: tables after FROM and its like, columns after ``table.`` or ``alias.``, and
otherwise the columns of the tables that the statement names, all tables, and keywords. The status (who leads,
the read level, the lag) is asked for once for each prompt, by a query outside of any transaction; within one,
what was known before is shown. In a directory there is nobody else to lead, and nothing to be behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import SEARCH_BUFFER, EditingMode
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer

from herdpy.cli import schema, shell
from herdpy.cli.errors import database_error, print_note
from herdpy.cli.schema import TableInfo, folded
from herdpy.cli.shell import Quit, Shell, split

_KEYWORD_TEXT = """
    ALL ALTER AND ANALYZE AS ASC BEGIN BETWEEN BIGINT BOOLEAN BY BYTEA CASE CAST CHAR CHECK CHECKPOINT
    COALESCE COMMIT CONFLICT CONSTRAINT COUNT CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP DATE DEFAULT DELETE
    DESC DISTINCT DO DOUBLE DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FETCH FIRST FOR FROM FULL GROUP HAVING
    IF ILIKE IN INDEX INNER INSERT INTEGER INTERSECT INTERVAL INTO IS JOIN JSON KEY LAST LATERAL LEFT LIKE
    LIMIT MAX MIN NATURAL NOT NOTHING NULL NULLIF NULLS NUMERIC OFFSET ON OR ORDER OUTER OVER PARTITION
    PRECISION PRIMARY REAL RECURSIVE REFERENCES RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET SHOW
    SMALLINT SUM TABLE TEXT THEN TIME TIMESTAMP TIMESTAMPTZ TO TRUE TRUNCATE UNION UNIQUE UPDATE USING UUID
    VALUES VARCHAR VIEW WHEN WHERE WINDOW WITH AVG
"""
KEYWORDS = tuple(_KEYWORD_TEXT.split())

_WORD = re.compile(r"[\w$]*$")
_QUALIFIED = re.compile(r'("(?:[^"]|"")+"|\w+)\.\w*$')
_TABLE_NEXT = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|TRUNCATE|ON\s+(?=\w*$))\s+(?:[\w\".]+\s*,\s*)*\w*$", re.IGNORECASE
)
_NAMED = re.compile(
    r'\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+("(?:[^"]|"")+"|\w+)(?:\s+(?:AS\s+)?(\w+))?', re.IGNORECASE
)
_HERE = """
SELECT t.leader, n.node, r.lag_entries
FROM herdpy.tablespaces t
LEFT JOIN herdpy.nodes n ON n.is_here
LEFT JOIN herdpy.replicas r ON r.tablespace = t.name AND r.node = n.node
WHERE t.name = current_database()
"""
_LEVEL = "SHOW herdpy.read_level"
_MARKS = {"INTRANS": "*", "INERROR": "!"}


class SqlCompleter(Completer):
    """Completes SQL against the tables that ``tables()`` gives."""

    def __init__(self, tables: Callable[[], Iterable[TableInfo]]) -> None:
        self._tables = tables

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Offer what fits at the cursor; the whole text is looked at for the tables it names."""
        before = document.text_before_cursor
        stripped = before.lstrip()
        if stripped.startswith("\\"):
            yield from self._after_backslash(stripped)
            return
        found = _WORD.search(before)
        word = found.group() if found else ""
        for text, kind in self._candidates(before, document.text, word):
            yield Completion(text, -len(word), display_meta=kind)

    def _after_backslash(self, text: str) -> Iterable[Completion]:
        name, blank, rest = text.partition(" ")
        if not blank:
            for command, about in shell.SHELL_COMMANDS.items():
                if command.startswith(name):
                    yield Completion(command, -len(name), display_meta=about.help)
        elif name == "\\d":
            for table in self._tables():
                if table.name.startswith(rest):
                    yield Completion(table.name, -len(rest), display_meta="table")

    def _candidates(self, before: str, text: str, word: str) -> Iterable[tuple[str, str]]:
        tables = {table.name: table for table in self._tables()}
        named = _named_tables(text, tables)
        prefix = word.lower()
        qualified = _QUALIFIED.search(before)
        if qualified:
            table = named.get(folded(qualified[1])) or tables.get(folded(qualified[1]))
            for column in table.columns if table else ():
                if column.name.lower().startswith(prefix):
                    yield _shown(column.name), column.type
            return
        if _TABLE_NEXT.search(before):
            for name in tables:
                if name.lower().startswith(prefix):
                    yield _shown(name), "table"
            return
        if not word:
            return
        seen = set()
        for table in named.values():
            for column in table.columns:
                if column.name.lower().startswith(prefix) and column.name not in seen:
                    seen.add(column.name)
                    yield _shown(column.name), f"{table.name}, {column.type}"
        for name in tables:
            if name.lower().startswith(prefix):
                yield _shown(name), "table"
        lower = word.islower()
        for keyword in KEYWORDS:
            if keyword.lower().startswith(prefix):
                yield keyword.lower() if lower else keyword, "keyword"


def _named_tables(text: str, tables: dict[str, TableInfo]) -> dict[str, TableInfo]:
    """The tables a statement names, by name and by alias."""
    named = {}
    for found in _NAMED.finditer(text):
        table = tables.get(folded(found[1]))
        if table is not None:
            named[table.name] = table
            if found[2] and found[2].upper() not in KEYWORDS:
                named[found[2].lower()] = table
    return named


def _shown(name: str) -> str:
    """A name as it must be written: in quotes unless it is plain lower case."""
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


class StatusLine:
    """The status in a shell's prompt."""

    def __init__(self) -> None:
        self.shown = ""

    def renew(self, shell: Shell) -> None:
        """Ask again, unless the shell is in a transaction, or the prompt does not show it."""
        if shell.prompt != "status":
            self.shown = ""
        elif shell.transaction == "IDLE":
            self.shown = f" [{shell.interruptibly(lambda: _status(shell))}]"


def _status(shell: Shell) -> str:
    try:
        ((level,),) = _rows_of(shell, _LEVEL)
        if not shell.target.is_remote:
            return f"in this process, {level}"
        found = _rows_of(shell, _HERE)
    except Exception as error:
        if database_error(error) is None:
            raise
        return f"no status: {getattr(error, 'sqlstate', None) or type(error).__name__}"
    if not found or found[0][1] is None:
        return f"a server alone, {level}"
    leader, node, lag = found[0]
    here = "" if node == leader else f", here {node}"
    return f"leader {leader or 'none'}{here}, {level}, lag {'?' if lag is None else lag}"


def _rows_of(shell: Shell, sql: str) -> list[Any]:
    with shell.connection.execute(sql) as cursor:
        return list(cursor.fetchall())


def history_path() -> Path | None:
    """Where history is kept; None when ``HERDPY_HISTORY`` is set to nothing."""
    chosen = os.environ.get("HERDPY_HISTORY")
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "herdpy" / "history"


def prompt_text(shell: Shell, inside: str = "", *, first: bool = True, status: str = "") -> str:
    """The prompt: the database, its status, what the transaction is in, and what the text is in."""
    mark = _MARKS.get(shell.transaction, "")
    name = shell.target.name
    if first:
        return f"{name}{status}{mark}=> "
    return f"{name}{mark}{inside or '-'}> "


def run(shell: Shell, **io: Any) -> None:
    """Read and run statements until the end of input. ``io``: prompt_toolkit's input and output."""
    status = StatusLine()
    session = make_session(shell, status, **io)
    going_on = True
    while going_on:
        try:
            status.renew(shell)
            going_on = _once(session, shell)
        except KeyboardInterrupt:  # of the line being typed, or between two statements
            continue


def _once(session: PromptSession[str], shell: Shell) -> bool:
    """Read something and run it; False when that was the end."""
    try:
        text = session.prompt()
    except EOFError:
        print_note("bye")
        return False
    if text.strip().rstrip(";").lower() in ("quit", "exit"):
        return False
    try:
        shell.run_script(text)
    except Quit:
        return False
    return True


def make_session(shell: Shell, status: StatusLine | None = None, **io: Any) -> PromptSession[str]:
    """Build the prompt of a shell."""
    status = status or StatusLine()
    session: PromptSession[str] = PromptSession(
        message=lambda: prompt_text(shell, status=status.shown),
        multiline=True,
        history=_history(),
        completer=SqlCompleter(lambda: _tables(shell)),
        complete_while_typing=False,
        lexer=_lexer(),
        key_bindings=_bindings(),
        enable_open_in_editor=True,
        editing_mode=EditingMode.VI if os.environ.get("HERDPY_EDITING") == "vi" else EditingMode.EMACS,
        **io,
    )

    def continuation(width: int, line: int, wrapped: int) -> str:
        before = "\n".join(session.default_buffer.document.lines[:line])
        return prompt_text(shell, split(before).inside, first=False).rjust(width)

    session.prompt_continuation = continuation
    return session


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~has_focus(SEARCH_BUFFER) & ~completion_is_selected)
    def _enter(event: KeyPressEvent) -> None:
        """Run what is whole; otherwise go on in the next line."""
        buffer = event.current_buffer
        script = split(buffer.text)
        # A blank line, "quit" or a whole script is run; a statement without its semicolon goes on.
        if script.complete or script.rest.lower() in ("quit", "exit"):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def _tables(shell: Shell) -> list[schema.TableInfo]:
    """The tables, for completion: an error of the catalog must not take the prompt away."""
    try:
        return schema.tables(shell.connection)
    except Exception as error:
        if database_error(error) is None:
            raise
        return []


def _history() -> History:
    path = history_path()
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        print_note(f"history will not be saved: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _lexer() -> PygmentsLexer:
    from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]

    return PygmentsLexer(PostgresLexer)
