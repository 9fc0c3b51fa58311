"""How templates are filled in: everything is escaped, and what is not given is an error."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_DIRECTORY = Path(__file__).parent / "templates"
WIDTH, HEIGHT = 240, 40
"""Of a sparkline, in CSS's pixels."""


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
    made.filters.update(count=count, rate=rate, moment=moment, duration=duration, sparkline=sparkline)
    return made


def count(value: int) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def rate(value: float) -> str:
    """Tasks a second: two digits at least, where there are any."""
    return count(round(value)) if value >= 100 else f"{value:.1f}"


def moment(value: datetime | None) -> str:
    """A moment, in UTC, to the second."""
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """A length of time by its largest unit, or its two largest."""
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


def sparkline(series: Sequence[float]) -> str:
    """The points of an SVG polyline, ``WIDTH`` by ``HEIGHT``; its highest value touches the top."""
    top = max([1.0, *series])
    step = WIDTH / max(1, len(series) - 1)
    return " ".join(
        f"{index * step:.1f},{(HEIGHT - 2) * (1 - value / top) + 1:.1f}" for index, value in enumerate(series)
    )
