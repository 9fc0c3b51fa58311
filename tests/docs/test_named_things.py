"""What pages name exists: files, tests, names of the code, settings, options of commands, SQLSTATEs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from typer.core import TyperGroup

from herdpy.cli.app import app
from herdpy_server.config.fields import all_settings
from tests.house.structure import ROOTS
from tests.support.pages import PAGES

ROOT = Path(__file__).parents[2]
DESIGNS = [
    page for page in PAGES if page.name == "DESIGN.md" or page.parent.name in ("architecture", "decisions")
]
DESIGNS += [ROOT / "docs" / name for name in ("tour.md", "extending.md", "glossary.md")]
FILE = re.compile(
    r"`((?:herdpy|server|sql|spark_jobs|orchestration|tests|bench|examples|docs|tools|conf|docker)/[\w./*-]+)`"
)
TEST = re.compile(r"`(test_\w+)`")
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}
FENCED = re.compile(r"^( *)(```+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"(?:[A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*(?=$|\()")
SUFFIXES = {".py", ".proto", ".toml", ".java", ".go", ".yml", ".sh", ".conf", ".txt", ""}
ELSEWHERE = frozenset({"LC_COLLATE", "txid_status", "pushFilters"})
"""Names of PostgreSQL, Spark and others that nothing of ours uses."""

SECTION = {key.split(".")[0] for key in all_settings()}
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(r"herdpy ((?:[a-z]+(?:-[a-z]+)*(?: |$))+)([^`\n$]*)")
STATE = re.compile(r"\b(?!\d+MB)(?:0[08AL]|2[0-9BD]|3[4BDF]|4[024]|5[34578]|72|F0|HV|XX)[0-9A-Z]{3}\b")


def missing(text: str) -> list[str]:
    """What ``text`` names that is not there."""
    files = [name for name in FILE.findall(text) if not list(ROOT.glob(name.rstrip("/")))]
    return files + [name for name in TEST.findall(text) if name not in TESTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_everything_named_is_there(page):
    assert missing(page.read_text()) == []


def test_what_is_not_there_is_seen():
    text = "`herdpy/log/lsn.py` `herdpy/log/lost.py` `test_what_is_not_there_is_seen` `test_of_nothing`"
    assert missing(text) == ["herdpy/log/lost.py", "test_of_nothing"]


# Names of the code, on the pages about the code.


def _files() -> Iterator[Path]:
    for top in ROOT.iterdir():
        if top.name in (".git", ".venv", "docs"):
            continue
        for path in [top] if top.is_file() else top.rglob("*"):
            if path.is_file() and "node_modules" not in path.parts:
                yield path


@cache
def known() -> tuple[set[str], set[str], dict[str, set[str]]]:
    """The names of files, the words of the sources, and for each class the names in it and in its bases."""
    files, words = set[str](), set[str]()
    files.update(path.name for path in PAGES)
    for path in _files():
        files.add(path.name)
        if path.suffix in SUFFIXES and path != Path(__file__):
            try:
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
            except UnicodeDecodeError:
                continue  # a program or an archive
    return files, words, _classes()


def _classes() -> dict[str, set[str]]:
    inside: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for root, _ in ROOTS:
        for path in root.rglob("*.py"):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    part = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
                    inside.setdefault(node.name, set()).update(re.findall(r"\w+", part))
                    found = {one.id for one in node.bases if isinstance(one, ast.Name)}
                    bases.setdefault(node.name, set()).update(found)
    for _ in range(5):
        for name, above in bases.items():
            for one in above & inside.keys():
                inside[name] |= inside[one]
    return inside


def unknown(text: str) -> list[str]:
    """The names in backticks that the sources do not have."""
    files, words, classes = known()
    wrong = []
    for code in CODE.findall(FENCED.sub("", text)):
        if re.fullmatch(r"[\w./-]+\.(?:py|proto|toml|txt|md)", code):
            wrong += [code] if code.rsplit("/", 1)[-1] not in files else []
        elif (name := NAME.match(code)) and code not in ELSEWHERE:
            parts = name.group().split(".")
            in_class = classes.get(parts[-2], words) if len(parts) > 1 else words
            if not words.issuperset(parts) or parts[-1] not in in_class:
                wrong.append(code)
    return wrong


@pytest.mark.parametrize("page", DESIGNS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_about_the_code_names_what_the_code_has(page):
    assert unknown(page.read_text()) == []


def test_an_unknown_name_is_seen():
    text = "`Tablespace.commit` `Tablespace.comit` `read_pozition` `lsn.py` `lns.py` `a > b` `LogRekord(x)`\n"
    assert unknown(text) == ["Tablespace.comit", "read_pozition", "lns.py", "LogRekord(x)"]


# Settings.


def wrong_settings(text: str) -> list[str]:
    """The settings in backticks that a server does not have."""
    named = [code for code in CODE.findall(FENCED.sub("", text)) if re.fullmatch(r"[a-z]+\.[a-z]\w*", code)]
    at = [code for code in named if code.split(".")[0] in SECTION]
    return [
        code for code in at if code not in all_settings() and not code.endswith((".py", ".toml", ".json"))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_are_there(page):
    assert wrong_settings(page.read_text()) == []


def test_a_wrong_setting_is_seen():
    assert wrong_settings("`cluster.root` `cluster.rut` `a.b` `cluster.json`") == ["cluster.rut"]


# Options of commands.


@cache
def options() -> dict[str, set[str]]:
    """The options of each command."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        context = typer.Context(command)
        found[name] = {
            flag for one in command.get_params(context) for flag in (*one.opts, *one.secondary_opts)
        }
        if isinstance(command, TyperGroup):
            for sub in command.list_commands(context):
                walk(command.get_command(context, sub), f"{name} {sub}".strip())

    walk(typer.main.get_command(app), "")
    return found


def wrong_options(text: str) -> list[str]:
    """The options that stand behind a command of ours and are none of it."""
    wrong = []
    for words, rest in COMMAND.findall(text):
        names = [name for name in options() if name and (f"{words.strip()} ".startswith(f"{name} "))]
        if not names or (command := max(names, key=len)) == "spark":
            continue
        allowed = set().union(*(flags for name, flags in options().items() if name.startswith(command)))
        wrong += [
            f"herdpy {command} {flag}" for flag in OPTION.findall(rest) if flag not in allowed | {"--help"}
        ]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_of_commands_are_there(page):
    assert wrong_options(page.read_text()) == []


def test_a_wrong_option_is_seen():
    text = "`herdpy sql ./shop --quiet` `herdpy tablespace alter t --replica 3` `herdpy check --qiet`"
    assert wrong_options(text) == ["herdpy tablespace alter --replica", "herdpy check --qiet"]


def test_the_page_of_the_command_line_has_every_command():
    page = (ROOT / "docs" / "cli.md").read_text()
    groups = {name for name in options() if any(one.startswith(f"{name} ") for one in options())}
    assert [
        name for name in options() if name not in groups and " " not in name and f"`herdpy {name}" not in page
    ] == []


# SQLSTATEs.


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "sql-differences.md"],  # it names states of PostgreSQL alone, too
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_states_are_those_of_the_page_of_errors(page):
    listed = set(re.findall(r"^\| ([0-9A-Z]{5}) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))
    named = {one for one in STATE.findall(page.read_text()) if any(map(str.isalpha, one)) or one in listed}
    assert named - listed == set()
