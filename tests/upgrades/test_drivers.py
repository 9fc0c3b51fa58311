"""Drivers of one version on servers of the other: the driver's own tests, with a server of the other version.

pytest finds the tests' own version first (its setting ``pythonpath``); a server is a process that finds the
other one, by PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import herdpy
from tests.support.server_process import RunningServer
from tests.upgrades.release import COMMIT, ROOT, VERSION, environment, unpack

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SUITES = (
    "tests/remote/test_streams.py",
    "tests/remote/test_executemany_alike.py",
    "tests/remote/test_prepared_answers.py",
    "tests/remote/test_cancel.py",
    "tests/remote/test_cut_commits.py",
)
"""Those that need one server, and begin no process of the command line."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release with its tests."""
    place = unpack(tmp_path_factory.mktemp("release"))
    archive = subprocess.run(
        ["git", "archive", COMMIT, "tests", "pyproject.toml", "orchestration"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "x", "-C", place], input=archive.stdout, check=True)
    return place


def _mixed(server: Path | None) -> dict[str, str]:
    """The environment of processes whose servers are of that version."""
    return {**environment(server), "PYTHONSAFEPATH": "1"}


@pytest.mark.parametrize("old", ["server", "driver"])
def test_the_drivers_tests_pass(release: Path, old: str) -> None:
    server, tests = (release, ROOT) if old == "server" else (None, release)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *SUITES],
        env={**os.environ, **_mixed(server)},
        cwd=tests,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("old", [True, False])
def test_the_environment_chooses_the_servers_version(release: Path, tmp_path: Path, old: bool) -> None:
    wanted = VERSION if old else herdpy.__version__
    with closing(RunningServer(tmp_path / "d", **_mixed(release if old else None)).ready()) as server:
        (shown,) = server.connect().execute("SELECT version()").fetchone() or ("",)
        assert f"HerdPy {wanted})" in shown
