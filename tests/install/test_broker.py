"""The broker's wheel: all of its package is in it, and what the broker's page installs does a task."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.install import environments
from tests.install.environments import ROOT, Installed
from tests.install.journeys import files_of

PROJECT = "examples/broker"


def build(place: Path) -> None:
    """Build the wheel, in the directory ``broker-...`` of a new one (see ``environments.build``)."""
    new = place / "new"
    environments.uv("build", "--quiet", "--wheel", "--out-dir", new, ROOT / PROJECT)
    (wheel,) = new.glob("*.whl")
    new.rename(place / f"broker-{hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]}")


@pytest.fixture(scope="session")
def dist(place: Path) -> Path:
    """The directory with the wheel."""
    (found,) = environments.once(place / "broker-dist", build).glob("broker-*")
    return found


@pytest.fixture(scope="session")
def broker(place: Path, wheels: Path, dist: Path) -> Installed:
    """``pip install "herdpydb[server]" "herdpy-broker[web]"``."""
    words = ("herdpydb[server]", "herdpy-broker[web]", "--find-links", dist)
    constraints = ("--constraints", wheels / "constraints.txt")
    return Installed(
        environments.once(place / "broker", lambda to: environments.install(to, wheels, *words, *constraints))
    )


def test_every_file_of_the_package_is_in_the_wheel(dist: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "herdpy_broker"],
        cwd=ROOT / PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    (wheel,) = dist.glob("*.whl")
    assert {name for name in files_of(wheel) if ".dist-info/" not in name} == set(listed)


@pytest.mark.timeout(900)
def test_what_the_page_installs_does_a_task_and_brings_the_drill(broker: Installed, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("HANDLERS = {'double': lambda context: context.task.payload * 2}\n")

    def command(*words: str) -> str:
        return broker.run("herdpy-broker", *words, cwd=tmp_path, HERDPY_URL="herdpy:work")

    assert command("migrate") == "The broker's tables have version 1.\n"
    command("type", "double")
    assert command("submit", "double", "21") == "1\n"
    found = broker.child("broker.py", "herdpy:work", cwd=tmp_path)
    assert found == {"result": 42, "page": 200, "drills": ["broker-storm"]}
    assert " done" in command("task", "1")
