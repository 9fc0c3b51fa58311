"""The prompt: editing over several lines, completion, Ctrl-C, history; once through a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from herdpy.cli import repl, schema, target
from herdpy.cli.repl import SqlCompleter
from herdpy.cli.shell import Shell
from tests.cli.processes import command, environment

ENTER, TAB, CONTROL_C, CONTROL_D = "\r", "\t", "\x03", "\x04"


@pytest.fixture
def shell(db, tmp_path, monkeypatch):
    monkeypatch.setenv("HERDPY_HISTORY", str(tmp_path / "state" / "history"))
    found = target.parse(str(db))
    with open(tmp_path / "out", "w+") as out:
        shell = Shell(target.connect(found, autocommit=True), found, out=out, _screen=out)
        yield shell
        shell.close()


def said(shell):
    shell.out.flush()
    shell.out.seek(0)
    return shell.out.read()


def typed(shell, *keys):
    """Type into the prompt until it ends; each piece when the prompt has taken the one before."""
    with create_pipe_input() as keyboard:
        keyboard.send_text("".join(keys))
        repl.run(shell, input=keyboard, output=DummyOutput())


def test_statements_of_several_lines_run_when_they_end(shell):
    typed(shell, "SELECT 1 AS one", ENTER, ", ';' AS two", ENTER, ";", ENTER, "\\q", ENTER)
    assert "│ one │ two │" in said(shell)
    assert said(shell).endswith("(1 row)\n")


def test_control_c_clears_the_line_and_control_d_leaves(shell):
    typed(shell, "SELECT 'never", CONTROL_C, "SELECT 2 AS two;", ENTER, CONTROL_D)
    assert "│ two │" in said(shell)
    assert "never" not in said(shell)


def test_tab_completes_names(shell, monkeypatch):
    shell.connection.execute("CREATE TABLE departures (carrier TEXT PRIMARY KEY)")
    shell.connection.execute("INSERT INTO departures VALUES ('AA')")
    make = repl.make_session
    with create_pipe_input() as keyboard:

        def type_on(buffer):
            if buffer.text == "SELECT carrier FROM departures":
                keyboard.send_text(";" + ENTER + "\\q" + ENTER)

        def begin(*args, **kwargs):
            session = make(*args, **kwargs)
            session.default_buffer.on_text_changed += type_on
            return session

        monkeypatch.setattr(repl, "make_session", begin)
        keyboard.send_text("SELECT carrier FROM depa" + TAB)
        repl.run(shell, input=keyboard, output=DummyOutput())
    assert "│ AA      │" in said(shell)


def test_history_is_kept_in_a_file_of_the_user_alone(shell, tmp_path):
    typed(shell, "SELECT 3 AS three;", ENTER, "quit", ENTER)
    path = tmp_path / "state" / "history"
    assert "+SELECT 3 AS three;" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    shell.out.truncate(0)
    typed(shell, "\x1b[A\x1b[A", ENTER, "\\q", ENTER)  # up, up
    assert "three" in said(shell)


def test_prompt_shows_the_transaction_and_what_is_open(shell):
    assert repl.prompt_text(shell) == "db=> "
    shell.run_script("BEGIN")
    assert repl.prompt_text(shell) == "db*=> "
    shell.run_script("SELECT 1/0")
    assert repl.prompt_text(shell) == "db!=> "
    assert repl.prompt_text(shell, "'", first=False) == "db!'> "
    shell.run_script("ROLLBACK")
    assert repl.prompt_text(shell, first=False) == "db-> "


def test_an_error_leaves_the_prompt_usable(shell, capsys):
    typed(shell, "SELECT 1/0; SELECT 7 AS seven;", ENTER, "SELECT 8 AS eight;", ENTER, "\\q", ENTER)
    assert "22012" in capsys.readouterr().err
    assert "seven" not in said(shell)  # what was entered at once stops at its first error
    assert "eight" in said(shell)


def test_control_c_cancels_the_statement_and_not_the_shell(shell, capsys):
    running = threading.Event()
    release = threading.Event()
    cancelled = []

    class Slow:
        """Stands in for a statement that takes long, and for the connection that can cancel it."""

        def cancel(self):
            cancelled.append(True)
            release.set()

    def work():
        running.set()
        assert release.wait(30)
        return "the answer"

    def press():
        running.wait(30)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    real, shell.connection = shell.connection, Slow()
    presser = threading.Thread(target=press)
    presser.start()
    try:
        assert shell.interruptibly(work) == "the answer"
    finally:
        presser.join()
        shell.connection = real
    assert cancelled
    assert "Cancel request sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("SELECT * FROM f", {"flights"}, {"FROM", "carrier"}),
        ("SELECT * FROM flights f JOIN ", {"flights", "airlines", '"Odd Name"'}, {"carrier"}),
        ("SELECT f.| FROM flights f", {"carrier", "flight"}, {"flights"}),
        ("SELECT * FROM flights WHERE car", {"carrier"}, {"flights"}),
        ("sel", {"select"}, {"SELECT"}),
        ("SEL", {"SELECT"}, {"select"}),
        ("\\ti", {"\\timing"}, {"\\d"}),
        ("\\d air", {"airlines"}, {"flights"}),
        ("SELECT 1 ", set(), {"SELECT"}),
    ],
)
def test_completions(shell, text, wanted, unwanted):
    shell.run_script(
        "CREATE TABLE flights (carrier TEXT, flight INTEGER); CREATE TABLE airlines (carrier TEXT);"
        'CREATE TABLE "Odd Name" (x INTEGER)'
    )
    tables = schema.tables(shell.connection)
    before, _, after = text.partition("|")
    document = Document(before + after, len(before))
    offered = {c.text for c in SqlCompleter(lambda: tables).get_completions(document, CompleteEvent())}
    assert wanted <= offered
    assert not unwanted & offered


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, arguments, env):
        self.master, slave = pty.openpty()
        # The terminal becomes the controlling one, so that Ctrl-C there is a signal.
        take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        begin = [sys.executable, "-c", take + "os.execv(sys.argv[1], sys.argv[1:])", *arguments]
        self.process = subprocess.Popen(
            begin, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def expect(self, pattern, timeout_s=60.0):
        """Read until ``pattern`` is on the screen; what comes after it is for the next call."""
        while (found := re.search(pattern, self.text)) is None:
            assert self.read(timeout_s), f"waited for {pattern!r}, and there was {self.text!r}"
        self.text = self.text[found.end() :]

    def read(self, timeout_s):
        """Take what comes within the time; False when nothing does."""
        ready, _, _ = select.select([self.master], [], [], timeout_s)
        if ready:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:  # the process closed its end
                raise AssertionError(f"the shell ended after {self.text!r}") from None
        return bool(ready)

    def send(self, text):
        os.write(self.master, text.encode())

    def close(self):
        os.close(self.master)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def test_a_real_terminal(db, tmp_path):
    env = environment(tmp_path, PROMPT_TOOLKIT_NO_CPR="1", EDITOR="true")
    terminal = Terminal(command("sql", db), env)
    try:
        terminal.expect(r"a new database in ")
        terminal.expect(r"db=>")
        terminal.send("SELECT 40 +\r2 AS answer;\r")
        terminal.expect(r"answer")
        terminal.expect(r"42")
        terminal.expect(r"Time: [0-9.]+ ms")
        terminal.expect(r"db=>")
        # Of so many rows that it is ended by Ctrl-C, and by nothing else on any machine.
        rows = "generate_series(1, 1000000)"
        terminal.send(f"SELECT count(*) FROM {rows} a, {rows} b, {rows} c;\r")
        terminal.expect(r"c;")
        while "57014" not in terminal.text:  # again, if it came before the statement had begun
            terminal.send(CONTROL_C)
            until = time.monotonic() + 2
            while "57014" not in terminal.text and (left := until - time.monotonic()) > 0:
                terminal.read(left)
        terminal.expect(r"57014")
        terminal.expect(r"db=>")
        terminal.send("SELECT 6 * 7 AS still;\r")
        # The answer first: the prompt is also drawn again while one types, and Ctrl-D after that, but
        # before the next prompt, would be the terminal's to read.
        terminal.expect(r"42")
        terminal.expect(r"Time: [0-9.]+ ms")
        terminal.expect(r"db=>")
        terminal.send("\x04")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()
