"""A configuration as a TOML file: the documented one in conf/, and what ``--print-config`` shows."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping

from msgspec import Struct, structs

from herdpy_server.config.fields import ConfigSetting, sections, settings_of, size_text
from herdpy_server.config.sections import RELOADABLE, ServerConfig

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
