"""The last release, as the repository's history has it, run beside this code by the same interpreter.

A release is unpacked into a directory, and its packages are found there first, by PYTHONPATH.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

VERSION = "0.1.0"
COMMIT = "77a409ab"
"""The commit that was released as ``VERSION``."""

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("herdpy", "server", "sql", "spark_jobs")


def unpack(directory: Path) -> Path:
    """The release's files in ``directory``. The test fails where the history does not have the commit."""
    archive = subprocess.run(
        ["git", "archive", COMMIT, *_PACKAGES], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        reason = archive.stderr.decode().strip()
        pytest.fail(
            f"the history has no commit {COMMIT}, which is release {VERSION}: fetch it"
            f" (git fetch --unshallow); {reason}"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def environment(release: Path | None) -> Mapping[str, str]:
    """What a process needs to run the release; None: this code."""
    base = ROOT if release is None else release
    return {"PYTHONPATH": os.pathsep.join(str(base / one) for one in ("", "server", "sql", "spark_jobs"))}


def run(release: Path | None, *words: object, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end."""
    return subprocess.run(
        [sys.executable, "-P", *map(str, words)],
        env={**os.environ, **environment(release)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
