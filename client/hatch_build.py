"""The files of herdpydb-client: those that the wheel of herdpydb leaves out, so that no file is in both.

In the repository they lie in the folder above, and its pyproject.toml lists them (``exclude`` of the wheel).
The sdist has them, as the wheel does, in ``herdpy`` and ``herdpy_sql`` beside this file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SUFFIXES = {".py", ".typed"}
_ROOTS = ("sql",)
"""Folders of the repository that have packages in them."""


class ClientFiles(BuildHookInterface):
    """See above."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files."""
        if version == "editable":
            return
        here = Path(self.root)
        above = here.parent / "pyproject.toml"
        files = _unpacked(here) if (here / "herdpy").is_dir() else _of_the_repository(above)
        build_data["force_include"].update({str(path): name for path, name in files})


def _unpacked(here: Path) -> Iterator[tuple[Path, str]]:
    for package in ("herdpy", "herdpy_sql"):
        for path in _sources(here / package):
            yield path, path.relative_to(here).as_posix()


def _of_the_repository(project: Path) -> Iterator[tuple[Path, str]]:
    build = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    for name in build["targets"]["wheel"]["exclude"]:
        found = project.parent / name.strip("/")
        if not found.exists():
            raise FileNotFoundError(f"{project} leaves out {name}, which does not exist")
        for path in _sources(found):
            relative = path.relative_to(project.parent)
            yield path, Path(*relative.parts[relative.parts[0] in _ROOTS :]).as_posix()


def _sources(found: Path) -> Iterator[Path]:
    paths = sorted(found.rglob("*")) if found.is_dir() else [found]
    return (path for path in paths if path.suffix in _SUFFIXES and "__pycache__" not in path.parts)
