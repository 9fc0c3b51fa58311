"""Pages that are made of the programs: settings, commands, and the interface of each package.

Layer: what the programs know of themselves, to Markdown. Each function returns a page's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from herdpy.cli.app import app
from herdpy_server.config.fields import ConfigSetting, all_settings, sections, toml
from herdpy_server.config.sections import RELOADABLE

#: The pages of interfaces: title, the way to read more, and the modules whose public names it has.
INTERFACES = {
    "driver": (
        "The driver",
        "`import herdpy` is a module of PEP 249. [Drivers](../../drivers.md) teaches it.",
        ("herdpy.dbapi", "herdpy.rows"),
    ),
    "aio": (
        "The driver for asyncio",
        "[Drivers](../../drivers.md#async) teaches it.",
        ("herdpy.aio",),
    ),
    "pool": ("Pools of connections", "[Drivers](../../drivers.md#pools) teaches them.", ("herdpy.pool",)),
    "frames": (
        "Data frames",
        "[pandas](../../pandas.md) and [polars](../../polars.md) teach them.",
        ("herdpy.pandas", "herdpy.polars"),
    ),
    "sqlalchemy": (
        "SQLAlchemy's dialect",
        "[SQLAlchemy](../../sqlalchemy.md) teaches it.",
        ("herdpy.sqlalchemy",),
    ),
    "bookkeeper": (
        "The client for Apache BookKeeper",
        "[Ledgers on BookKeeper](../../bookkeeper.md) teaches it.",
        ("herdpy.bookkeeper",),
    ),
    "testing": (
        "The testing kit",
        "[Ledgers on BookKeeper](../../bookkeeper.md#testing-your-own-code) shows it.",
        ("herdpy.testing",),
    ),
    "spark": ("Spark", "[Spark](../../spark.md) teaches it.", ("herdpy_spark",)),
}


def interface(name: str) -> str:
    """A page of one package's interface, for mkdocstrings."""
    title, where, modules = INTERFACES[name]
    parts = [f"# {title}", where]
    parts += [f"## {one}\n\n::: {one}\n    options:\n      heading_level: 3\n" for one in modules]
    return "\n\n".join(parts) + "\n"


def configuration() -> str:
    """Every setting of a server, section by section."""
    parts = [
        "# Configuration",
        "Every setting of a server. A setting comes from the file (`herdpy server --config`), from an "
        "environment variable, or from `--set`; the last of these that is given holds. Sizes are bytes, or "
        "text with a unit (`64 MiB`). [Servers](../server.md#configuration) explains how to write, check and "
        "reload the file.",
    ]
    settings = list(all_settings().values())
    for name, section in sections().items():
        parts += [f"## {name}", " ".join((section.__doc__ or "").split())]
        parts += [_setting(one) for one in settings if one.section == name]
    return "\n\n".join(parts) + "\n"


def _setting(setting: ConfigSetting) -> str:
    default = " ".join(toml(setting.default, setting).split()) or '""'
    reload = "taken over on SIGHUP" if setting.key in RELOADABLE else "needs a restart"
    return (
        f"### {setting.key}\n\n{_plain(setting.description)}\n\n"
        f"| takes | default | environment | a change |\n|---|---|---|---|\n"
        f"| {_cell(setting.allowed())} | `{default}` | `{setting.variable}` | {reload} |"
    )


def commands() -> str:
    """Every command with its options, as ``--help`` prints them."""
    parts = [
        "# Commands and their options",
        "Every command of `herdpy`, as `herdpy COMMAND --help` prints it. [The command line](../cli.md) "
        "explains them with examples.",
    ]
    for name, command in _walk(typer.main.get_command(app), "herdpy"):
        parts += [f"## {name}", *_command(name, command)]
    return "\n\n".join(parts) + "\n"


def _walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, TyperGroup):
        yield name, command
        return
    context = typer.Context(command)
    for inner in command.list_commands(context):
        if (found := command.get_command(context, inner)) is not None and not found.hidden:
            yield from _walk(found, f"{name} {inner}")


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {usage}\n```"
    for paragraph in (command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{paragraph.removeprefix(chr(8)).strip()}\n```"
        else:
            yield _plain(paragraph)
    rows = [_parameter(one) for one in parameters]
    if rows:
        yield "\n".join(["| argument | meaning | default |", "|---|---|---|", *rows])


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or str(parameter.name).upper()}`"
    else:
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = "" if callable(default) or default in (None, False, (), []) else f"`{default}`"
    return f"| {names} | {_cell(_plain(getattr(parameter, 'help', None) or ''))} | {_cell(shown)} |"


def _plain(text: str) -> str:
    """A text of the programs in Markdown: marks of Rich and angle brackets are no tags."""
    text = re.sub(r"\[/?(?:bold|dim|italic|cyan|green|red|yellow)\]", "", " ".join(text.split()))
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
