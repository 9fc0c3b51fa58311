"""The names that EXCEPTION and RAISE have for SQLSTATEs."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from herdpy_sql.system_relations import words_of_lines


@functools.lru_cache(maxsize=1)
def conditions() -> Mapping[str, tuple[str, ...]]:
    """The SQLSTATEs of each name; a few names have two."""
    return {name: tuple(codes) for name, *codes in words_of_lines("herdpy_sql.programs", "conditions.txt")}


def takes(listed: str, sqlstate: str) -> bool:
    """Whether a handler for ``listed`` takes a SQLSTATE: "" is OTHERS, a class of them ends in 000."""
    if not listed:
        return sqlstate not in {"57014", "P0004"}
    return listed == sqlstate or (listed.endswith("000") and listed[:2] == sqlstate[:2])
