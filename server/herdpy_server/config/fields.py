"""What can be known of a setting: type, limits and default in words; values out of text, and as TOML.

Between the structs of ``sections`` and whoever reads, checks or shows values (the documented file in conf/,
and ``--print-config``). Values come as TOML has them, or as text from a flag or the environment; sizes may
be written with a unit either way.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
from msgspec import Struct, inspect, structs

from herdpy import options
from herdpy_server.config.sections import RELOADABLE, Section, ServerConfig


@dataclass(frozen=True, slots=True)
class ConfigSetting:
    """One setting of one section."""

    section: str
    name: str
    type: Any
    default: Any
    description: str

    @property
    def key(self) -> str:
        """Its full name, such as "postgres.port"."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"HERDPY_{self.section}_{self.name}".upper()

    @property
    def _info(self) -> inspect.Type:
        found = inspect.type_info(self.type)
        return found.type if isinstance(found, inspect.Metadata) else found

    def allowed(self) -> str:
        """What it takes, in words."""
        info = self._info
        match info:
            case inspect.BoolType():
                return "true or false"
            case inspect.IntType(ge=low, le=high):
                if self.name.endswith("_bytes"):
                    return f"bytes from {size_text(low or 0)} to {size_text(high or 0)}"
                return f"a whole number from {low} to {high}"
            case inspect.FloatType(ge=low, le=high):
                return f"seconds from {low:.15g} to {high:.15g}"
            case inspect.LiteralType():
                return "one of " + ", ".join(get_args(get_args(self.type)[0]))
            case inspect.StrType():
                return "text"
            case inspect.VarTupleType(item_type=inspect.StrType()):
                return "a list of texts"
            case inspect.DictType():
                return "a table of logger = one of debug, info, warning, error"
            case _:
                return (
                    "a list of tables with method (trust, scram-sha-256, cert or reject), network, user"
                    " and clientcert"
                )

    def convert(self, value: object) -> Any:
        """The checked value; ValueError says what is wrong with it."""
        if self.name.endswith("_bytes") and isinstance(value, str):
            value = parse_size(value)
        if isinstance(self._info, inspect.FloatType) and isinstance(value, float) and math.isnan(value):
            raise ValueError("nan is no number of seconds")
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            within = isinstance(self._info, inspect.VarTupleType | inspect.DictType)
            raise ValueError(str(error) if within else "it is not allowed") from None

    def parse(self, text: str) -> Any:
        """As :meth:`convert`, of a flag's or an environment variable's text."""
        return self.convert(self._read(text))

    def _read(self, text: str) -> object:
        info = self._info
        bare = text.strip()
        match info:
            case inspect.BoolType():
                with contextlib.suppress(ValueError):
                    return options.boolean(bare)
                return text
            case inspect.IntType() if not self.name.endswith("_bytes"):
                return int(bare) if re.fullmatch(r"[+-]?\d[\d_]*", bare) else text
            case inspect.FloatType():
                try:
                    return float(bare)
                except ValueError:
                    return text
            case inspect.VarTupleType(item_type=inspect.StrType()) if not bare.startswith("["):
                return [item.strip() for item in bare.split(",") if item.strip()]
            case inspect.VarTupleType() | inspect.DictType():
                try:
                    return tomllib.loads(f"value = {text}")["value"]
                except tomllib.TOMLDecodeError as error:
                    raise ValueError(f"it cannot be read as TOML: {error}") from None
            case _:
                return text


def parse_size(text: str) -> int:
    """Bytes of "64 MiB", "1.5GB" or "4096"; ValueError for anything else."""
    try:
        return options.size_bytes(text)
    except ValueError:
        raise ValueError(f'"{text}" is no size: write bytes, or a unit such as "64 MiB"') from None


def size_text(size_bytes: int) -> str:
    """A size as people write it, exactly: "64 MiB"."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return str(size_bytes)


def sections() -> dict[str, type[Section]]:
    """The sections by name, in the order of the file."""
    return {found.name: found.type for found in msgspec.structs.fields(ServerConfig)}


def settings_of(section: str) -> Iterator[ConfigSetting]:
    """The settings of a section, in the order of the file."""
    for found in msgspec.structs.fields(sections()[section]):
        info = inspect.type_info(found.type)
        extra = info.extra_json_schema if isinstance(info, inspect.Metadata) else None
        default = found.default if found.default is not msgspec.NODEFAULT else found.default_factory()
        yield ConfigSetting(section, found.name, found.type, default, (extra or {}).get("description", ""))


def all_settings() -> dict[str, ConfigSetting]:
    """Every setting by its full name."""
    return {one.key: one for section in sections() for one in settings_of(section)}


_WIDTH = 110
_HEAD = """\
# The configuration of a HerdPy server: every setting, with its default.
#
# Start with:  herdpy server --config conf/server.toml --data /var/lib/herdpy
# Check with:  herdpy server --config conf/server.toml --data /var/lib/herdpy --check-config
#
# The environment (HERDPY_POSTGRES_PORT=5433) overrides the file, and flags override both
# (--set postgres.port=5433).
# Sizes are bytes, or text with a unit ("64 MiB"). Settings marked (reload) are reloaded on SIGHUP
# (systemctl reload); the others need a restart.
"""


def documented() -> str:
    """conf/server.toml: every setting, what it means, what it takes, and its default."""
    config = ServerConfig()
    parts = [_HEAD]
    for name, section in sections().items():
        parts.append(f"\n{_comment(section.__doc__ or '')}[{name}]\n")
        values = getattr(config, name)
        for setting in settings_of(name):
            mark = " (reload)" if setting.key in RELOADABLE else ""
            parts.append(_comment(f"{setting.description} Takes {setting.allowed()}.{mark}"))
            parts.append(f"{setting.name} = {toml(getattr(values, setting.name), setting)}\n\n")
        parts[-1] = parts[-1].rstrip("\n") + "\n"
    return "".join(parts)


def documented_with(values: Mapping[str, object], head: str) -> str:
    """As :func:`documented`, with these values by full name; what stays at its default is a comment.

    Raises:
        ValueError: there is no such setting, or it does not take the value.
    """
    known = all_settings()
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"there is no setting {key}")
        known[key].convert(value)
    parts = [_comment(head)]
    for name, section in sections().items():
        parts.append(f"\n{_comment(section.__doc__ or '')}[{name}]\n")
        for setting in settings_of(name):
            parts.append(_comment(f"{setting.description} Takes {setting.allowed()}."))
            given = setting.key in values
            value = toml(values[setting.key] if given else setting.default, setting)
            line = f"{setting.name} = {value}"
            parts.append(("" if given else "# ") + line.replace("\n", "\n" if given else "\n# ") + "\n\n")
        parts[-1] = parts[-1].rstrip("\n") + "\n"
    return "".join(parts)


def effective(config: ServerConfig, origins: Mapping[str, str]) -> str:
    """The values that hold, each with where it comes from when it is not the default."""
    lines = []
    for name in sections():
        lines.append(f"[{name}]")
        for setting in settings_of(name):
            line = f"{setting.name} = {toml(getattr(getattr(config, name), setting.name), setting)}"
            origin = origins.get(setting.key)
            lines.append(f"{line}  # {origin}" if origin else line)
        lines.append("")
    return "\n".join(lines)


def _comment(text: str) -> str:
    """Lines of comment; a paragraph's lines are filled anew."""
    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        lines += textwrap.wrap(" ".join(paragraph.split()), _WIDTH - 2)
    return "".join(f"# {line}\n" for line in lines)


def toml(value: object, setting: ConfigSetting | None = None) -> str:
    """A value as TOML writes it; sizes with their unit."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if setting is not None and setting.name.endswith("_bytes"):
            text = size_text(value)
            return text if text.isdecimal() else f'"{text}"'
        case int() | float():
            return repr(value)
        case str():
            return _quoted(value)
        case Struct():
            return _table({name: getattr(value, name) for name in structs.asdict(value)})
        case dict():
            return _table(value)
        case tuple() | list():
            items = [toml(item) for item in value]
            if any(isinstance(item, Struct) for item in value):
                return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
            return "[" + ", ".join(items) + "]"
        case _:
            raise TypeError(f"{value!r} cannot be written as TOML")


def _table(items: Mapping[str, object]) -> str:
    if not items:
        return "{}"
    return "{ " + ", ".join(f"{_key(name)} = {toml(value)}" for name, value in items.items()) + " }"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
