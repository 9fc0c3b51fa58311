"""Values of SQL that Python has no type for. Beside ``types``; both links take and give them.

``Interval`` is an INTERVAL with months, which no timedelta can say. ``Json`` is any value as JSON, where its
place in the statement does not say that it is: a number, a text, None.
"""

from __future__ import annotations

import functools
import json
from typing import Self

from herdpy.codec.kinds import Interval
from herdpy.dbapi.errors import ProgrammingError

json_text = functools.partial(json.dumps, allow_nan=False)
"""An object as JSON, which has no NaN. ValueError, TypeError for what it cannot say."""


class Json(str):
    """A value as JSON: ``Json(5)``, ``Json("text")``, ``Json(None)`` for JSON's null, ``Json([1, 2])``.

    Dicts, and lists without dates and the like, need no wrapper. It is its own text.
    """

    __slots__ = ()

    def __new__(cls, value: object) -> Self:
        """ProgrammingError 42804 for what JSON cannot say, such as NaN or a date."""
        try:
            return super().__new__(cls, json_text(value))
        except (ValueError, TypeError, RecursionError) as error:
            raise ProgrammingError(f"it cannot be JSON: {error}", sqlstate="42804") from None


class Jsonb(Json):
    """The same as JSONB."""

    __slots__ = ()


__all__ = ["Interval", "Json", "Jsonb", "json_text"]
