"""The setting search_path: a list of names of schemas, as text and as the planner's path."""

from __future__ import annotations

import re

from herdpy_sql.catalog import is_temporary

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s",]+))\s*(?:,|\Z)')
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")
USER = "$user"


def names(text: str) -> list[str]:
    """The names in a list: quoted, or in lower case. ValueError for what is no list of names."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _NAME.match(text, at)
        if match is None:
            raise ValueError("a list of names is wanted")
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        at = match.end()
    return found


def checked_path(text: str) -> str:
    """The list as SHOW says it; ValueError."""
    return ", ".join(
        one if _PLAIN.match(one) else f'"{one.replace(chr(34), chr(34) * 2)}"' for one in names(text)
    )


def path_of(text: str, user: str, temporary: str) -> tuple[str, ...]:
    """The schemas to look in, in order, whether they exist or not; not those of other sessions.

    Args:
        user: what "$user" stands for. temporary: the session's own schema, which comes first; "" for none.
    """
    found = [user if one == USER else temporary if one == "pg_temp" else one for one in names(text)]
    if temporary and temporary not in found:
        found.insert(0, temporary)
    return tuple(one for one in found if one and (one == temporary or not is_temporary(one)))
