"""Values of settings: each function gives one as it is kept, or raises ValueError; see ``known_settings``."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable

from herdpy.log.lsn import LSN, START
from herdpy_server.sessions.notices import LEVELS

Check = Callable[[str], str]

_KIB = {"kB": 1, "MB": 1 << 10, "GB": 1 << 20, "TB": 1 << 30}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def one_of(*values: str) -> Callable[[str], str]:
    """One of some words, in any case."""

    def check(value: str) -> str:
        lowered = value.lower()
        if lowered not in values:
            raise ValueError(f"one of {', '.join(values)} is wanted")
        return lowered

    return check


def boolean(value: str) -> str:
    """on or off."""
    lowered = value.lower()
    if lowered in {"on", "true", "yes", "1"}:
        return "on"
    if lowered in {"off", "false", "no", "0"}:
        return "off"
    raise ValueError("a Boolean value is wanted")


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: str) -> float:
    """A duration as PostgreSQL writes it: a number of milliseconds, or one with a unit."""
    text = value.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    if unit not in _UNITS_MS:
        raise ValueError(f"units are {', '.join(_UNITS_MS)}")
    amount = float(digits) * _UNITS_MS[unit]
    if not 0 <= amount <= 2**31:
        raise ValueError("it is out of range")
    return amount


def milliseconds_text(value: str) -> str:
    """A duration, shown as a whole number of milliseconds."""
    return str(round(milliseconds(value)))


def position(value: str) -> LSN:
    """A position in the log as ledger:entry; START for an empty text."""
    return LSN.parse(value) if value else START


def lsn(value: str) -> str:
    """A position in the log, or nothing."""
    return str(LSN.parse(value)) if value else ""


def duration(value: str) -> str:
    """As PostgreSQL shows it: a whole number of the largest unit that allows one."""
    amount = round(milliseconds(value))
    for unit, size in reversed(_UNITS_MS.items()):
        if amount and size >= 1 and amount % size == 0:
            return f"{amount // int(size)}{unit}"
    return "0"


def zone(value: str) -> str:
    """A time zone by its IANA name."""
    if value.upper() in {"UTC", "GMT", "Z"}:
        return "UTC"
    try:
        return zoneinfo.ZoneInfo(value).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("an IANA time zone is wanted") from error


def level(value: str) -> str:
    """A level of messages; "info" and "fatal" are known to PostgreSQL, but ask for what others do."""
    return one_of(*LEVELS)({"info": "notice", "fatal": "error", "panic": "error"}.get(value.lower(), value))


def iso(value: str) -> str:
    """A style of dates: the order of day and month may be chosen, the look may not."""
    parts = [part.strip().upper() for part in value.split(",")]
    orders = {"MDY": "MDY", "US": "MDY", "NONEURO": "MDY", "DMY": "DMY", "EURO": "DMY", "YMD": "YMD"}
    for part in parts:
        if part not in orders and part not in {"ISO", "DEFAULT"}:
            raise ValueError("dates are always shown as ISO has them")
    if any(orders.get(part, "MDY") != "MDY" for part in parts):
        raise ValueError("dates are read as year, month and day, or as month, day and year")
    return "ISO, MDY"


def digits(value: str) -> str:
    """As extra_float_digits has them, as far as they mean all digits."""
    if not 1 <= int(value) <= 3:
        raise ValueError("floats are always shown with all of their digits: 1 to 3")
    return str(int(value))


def nulls(value: str) -> str:
    """As array_nulls has it."""
    if boolean(value) != "on":
        raise ValueError("NULL in the text of an array is always the null value")
    return "on"


def whole(low: int, high: int) -> Check:
    """A whole number within limits."""

    def check(value: str) -> str:
        if not low <= int(value) <= high:
            raise ValueError(f"it is between {low} and {high}")
        return str(int(value))

    return check


def real(low: float, high: float) -> Check:
    """A number within limits, shown as PostgreSQL does: with six digits."""

    def check(value: str) -> str:
        if not low <= float(value) <= high:
            raise ValueError(f"it is between {low:g} and {high:g}")
        return f"{float(value):g}"

    return check


def memory_bytes(value: str) -> int:
    """The bytes that a value of :func:`memory` is."""
    match = _AMOUNT.fullmatch(value)
    assert match is not None
    return int(match[1]) * _KIB.get(match[2], 0) * 1024


def memory(unit_kib: int = 1) -> Check:
    """An amount of memory: a number of ``unit_kib``, or one with a unit; shown with the largest that fits."""

    def check(value: str) -> str:
        match = _AMOUNT.fullmatch(value)
        if match is None or (match[2] and match[2] not in _KIB and match[2] != "B"):
            raise ValueError("units are B, kB, MB, GB, TB")
        factor = 1 / 1024 if match[2] == "B" else _KIB.get(match[2], unit_kib)
        kib = round(float(match[1]) * factor)
        if not 0 <= kib < 1 << 41:
            raise ValueError("it is out of range")
        for unit, size in reversed(_KIB.items()):
            if kib and kib % size == 0:
                return f"{kib // size}{unit}"
        return "0"

    return check
