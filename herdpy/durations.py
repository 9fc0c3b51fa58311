"""Durations as text, a number and a unit: read alike by every option, setting and command.

At the bottom: it imports nothing of ours. Options of the driver, of Spark and of tablespaces take a number
without a unit as seconds, a session's settings as milliseconds, as PostgreSQL does.
"""

from __future__ import annotations

import math
import re

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""The units, in microseconds, from the shortest on."""
_DURATION = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)


def microseconds(text: str, default_unit: str) -> float:
    """The duration that a text says, which may be negative.

    Raises:
        ValueError: it says none; the message is for people.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("expected a number with a unit, such as 500ms, 2.5s or 10min")
    unit = found[2] or default_unit
    if unit not in UNITS_US:
        raise ValueError(f"units are {', '.join(UNITS_US)}")
    amount = float(found[1]) * UNITS_US[unit]
    if not math.isfinite(amount):
        raise ValueError("it is out of range")
    return amount
