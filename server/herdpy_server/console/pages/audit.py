"""The newest of the audit log, for superusers, as far as it is in a file of this server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy_server.console.visit import ConsolePage, live_routes

if TYPE_CHECKING:
    from herdpy_server.console.visit import Visit

_MAX_LINES = 300
_CHUNK_BYTES = 256 << 10
_MAX_READ_BYTES = 16 << 20


async def _state(visit: Visit) -> dict[str, Any]:
    settings = visit.parts.config().audit
    kind, part = visit.argument("class"), visit.argument("find")
    lines: list[dict[str, Any]] = []
    problem = ""
    if settings.classes and settings.file:
        try:
            lines = await asyncio.to_thread(newest, Path(settings.file), kind, part)
        except OSError as error:
            problem = f"{settings.file}: {error.strerror}"
    return {
        "settings": settings,
        "lines": lines,
        "problem": problem,
        "kind": kind,
        "part": part,
        "most": _MAX_LINES,
    }


def newest(path: Path, kind: str, part: str, most: int = _MAX_LINES) -> list[dict[str, Any]]:
    """The newest lines of a file of JSON objects, newest first.

    Args:
        kind: of this class alone; "" of all. ``part``: is in the line, in capitals or not; "" any.

    Raises:
        OSError: it cannot be read. A file that is not there has no lines.
    """
    found: list[dict[str, Any]] = []
    needle = part.lower()
    for line in _backwards(path):
        if needle and needle not in line.lower():
            continue
        try:
            one = json.loads(line)
        except ValueError:
            continue  # cut off by a full disk, or not ours
        if isinstance(one, dict) and (not kind or one.get("class") == kind):
            found.append(one)
            if len(found) == most:
                break
    return found


def _backwards(path: Path) -> Any:
    """The lines of a file from its end, up to a limit of bytes."""
    try:
        with path.open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            stop = max(end - _MAX_READ_BYTES, 0)
            rest = b""
            while end > stop:
                start = max(end - _CHUNK_BYTES, stop)
                file.seek(start)
                first, *lines = (file.read(end - start) + rest).split(b"\n")
                yield from (line.decode(errors="replace") for line in reversed(lines) if line)
                rest, end = first, start
            if rest and not stop:
                yield rest.decode(errors="replace")
    except FileNotFoundError:
        return


PAGE = ConsolePage(
    "audit",
    "Audit log",
    "Secure",
    [*live_routes("audit", "audit", _state)],
    superusers=True,
)
