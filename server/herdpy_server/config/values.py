"""From a file, the environment and flags to one checked configuration, or every problem and where it stands.

file < environment < flags: what comes later wins. A value that is overruled is checked all the same, so that
it does not lie in wait for the day when the flag is gone. All problems are found in one go.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from herdpy.options import nearest
from herdpy_server.config.check import check
from herdpy_server.config.fields import ConfigSetting, all_settings, sections
from herdpy_server.config.sections import ServerConfig

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_MAX_FILE_BYTES = 1 << 20


class ConfigError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: one line each: where (a file and its line, a flag, an environment variable), which
            setting, what is wrong, what is allowed.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def lines_of(text: str) -> dict[str, int]:
    """The line (from 1) of each key by its dotted name, and of each table's header.

    Good enough for a message: a key that stands inside a text of several lines is found too.
    """
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _plain(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


class LoadedConfig:
    """A checked configuration and where its values come from.

    Attributes:
        config: the values.
        origins: by a setting's full name where its value was given; defaults are not in it.
        warnings: what works, and is probably not what was meant.
    """

    def __init__(self, config: ServerConfig, origins: Mapping[str, str], warnings: list[str]) -> None:
        self.config = config
        self.origins = origins
        self.warnings = warnings


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Iterable[tuple[str, str, str]] = (),
) -> LoadedConfig:
    """Read and check a configuration.

    Args:
        path: the TOML file; None for none.
        environment: where to look for HERDPY_<SECTION>_<SETTING>.
        flags: (flag as the user wrote it, full name of the setting, text of the value).

    Raises:
        ConfigError: with every problem found.
    """
    gathering = _Gathering()
    if path is not None:
        gathering.file(path)
    gathering.environment(environment or {})
    for flag, key, text in flags:
        gathering.text(flag, key, text)
    config = gathering.config()
    problems, warnings = check(config, gathering.where)
    if gathering.problems or problems:
        raise ConfigError(gathering.problems + problems)
    return LoadedConfig(config, gathering.origins, warnings)


class _Gathering:
    """Values and problems so far."""

    def __init__(self) -> None:
        self.settings = all_settings()
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.problems: list[str] = []

    def where(self, key: str) -> str:
        """Where a setting was given, for a message."""
        return self.origins.get(key, "by default")

    def file(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            self.problems.append(f"{path}: cannot be read: {error.strerror or error}")
            return
        if len(data) > _MAX_FILE_BYTES:
            self.problems.append(f"{path}: is larger than {_MAX_FILE_BYTES} bytes")
            return
        try:
            text = data.decode()
            tables = tomllib.loads(text)
        except UnicodeDecodeError as error:
            self.problems.append(f"{path}: is not UTF-8 (byte {error.start})")
            return
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"{path}: is not TOML: {error}")
            return
        lines = lines_of(text)

        def place(key: str) -> str:
            return f"{path}:{lines[key]}" if key in lines else str(path)

        for name, table in tables.items():
            if name not in sections():
                self.problems.append(f"{place(name)}: {self._unknown_section(name, table)}")
            elif not isinstance(table, dict):
                self.problems.append(f"{place(name)}: {name} is a section: write [{name}]")
            else:
                for key, value in table.items():
                    self._value(place(f"{name}.{key}"), f"{name}.{key}", value)

    def environment(self, environment: Mapping[str, str]) -> None:
        variables = {setting.variable: setting for setting in self.settings.values()}
        prefixes = tuple(f"HERDPY_{name}_".upper() for name in sections())
        for name, text in sorted(environment.items()):
            setting = variables.get(name)
            if setting is not None:
                self._take(f"environment {name}", setting, text, is_text=True)
            elif name.startswith(prefixes):
                self.problems.append(f"environment {name}: there is no such setting{_near(name, variables)}")

    def text(self, flag: str, key: str, text: str) -> None:
        """A value from a flag."""
        setting = self.settings.get(key)
        if setting is None:
            self.problems.append(f"flag {flag}: there is no setting {key}{_near(key, self.settings)}")
        else:
            self._take(f"flag {flag}", setting, text, is_text=True)

    def _value(self, where: str, key: str, value: object) -> None:
        setting = self.settings.get(key)
        if setting is None:
            self.problems.append(f"{where}: there is no setting {key}{_near(key, self.settings)}")
        else:
            self._take(where, setting, value, is_text=False)

    def _take(self, where: str, setting: ConfigSetting, value: Any, *, is_text: bool) -> None:
        try:
            self.values[setting.key] = setting.parse(value) if is_text else setting.convert(value)
        except ValueError as error:
            shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
            self.problems.append(f"{where}: {setting.key} = {shown}: {error}; it takes {setting.allowed()}")
        else:
            self.origins[setting.key] = where

    def _unknown_section(self, name: str, value: object) -> str:
        if isinstance(value, dict):
            return f"there is no section [{name}]{_near(name, sections())}"
        near = [key for key in self.settings if key.partition(".")[2] == name]
        hint = f"; did you mean {near[0]}?" if near else _near(name, sections())
        return f"{name} is outside of any section{hint}"

    def config(self) -> ServerConfig:
        """The values so far, with defaults for the rest."""
        given: dict[str, dict[str, Any]] = {name: {} for name in sections()}
        for key, value in self.values.items():
            section, _, name = key.partition(".")
            given[section][name] = value
        made: dict[str, Any] = {name: kind(**given[name]) for name, kind in sections().items()}
        return ServerConfig(**made)


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""
