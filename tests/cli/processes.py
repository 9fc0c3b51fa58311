"""The command line as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def command(*arguments: object) -> list[str]:
    """The command line of ``herdpy`` as a process."""
    return [sys.executable, "-m", "herdpy.cli", *map(str, arguments)]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """What such a process runs in: nothing of the user's, no history kept."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERDPY", "XDG"))}
    return {**kept, "HOME": str(tmp_path), "HERDPY_HISTORY": "", "TERM": "xterm", **more}
