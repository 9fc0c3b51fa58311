"""The two public copies of PEP 249's compliance suite: PyPI's, and the newer one beside psycopg2's own tests.

The latter is in psycopg2's source distribution, which pip fetches once per machine, checked by its hash.
"""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from types import ModuleType

import pytest

from herdpy.testing.java import cache_directory

VERSION = "2.9.13"
_SHA256 = "d36784fc2dae69523ba4b79c7d1d1b4d6e83e87836874f111262f4db940b16a6"
_FETCH_TIMEOUT_S = 150.0


def of_psycopg2() -> ModuleType:
    """The copy of psycopg2; skips where it cannot be fetched."""
    home = cache_directory().parent / f"psycopg2-{VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "dbapi20.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "dbapi20.py").exists():
            _fetch(home)
    spec = importlib.util.spec_from_file_location("psycopg2_dbapi20", home / "dbapi20.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _name_as_before(module.DatabaseAPI20Test)
    return module


def _name_as_before(suite: type[unittest.TestCase]) -> None:
    """Give a suite the names that unittest had until Python 3.12."""
    for old, new in (
        ("failUnless", "assertTrue"),
        ("failUnlessEqual", "assertEqual"),
        ("assertEquals", "assertEqual"),
        ("assert_", "assertTrue"),
    ):
        if not hasattr(suite, old):
            setattr(suite, old, getattr(suite, new))


def _fetch(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=home) as scratch:
        wanted = Path(scratch, "wanted.txt")
        wanted.write_text(f"psycopg2=={VERSION} --hash=sha256:{_SHA256}\n")
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                "--no-build-isolation", "--require-hashes", "--dest", scratch, "--requirement", str(wanted),
            ],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_S,
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip(f"pip cannot fetch psycopg2: {(done.stdout + done.stderr).strip()[-300:]}")
        with tarfile.open(Path(scratch, f"psycopg2-{VERSION}.tar.gz")) as archive:
            member = archive.extractfile(f"psycopg2-{VERSION}/tests/dbapi20.py")
            assert member is not None
            part = Path(scratch, "dbapi20.py")
            part.write_bytes(member.read())
        part.rename(home / "dbapi20.py")
