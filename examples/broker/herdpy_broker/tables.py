"""What commands print: tables for people, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

_LONGEST = 60


def json_lines(rows: Iterable[Any]) -> str:
    """One JSON object a line, of dataclasses or mappings; times are ISO 8601."""
    return "\n".join(json.dumps(_plain(row), ensure_ascii=False, default=_text) for row in rows)


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns under their names, numbers to the right; long texts are cut, control characters replaced."""
    kept = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in kept]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    is_number = [
        bool(kept) and all(isinstance(row[index], int | float | None) for row in kept)
        for index in range(len(names))
    ]

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, is_number, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(names), line(["-" * width for width in widths]), *map(line, cells)])


def _plain(row: Any) -> Any:
    return asdict(row) if is_dataclass(row) and not isinstance(row, type) else row


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.1f}"
    text = "".join(char if char.isprintable() else " " for char in str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
