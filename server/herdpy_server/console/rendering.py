"""How templates are filled in: everything is escaped, and what is not given is an error."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_DIRECTORY = Path(__file__).parent / "templates"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def environment() -> Environment:
    """The templates, with the filters that they use."""
    made = Environment(
        loader=FileSystemLoader(_DIRECTORY),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(size=size, count=count, moment=moment, ago=ago, duration=duration)
    return made


def size(value: float | None) -> str:
    """Bytes for people: "1.5 MiB"; "–" for None."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("there is a last unit")


def count(value: int | None) -> str:
    """A whole number with thin spaces between thousands."""
    return "–" if value is None else f"{value:,}".replace(",", "\u202f")


def moment(value: datetime | None) -> str:
    """A moment, in UTC, to the second."""
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(value: datetime | None) -> str:
    """How long ago a moment was: "3 min"."""
    return "–" if value is None else duration((datetime.now(UTC) - value).total_seconds())


def duration(seconds: float | None) -> str:
    """A length of time: its largest unit, or its two largest."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
