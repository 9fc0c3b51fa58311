"""The project's pages of documentation: not those of tools that keep files of their own in the checkout."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OTHERS = {"node_modules", "build", "dist"}


def pages() -> list[Path]:
    """Every Markdown file, in order; hidden directories are others'."""
    found = []
    for directory, inner, files in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in _OTHERS]
        found += [Path(directory, name) for name in files if name.endswith(".md")]
    return sorted(found)


PAGES = pages()
