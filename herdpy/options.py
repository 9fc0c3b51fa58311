"""Values of options, settings and flags: what a keyword, URL, TOML, flag or SQL gives, made a checked value.

At the bottom: it imports nothing of ours. A converter raises ValueError, which says what is allowed ("true
or false"); the driver, Spark, the server's configuration and SQL put that, the option's name and the value
into an error of their own class. Options of the driver, of Spark and of tablespaces take a number without a
unit as seconds, a session's settings as milliseconds, as PostgreSQL does.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
"""The units of durations, in microseconds, from the shortest on."""
POSTGRES_SIZES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
"""The units of sizes as PostgreSQL's settings have them, in bytes."""
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
"""The units of sizes as a file of configuration has them, in bytes."""
_DURATION = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_SIZE = re.compile(r"\s*(\d[\d_]*(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_BOOLEANS = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}


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


def size_bytes(text: str, units: Mapping[str, int] = SIZES) -> int:
    """The bytes of a text such as "64 MiB", "1.5GB" or "4096"; ValueError names the units."""
    found = _SIZE.fullmatch(text)
    if found is None or (unit := units.get(found[2].lower())) is None:
        raise ValueError(f"bytes, or a number with a unit ({', '.join(filter(None, units))})")
    return round(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit


def boolean(value: object) -> bool:
    """True or false, or what a text calls so: on, off, yes, no, 1, 0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (found := _BOOLEANS.get(value.strip().lower())) is not None:
        return found
    raise ValueError("true or false")


def number(value: object) -> int | float:
    """A number, or a text that is one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        for read in (int, float):
            try:
                return read(value)
            except ValueError:
                continue
    raise ValueError("a number")


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from ``least`` to ``most``, which are not negative, in plain digits."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def one_of(*words: str) -> Callable[[object], str]:
    """One of some words, which are small letters, in any case."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return value.lower()

    return read


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant by one that is not known."""
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def shown(value: object) -> str:
    """A value in a message, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
