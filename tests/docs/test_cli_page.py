"""docs/cli.md: its commands, options and backslash commands are those of the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import typer.core
import typer.main

from herdpy.cli.app import app
from herdpy.cli.shell import SHELL_COMMANDS

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def _group() -> typer.core.TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


def _options(command: object) -> Iterator[str]:
    for parameter in getattr(command, "params", ()):
        yield from parameter.opts
        yield from parameter.secondary_opts
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)


def test_every_command_is_in_the_table() -> None:
    named = re.findall(r"^\| `herdpy (\w+)[^|]*\|", TEXT, re.MULTILINE)
    assert set(named) == set(_group().commands)


def test_every_command_of_snapshots_and_tablespaces_is_named() -> None:
    commands = _group().commands
    for name in ("snapshot", "tablespace"):
        inner = getattr(commands[name], "commands")  # noqa: B009 - commands of a group alone
        assert inner
        for one in inner:
            assert re.search(rf"{name} {one}\b|`{one}`", TEXT), (name, one)


def test_every_option_is_one_of_the_program() -> None:
    named = set(re.findall(r"(?<![\w-])(--[a-z][\w-]*)", TEXT))
    assert named - set(_options(_group())) <= {"--help"}


def test_the_backslash_commands_are_those_of_the_shell() -> None:
    table = TEXT[TEXT.index("| `\\d [TABLE]`") :].partition("\n\n")[0]
    named = re.findall(r"`\\([\w?]+)", table)
    assert {"\\" + one for one in named} == set(SHELL_COMMANDS)
