"""Every example of README.md, docs/*.md and docs/tutorials/ runs, in order, each file in an empty directory.

What runs, and what it must print:

* ```` ```python ```` blocks, in one namespace per file. An ``output`` block right after one is what
  it prints. A block with ``>>>`` prompts is a doctest.
* ```` ```console ```` and ```` ```shell ```` blocks whose first line starts with ``$ herdpy``. Lines
  with ``$`` are commands (``>`` continues one), the lines after a command are what it prints.
* ```` ```sql ```` blocks, statement by statement, over one connection per file, which is not in a
  transaction unless the statements say so. The answers are what a ``result`` block right after it
  says: rows under their columns' names, or the error, and a blank line between two answers.
  Without one, no statement may fail.
* In expected output ``...`` stands for anything, and runs of blanks are alike.
* ``<!-- not run: why -->`` on the line above a block leaves it out.
* ``<!-- run by tests/... -->`` as a page's first line: its examples need more than a directory (a
  cluster), and that test runs them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import herdpy
from herdpy.cli.output import to_text
from herdpy_sql.parse import split

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "tutorials").glob("*.md"))]
RUN_ELSEWHERE = re.compile(r"<!-- run by (tests/[\w/]+\.py) -->\n")
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND_TIMEOUT_S = 120


@dataclass
class Block:
    """A fenced block: its language, text, and the line its text starts on (1-based)."""

    language: str
    text: str
    line: int
    runs: bool


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a Markdown text."""
    blocks: list[Block] = []
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        opening = re.match(r"( *)(`{3,})\s*([\w+-]*)", lines[number])
        number += 1
        if opening is None:
            continue
        indent, fence, language = opening.groups()
        start = number
        while number < len(lines) and lines[number].strip() != fence:
            number += 1
        assert number < len(lines), f"the block that opens on line {start} is not closed"
        text = "\n".join(line.removeprefix(indent) for line in lines[start:number]) + "\n"
        marked = start >= 2 and lines[start - 2].lstrip().startswith("<!-- not run:")
        blocks.append(Block(language, text, start + 1, not marked))
        number += 1
    return blocks


def prints(expected: str, got: str) -> bool:
    """Whether ``got`` is what was expected, by doctest's ellipsis and white space rules."""
    return doctest.OutputChecker().check_output(expected.strip() + "\n", got.strip() + "\n", LENIENT)


def run_python(block: Block, expected: str | None, names: dict[str, object], page: Path) -> None:
    """Run a Python block, with the page's own line numbers in tracebacks."""
    if re.search(r"^\s*>>> ", block.text, re.MULTILINE):
        test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
        test.globs = names
        report = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=LENIENT)
        runner.run(test, out=report.write, clear_globs=False)
        assert not runner.failures, report.getvalue()
        return
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    if expected is not None:
        assert prints(expected, printed.getvalue()), (
            f"{page.name}:{block.line} printed\n{printed.getvalue()}\ninstead of\n{expected}"
        )


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Pairs of a command and what it must print."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1] = (commands[-1][0] + line[2:], "")
        else:
            commands[-1] = (commands[-1][0], commands[-1][1] + line)
    return commands


def run_command(
    command: str, expected: str, where: str, environment: dict[str, str], timeout_s: float
) -> None:
    """One command; what it says is what the page has, and where that is nothing it ends with 0."""
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    shown = f"{where}: $ {command}\n{done.stdout}"
    if expected.strip():
        assert prints(expected, done.stdout), f"{shown}\ninstead of\n{expected}"
    else:
        assert done.returncode == 0, f"exit status {done.returncode} of {shown}"


def run_console(block: Block, page: Path) -> None:
    """Run the commands of a console block with this environment's programs."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    for command, expected in commands_of(block):
        run_command(command, expected, f"{page.name}:{block.line}", environment, COMMAND_TIMEOUT_S)


def run_sql(block: Block, expected: str | None, conn: herdpy.Connection, page: Path) -> None:
    """Run the statements of a block and compare their answers."""
    answers: list[str] = []
    for statement in split(block.text):
        try:
            cursor = conn.execute(statement.text)
        except herdpy.Error as error:
            if expected is None:
                raise
            answers.append(f"ERROR {error.sqlstate}: {error}")
            continue
        if cursor.description is not None:
            rows = [["NULL" if value is None else to_text(value) for value in row] for row in cursor]
            names = [column.name for column in cursor.description]
            answers.append("\n".join(map(" | ".join, [names, *rows])))
    given = "\n\n".join(answers)
    if expected is not None:
        assert prints(expected, given), f"{page.name}:{block.line} answered\n{given}\ninstead of\n{expected}"


def run_page(page: Path, programs: Sequence[str] = ("herdpy",)) -> int:
    """Run every example of a page in the working directory; how many there were.

    Args:
        programs: console blocks run that begin with one of these.
    """
    with contextlib.ExitStack() as stack:
        return _run_blocks(page, stack, tuple(f"$ {one}" for one in programs))


def _run_blocks(page: Path, stack: contextlib.ExitStack, beginnings: tuple[str, ...]) -> int:
    names: dict[str, object] = {"__name__": "__main__"}
    conn: herdpy.Connection | None = None
    blocks = blocks_of(page.read_text())
    ran = 0
    for number, block in enumerate(blocks):
        if not block.runs:
            continue
        following = blocks[number + 1] if number + 1 < len(blocks) else None
        if block.language == "python":
            output = following.text if following is not None and following.language == "output" else None
            run_python(block, output, names, page)
        elif block.language in ("console", "shell") and block.text.startswith(beginnings):
            run_console(block, page)
        elif block.language == "sql":
            if conn is None:
                conn = herdpy.connect(f"herdpy:{page.stem}-sql", autocommit=True)
                stack.callback(conn.close)
            result = following.text if following is not None and following.language == "result" else None
            run_sql(block, result, conn, page)
        else:
            continue
        ran += 1
    return ran


def runs_elsewhere(page: Path) -> Path | None:
    """The test that runs a page's examples, if it is not this one."""
    marked = RUN_ELSEWHERE.match(page.read_text())
    return ROOT / marked[1] if marked else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(page, tmp_path, monkeypatch):
    if (elsewhere := runs_elsewhere(page)) is not None:
        assert f'"{page.name}"' in elsewhere.read_text(), f"{elsewhere} does not run {page}"
        return
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_a_page_that_runs_elsewhere_names_its_test(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"<!-- run by tests/docs/test_examples.py -->\n{PAGE}")
    assert runs_elsewhere(page) == Path(__file__)
    page.write_text(f"{PAGE}<!-- run by tests/docs/test_examples.py -->\n")
    assert runs_elsewhere(page) is None


PAGE = """
```python
total = 40
print("it is", total + 2)
```
```output
it is ...2
```
<!-- not run: it would fail -->
```python
raise SystemExit
```
```python
>>> total
40
```
```console
$ herdpy --help
...Usage...
```
```sql
CREATE TABLE t (a INT);
SELECT 40 + 2 AS it, NULL::int AS no;
SELECT 1 / 0 AS no
```
```result
it | no
42 | NULL

ERROR 22012: division by zero
```
```text
SELECT
```
"""


def test_the_runner_runs_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("it is ...2", "it is ...3"),
        ("\n40\n", "\n41\n"),
        ("...Usage...", "...Sausage..."),
        ("<!-- not run: it would fail -->\n", ""),
        ("total = 40", "total = forty"),
        ("42 | NULL", "43 | NULL"),
        ("ERROR 22012", "ERROR 22013"),
        ("CREATE TABLE t", "CREATE TABLE t t"),
        ("SELECT 1 / 0", "SELECT 1 / 1"),
    ],
)
def test_the_runner_sees_what_is_wrong(tmp_path, monkeypatch, old, new):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    assert old in PAGE
    page.write_text(PAGE.replace(old, new))
    with pytest.raises((AssertionError, NameError, SystemExit, herdpy.Error)):
        run_page(page)


def test_a_failing_line_is_told_by_its_number_in_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nok = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 5
