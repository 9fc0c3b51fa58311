"""What a section is made of: the struct that all of them are, and what is said of one setting.

Under the modules that have the sections (``clients``, ``membership``, ``sections``). Limits and meanings
are msgspec's ``Meta``, from where ``fields`` reads them.
"""

from __future__ import annotations

from msgspec import Meta, Struct

TIB = 1 << 40
DAY_S = 86_400.0


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections are: immutable, by keyword, without unknown names."""


def whole(low: int, high: int, description: str) -> Meta:
    """A whole number within these limits, and what it means."""
    return Meta(ge=low, le=high, description=description)


def seconds(low: float, high: float, description: str) -> Meta:
    """Seconds within these limits, and what they are for."""
    return Meta(ge=low, le=high, description=description)


def says(description: str) -> Meta:
    """What a setting without limits means."""
    return Meta(description=description)
