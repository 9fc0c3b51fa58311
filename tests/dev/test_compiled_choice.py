"""``herdpy.compiled`` takes binaries or sources, all or none; asked in a copy of the package with one module
whose binary cannot be loaded, so that whoever takes it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import herdpy.compiled

ASK = """
from herdpy import compiled
print(compiled.IMPLEMENTATION, "|", compiled.REASON)
try:
    import herdpy.hot
    print("source")
except ImportError:
    print("binary")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """``herdpy`` with what decides, and a module with a binary."""
    made = tmp_path / "herdpy"
    made.mkdir()
    (made / "__init__.py").write_text("import herdpy.compiled\n")
    (made / "compiled.py").write_text(Path(herdpy.compiled.__file__).read_text())
    (made / "hot.py").write_text("VALUE = 1\n")
    return made


def _compile(package: Path, *, wheel: bool = False) -> None:
    (package / f"hot{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    stat = (package / "hot.py").stat()
    listed = {"herdpy/hot.py": None if wheel else [stat.st_size, stat.st_mtime_ns]}
    (package / "compiled_modules.json").write_text(json.dumps(listed))


def _asked(package: Path, **environment: str) -> tuple[str, str, str]:
    """What runs, why it is not compiled, and what the module came from."""
    run = subprocess.run(
        [sys.executable, "-S", "-c", ASK],
        cwd=package.parent,
        env={"PYTHONPATH": str(package.parent), "PATH": os.environ["PATH"]} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    chosen, came_from = run.stdout.splitlines()
    implementation, _, reason = chosen.partition(" | ")
    return implementation, reason.strip(), came_from


def test_without_a_list_sources_run(package: Path) -> None:
    assert _asked(package) == ("pure", "no module was compiled", "source")


@pytest.mark.parametrize("wheel", [False, True])
def test_what_was_compiled_runs(package: Path, wheel: bool) -> None:
    _compile(package, wheel=wheel)
    assert _asked(package) == ("compiled", "", "binary")


def test_sources_run_where_they_are_asked_for(package: Path) -> None:
    _compile(package)
    assert _asked(package, HERDPY_PURE="1") == ("pure", "HERDPY_PURE is set", "source")
    assert _asked(package, HERDPY_PURE="0") == ("compiled", "", "binary")


def test_sources_run_once_one_has_changed(package: Path) -> None:
    _compile(package)
    (package / "hot.py").write_text("VALUE = 22\n")
    implementation, reason, came_from = _asked(package)
    assert (implementation, came_from) == ("pure", "source")
    assert reason == "herdpy/hot.py has changed since it was compiled: run make compiled again"


def test_a_binary_of_any_suffix_that_python_takes_is_one(package: Path) -> None:
    """An interpreter for debugging has a suffix of its own, and takes the usual one after it."""
    _compile(package)
    (package / f"hot{EXTENSION_SUFFIXES[0]}").rename(package / f"hot{EXTENSION_SUFFIXES[-1]}")
    assert _asked(package) == ("compiled", "", "binary")


def test_binaries_of_another_python_are_left_alone(package: Path) -> None:
    _compile(package)
    (package / f"hot{EXTENSION_SUFFIXES[0]}").rename(package / "hot.cpython-39-x86_64-linux-gnu.so")
    implementation, reason, came_from = _asked(package)
    assert (implementation, came_from) == ("pure", "source")
    assert "compiled for another Python" in reason
