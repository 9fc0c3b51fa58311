"""How a session reads and writes values as text: its zone, DateStyle, IntervalStyle and the like.

A :class:`Style` is made of a session's settings once for each change of them, and passed on where texts are
made or read: casts (``Clock.style``), the wire, COPY. Functions made for a style are cached by it. The lowest
module of ``values`` but ``form``.
"""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """The settings that texts of values depend on.

    Attributes:
        zone: TimeZone, as SHOW has it.
        dates: DateStyle's look: ISO, SQL, Postgres or German.
        order: DateStyle's order of fields: MDY, DMY or YMD.
        intervals: IntervalStyle.
        float_digits: extra_float_digits.
        binary: bytea_output.
    """

    zone: str = "UTC"
    dates: str = "ISO"
    order: str = "MDY"
    intervals: str = "postgres"
    float_digits: int = 1
    binary: str = "hex"


PLAIN = Style()
"""What sessions begin with, and what texts have that are stored or sent to other servers."""


def in_zone(zone: str) -> Style:
    """The plain style in a zone."""
    return Style(zone)
