"""Statements that come with the name of their commit: ``AS REQUEST $2 INSERT INTO t VALUES ($1)``.

Below ``session``, which takes the words off when a statement is prepared, and the name out of the parameters
when it is bound. So a commit has its name without a statement that gives it one before; the statement itself
never sees either. The name is always the last parameter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from herdpy.log.transaction import MAX_REQUEST_ID_BYTES
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum

WORDS = "AS REQUEST $"
_NAMED = re.compile(r"AS REQUEST \$(\d{1,5}) ")


def without_name(sql: str) -> tuple[str, int]:
    """A text without the words before its statement, and the number of the parameter that they name.

    0 when there are none, or none as drivers write them: then whoever parses it finds the mistake.
    """
    found = _NAMED.match(sql) if sql.startswith(WORDS) else None
    return (sql, 0) if found is None else (sql[found.end() :], int(found[1]))


def name_of(value: Datum) -> bytes:
    """A parameter as the name of a commit; b"" for what cannot be one."""
    name = value.encode() if isinstance(value, str) else b""
    return name if len(name) <= MAX_REQUEST_ID_BYTES else b""


def name_in(value: Datum) -> bytes:
    """As ``name_of``. SqlError 22023 for what cannot be one."""
    name = name_of(value)
    if not name:
        raise SqlError("22023", f"a request id is a text of 1 to {MAX_REQUEST_ID_BYTES} bytes")
    return name
