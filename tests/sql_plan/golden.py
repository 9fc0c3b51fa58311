"""Golden scripts: statements with the answers they must give, readable as documentation.

A script is text in blocks that blank lines separate. Lines that start with ``>`` are one statement; the
lines under it are what it answers::

    > SELECT id, name FROM t WHERE id = $1
    with: 7
    id | name
    7 | Ada
    SELECT 1

Rows are in PostgreSQL's text form, NULL as NULL; the command tag ends them. An error is its SQLSTATE and
message. ``with:`` gives parameters as Python literals, separated by commas. Lines that start with ``#`` are
prose. ``#! differs`` says that PostgreSQL is known to answer the next statement in another way, and why.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))


@dataclass
class Block:
    """A statement with its expected answer, or prose."""

    text: str
    params: tuple[object, ...] = ()
    expected: list[str] | None = None
    with_line: str = ""
    differs: bool = False


def read_script(path: Path) -> list[Block]:
    blocks: list[Block] = []
    differs = False
    for chunk in path.read_text().strip("\n").split("\n\n"):
        lines = chunk.split("\n")
        prose = [line for line in lines if line.startswith("#")]
        lines = lines[len(prose) :]
        if prose:
            blocks.append(Block("\n".join(prose)))
            differs = any(line.startswith("#! differs") for line in prose)
        if not lines:
            continue
        statement = [line[1:].removeprefix(" ") for line in lines if line.startswith(">")]
        rest = lines[len(statement) :]
        params: tuple[object, ...] = ()
        with_line = ""
        if rest and rest[0].startswith("with:"):
            with_line = rest.pop(0)
            params = ast.literal_eval(f"({with_line.removeprefix('with:')},)")
        blocks.append(Block("\n".join(statement), params, rest, with_line, differs))
        differs = False
    return blocks


def render(blocks: list[Block], answer: Callable[[Block], list[str]]) -> str:
    """The script with the answers that ``answer`` gives now."""
    out: list[str] = []
    for block in blocks:
        if block.expected is None:
            out.append(block.text)
            continue
        lines = [f"> {line}".rstrip() for line in block.text.split("\n")]
        if block.with_line:
            lines.append(block.with_line)
        out.append("\n".join(lines + answer(block)))
    # prose stands directly above its statement
    text = ""
    for i, part in enumerate(out):
        gap = "\n" if i and blocks[i - 1].expected is None and blocks[i].expected is not None else "\n\n"
        text += (gap if i else "") + part
    return text + "\n"
