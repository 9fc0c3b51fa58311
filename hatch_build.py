"""Compiles the hot modules into a wheel where HERDPY_COMPILE=1 asks for it; else the wheel is pure Python.

The README has links of the repository, which PyPI does not have: they become links to it.

cibuildwheel sets the variable (see pyproject.toml); ``uv build`` without it makes the pure wheel beside.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_EXTRA = "herdpydb[server]"
_CLIENTS = ("psycopg[binary]", "sqlalchemy[asyncio]")
"""What the modules of herdpydb-client import, whose sources are here."""
_PAGES = "https://github.com/herdpy/herdpy/blob/main/"
_RAW = "https://raw.githubusercontent.com/herdpy/herdpy/main/"
_TYPES = (
    "mypy",
    "setuptools",
    "pyarrow-stubs",
    "types-protobuf",
    "types-grpcio",
    "types-grpcio-health-checking",
)
"""What mypy needs to know the types of all that a hot module imports."""


class CompiledModules(BuildHookInterface):
    """See above."""

    def dependencies(self) -> list[str]:
        """What a build needs, where it compiles."""
        if not _asked():
            return []
        core = self.metadata.core
        return [*_others(core.dependencies, core.optional_dependencies), *_CLIENTS, *_TYPES]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and take the binaries into the wheel."""
        if version == "editable" or not _asked():
            return
        subprocess.run([sys.executable, "tools/compile_modules.py", "--wheel"], check=True, cwd=self.root)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += ["*.so", "herdpy/compiled_modules.json"]
        for name in os.listdir(self.root):
            if name.endswith(".so"):
                build_data["force_include"][os.path.join(self.root, name)] = name


class Readme(MetadataHookInterface):
    """See above."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{_RAW}", text)
        text = re.sub(r"((?<!!)\[[^]!]*\]\()(?!https?:|#)", rf"\1{_PAGES}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _others(core: list[str], extras: dict[str, list[str]]) -> Iterator[str]:
    """What the database and a server need, without what is built from these sources."""
    for requirement in [*core, _EXTRA]:
        yield from _spelled_out(requirement, extras)


def _spelled_out(requirement: str, extras: dict[str, list[str]]) -> Iterator[str]:
    ours = re.fullmatch(r"herdpydb(?:-client)?(?:\[(\w+)\])?(?:==.*)?", requirement)
    if ours is None:
        yield requirement
        return
    for one in extras[ours[1]] if ours[1] else ():
        yield from _spelled_out(one, extras)


def _asked() -> bool:
    return os.environ.get("HERDPY_COMPILE", "0") not in {"", "0"}
