"""The bounds of what HerdPy needs: a part of its tests passes with the lowest versions and the newest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.install import environments
from tests.install.environments import ROOT, UV

AREAS = ("tests/dbapi", "tests/sql_plan", "tests/wire_formats", "tests/codec", "tests/pool")
NOT_THERE = "tests/dbapi/test_driver_installs.py"  # it looks for uv beside the interpreter
FOR_TESTS = (
    "hypothesis",
    "pandas<3",
    "polars",
    "psycopg2-binary",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
)
_PATIENCE_S = 3000


@pytest.mark.soak
@pytest.mark.timeout(2 * _PATIENCE_S)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_a_part_of_the_tests_passes_with_versions(resolution: str, tmp_path: Path) -> None:
    place, listed, named = (tmp_path / name for name in ("environment", "versions.txt", "named.in"))
    python = place / "bin" / "python"
    environments.run(UV, "venv", "--quiet", "--python", sys.executable, place)
    named.write_text(f"-e {ROOT / 'client'}\n-e {ROOT}[server,sqlalchemy]\n")
    compiled = ("pip", "compile", "--quiet", "--upgrade", "--python", python, "--resolution", resolution)
    environments.run(UV, *compiled, "--output-file", listed, named)
    environments.run(UV, "pip", "install", "--quiet", "--python", python, "-r", listed, *FOR_TESTS)
    tests = ("-q", "-n", "2", "-p", "no:cacheprovider", "--ignore", NOT_THERE, *AREAS)
    environments.run(python, "-m", "pytest", *tests, patience_s=_PATIENCE_S)
