"""Compiles the hot modules into a wheel where HERDPY_COMPILE=1 asks for it; else the wheel is pure Python.

cibuildwheel sets the variable (see pyproject.toml); ``uv build`` without it makes the pure wheel beside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_EXTRAS = ("server", "remote", "sqlalchemy")
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
        groups = core.optional_dependencies
        return [*core.dependencies, *(one for name in _EXTRAS for one in groups[name]), *_TYPES]

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


def _asked() -> bool:
    return os.environ.get("HERDPY_COMPILE", "0") not in {"", "0"}
