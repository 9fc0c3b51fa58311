"""``herdpy server`` without typer: its arguments, and what becomes of them.

Flags become settings here, and nothing else: ``herdpy_server.config`` checks them together with the file
and the environment, and ``herdpy_server.server`` runs the process. Servers are started often (by tests, by
``herdpy dev``, again after a crash), and typer with all that it imports is a fifth of the time that a start
takes; so what is written plainly is read here, and the rest (help, mistakes) is left to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.imports import importing

FLAGS = {
    "--data": "data",
    "-d": "data",
    "--config": "config",
    "-c": "config",
    "--host": "host",
    "--port": "port",
    "-p": "port",
    "--log-level": "log_level",
    "--log-format": "log_format",
    "--set": "set_",
}
"""By flag, the name of what it sets to its value."""
SWITCHES = {"--check-config": "check_config", "--print-config": "print_config"}
"""By flag, the name of what it sets to true."""


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """What stands on the command line of a server; ``set_`` are SECTION.NAME=VALUE."""

    data: str | None = None
    config: Path | None = None
    host: str | None = None
    port: str | None = None
    log_level: str | None = None
    log_format: str | None = None
    set_: tuple[str, ...] = ()
    check_config: bool = False
    print_config: bool = False


def plain_arguments(words: Sequence[str]) -> ServerArguments | None:
    """The arguments where each word is a whole flag or its value; None: typer has to read them."""
    found: dict[str, Any] = {}
    settings: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in SWITCHES:
            found[SWITCHES[word]] = True
            continue
        name, value = FLAGS.get(word), next(rest, None)
        if name is None or value is None:
            return None
        if name == "set_":
            settings.append(value)
        else:
            found[name] = Path(value) if name == "config" else value
    return ServerArguments(set_=tuple(settings), **found)


def serve(given: ServerArguments) -> int:
    """Run a server to its end, or look at its configuration; the exit code. CliError when that is wrong."""
    settings: Any = needed("herdpy_server.config", "server")
    flags = [
        (flag, key, value)
        for flag, key, value in (
            ("--data", "data.directory", given.data),
            ("--host", "postgres.addresses", given.host),
            ("--port", "postgres.port", given.port),
            ("--log-level", "logging.level", given.log_level),
            ("--log-format", "logging.format", given.log_format),
        )
        if value is not None
    ] + [_setting(text) for text in given.set_]

    def read() -> Any:
        return settings.load(given.config, environment=os.environ, flags=flags)

    try:
        loaded = read()
    except settings.ConfigError as error:
        count = len(error.problems)
        for problem in error.problems:
            print_note(problem)
        raise CliError(
            f"the configuration has {count} problem{'s' if count > 1 else ''}",
            hint="conf/server.toml lists every setting; herdpy server --help the flags.",
            code=USAGE,
        ) from error
    if given.check_config or given.print_config:
        for warning in loaded.warnings:
            print_note(f"warning: {warning}")
        if given.print_config:
            sys.stdout.write(settings.effective(loaded.config, loaded.origins))
        if given.check_config:
            sys.stdout.write("The configuration is right.\n")
        return 0
    with importing(freeze=True):
        server: Any = needed("herdpy_server.server", "server")
    code: int = server.serve(loaded, read)
    return code


def _setting(text: str) -> tuple[str, str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise CliError(f"--set {text}: write --set section.name=value", code=USAGE)
    return f"--set {key.strip()}", key.strip(), value
