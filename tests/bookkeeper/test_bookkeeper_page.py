"""Every example of docs/bookkeeper.md runs, in order, on a cluster that the page itself starts.

Blocks with ``await`` run as they would at ``python -m asyncio``: all on one event loop, in one namespace.
What the page's tables list is compared with the source.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
from dataclasses import fields
from pathlib import Path

import pytest
import trustme

from herdpy import bookkeeper
from herdpy.bookkeeper import BookKeeperError, ClientSettings
from herdpy.zookeeper_access import IN_THE_CLEAR
from tests.docs.test_examples import Block, blocks_of, prints, run_console

PAGE = Path(__file__).parents[2] / "docs" / "bookkeeper.md"
TEXT = PAGE.read_text()


def run_block(block: Block, names: dict[str, object], runner: asyncio.Runner) -> str:
    """Run a Python block, on the loop if it awaits; what it printed."""
    code = compile(
        "\n" * (block.line - 1) + block.text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:

            async def main() -> None:
                await eval(code, names)

            runner.run(main())
        else:
            eval(code, names)
    return printed.getvalue()


def run_page(text: str, names: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the blocks of a page; how many there were."""
    blocks = blocks_of(text)
    ran = 0
    with asyncio.Runner() as runner, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(lambda: "bk" in names and runner.run(names["bk"].close()))
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block.language == "python":
                printed = run_block(block, names, runner)
                if following is not None and following.language == "output":
                    assert prints(following.text, printed), (
                        f"{PAGE.name}:{block.line} printed\n{printed}\ninstead of\n{following.text}"
                    )
            elif block.language == "console":
                monkeypatch.setenv("HERDPY_CLUSTER", names["cluster"].uri)
                run_console(block, PAGE)
            else:
                continue
            assert block.runs, f"line {block.line} is not run"
            ran += 1
    return ran


def test_every_example_runs(bookkeeper_cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("request_timeout_s", "connect_timeout_s"):  # a busy machine's bookies answer, in the end
        monkeypatch.setitem(ClientSettings.__init__.__kwdefaults__, name, 60.0)
    trustme.CA().cert_pem.write_to_path("ca.pem")
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        assert run_page(TEXT, names, monkeypatch) >= 20
    finally:
        if "cluster" in names:
            names["cluster"].stop()
    names["test_words_are_kept"](bookkeeper_cluster)


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose head begins with a word."""
    after = TEXT[TEXT.index(f"| {heading} |") :]
    lines = after[: after.index("\n\n")].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_errors_is_whole():
    classes = {
        name: one
        for name, one in vars(bookkeeper).items()
        if inspect.isclass(one) and issubclass(one, BookKeeperError) and one is not BookKeeperError
    }
    listed = {row[0].strip("`"): row[2] for row in table("error")}
    assert listed == {name: one.default_outcome.value for name, one in classes.items()}


def test_the_table_of_settings_is_whole():
    defaults = ClientSettings()
    listed = {row[0].strip("`"): row[1] for row in table("setting")}
    assert listed == {one.name: shown(getattr(defaults, one.name)) for one in fields(defaults)}


def shown(value: object) -> str:
    """A default as the page writes it."""
    if value is IN_THE_CLEAR:
        return "in the clear"
    if isinstance(value, int):
        return f"{value >> 20} MiB" if value >= 1 << 20 and value % (1 << 20) == 0 else f"{value:,}"
    return str(value)


def test_every_digest_and_every_command_is_listed():
    from herdpy.cli.ledgers import COMMANDS

    assert {row[0].strip("`") for row in table("`DigestType`")} == {one.name for one in bookkeeper.DigestType}
    commands = {re.match(r"`herdpy ledgers ([\w-]+)", row[0])[1] for row in table("command")}
    assert commands == {name for name, _ in COMMANDS}


@pytest.mark.parametrize(
    "page",
    [
        "```python\nawait asyncio.sleep(0)\nprint(1)\n```\n```output\n2\n```\n",
        "```python\nraise ValueError\n```\n",
        "```python\nawait nothing\n```\n",
        "<!-- not run: why -->\n```python\n1\n```\n",
    ],
)
def test_the_runner_sees_what_is_wrong(page, monkeypatch):
    with pytest.raises((AssertionError, ValueError, NameError)):
        run_page(page, {"asyncio": asyncio}, monkeypatch)
