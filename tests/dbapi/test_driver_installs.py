"""What an install of the driver brings: no more packages than docs/drivers.md names.

uv.lock says what comes, without a network. tests/install sees that it is enough.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from herdpy.distribution import CLIENT_NAME

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "drivers.md"
EXTRAS = ("", "zk", "sqlalchemy")
HEAVY = {"duckdb", "grpcio", "lmdb", "msgspec", "numpy", "pandas", "protobuf", "pyarrow", "sqlglot", "uvloop"}
"""Packages that are megabytes, or the engine's: no driver needs them."""
_ROW = re.compile(rf'^\| `pip install "?{CLIENT_NAME}(?:\[(\w+)\])?"?` \| ([^|]*) \|', re.MULTILINE)


def named() -> dict[str, set[str]]:
    """The packages that each install brings, as the page says: those of its row, and of the plain name."""
    rows = {extra: set(re.findall(r"`([\w-]+)`", cell)) for extra, cell in _ROW.findall(PAGE.read_text())}
    return {extra: packages | rows[""] for extra, packages in rows.items()}


def brought(extra: str) -> set[str]:
    """The packages that come with an extra on Linux, as uv.lock has them."""
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [str(uv), "export", "--frozen", "--offline", "--no-dev", "--no-emit-workspace", "--no-hashes"]
    command += ["--package", CLIENT_NAME, *(["--extra", extra] if extra else [])]
    command += ["--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = [line for line in done.stdout.splitlines() if "'win32'" not in line]
    return {line.partition("==")[0] for line in lines}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_install_brings_what_the_page_names(extra):
    packages = brought(extra)
    assert packages == named()[extra]
    assert not packages & HEAVY
