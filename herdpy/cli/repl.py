"""The prompt of ``herdpy sql``: editing, history, completion, and the loop around the shell.

Enter runs the text once its last statement is ended (by ``;``, or it is a backslash command) and
begins a new line until then, so a statement is edited as a whole. Ctrl-C clears the line, Ctrl-D
leaves. History is one file for all databases, ``$HERDPY_HISTORY`` or
``~/.local/state/herdpy/history``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import SEARCH_BUFFER, EditingMode
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer

from herdpy.cli import schema
from herdpy.cli.complete import SqlCompleter
from herdpy.cli.errors import database_error, tell
from herdpy.cli.meta import Quit
from herdpy.cli.prompt import StatusLine
from herdpy.cli.shell import Shell
from herdpy.cli.split import split

_MARKS = {"INTRANS": "*", "INERROR": "!"}


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
        tell("bye")
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
        tell(f"history will not be kept: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _lexer() -> PygmentsLexer:
    from pygments.lexers.sql import PostgresLexer  # type: ignore[import-untyped]

    return PygmentsLexer(PostgresLexer)
