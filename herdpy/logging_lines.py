"""Records of Python's ``logging`` as lines: of text for people, of JSON for collectors.

At the bottom: it imports nothing of ours. A record's ``extra`` values are its fields. Servers and jobs of
Spark write the same lines.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """One line for people: time, level, logger, message, name=value for each field."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_text(value)}" for name, value in fields_of(record).items())
        line = (
            f"{_time(record)} {record.levelname:<7} {record.name}: {_one_line(record.getMessage())}{fields}"
        )
        if record.exc_info and record.exc_info[1] is not None:
            line += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields, exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in fields_of(record).items():
            said[name if name not in said else f"{name}_"] = value
        if record.exc_info and record.exc_info[1] is not None:
            said["exception"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(said, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What was given as ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    """A message may repeat what a client sent: it must not be able to write lines of its own."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1] if ord(char) < 128 else f"\\u{ord(char):04x}"


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)
