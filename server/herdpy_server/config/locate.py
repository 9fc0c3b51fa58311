"""On which line of a TOML file a setting stands, for messages. TOML's reader does not say."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


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
