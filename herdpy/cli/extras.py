"""Modules that a driver-only install lacks. Below every command; it imports nothing that is heavy."""

from __future__ import annotations

import importlib
from types import ModuleType

from herdpy.cli.errors import CliError
from herdpy.distribution import install_line
from herdpy.imports import importing


def needed(module: str) -> ModuleType:
    """Import a module that needs the ``server`` extra; CliError that names the extra if it is missing."""
    try:
        with importing():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in {"herdpy", "herdpy_sql", "herdpy_server"}:
            raise
        raise CliError(
            f"this needs the Python package {error.name}, which is not installed",
            hint=f"Opening a database in a directory needs the server extra: {install_line('server')}",
        ) from error


def in_help(line: str) -> str:
    """A line as texts of ``--help`` have it, where brackets are markup."""
    return line.replace("[", "\\[")
