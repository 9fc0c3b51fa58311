"""Modules that an install without their extra lacks. Below every command; imports nothing heavy."""

from __future__ import annotations

import importlib
from types import ModuleType

from herdpy.cli.errors import without_package
from herdpy.imports import importing


def needed(module: str, extra: str | None = None) -> ModuleType:
    """Import a module that needs packages of an extra.

    Args:
        extra: the one that the command needs; None: the one that brings the package that is missing.

    Raises:
        CliError: a package of others' is missing; its hint is the line that installs it.
    """
    try:
        with importing():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        readable = without_package(error, extra)
        if readable is None:
            raise
        raise readable from error


def in_help(line: str) -> str:
    """A line as texts of ``--help`` have it, where brackets are markup."""
    return line.replace("[", "\\[")
