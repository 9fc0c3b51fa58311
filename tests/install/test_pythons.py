"""Every Python that the package names: pip installs, README's examples run, a server serves a client.

A version that this machine does not have is left out, and named; HERDPY_PYTHON3_14 and the like say where one
is. GitHub's runs have them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.install import environments, journeys

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_documented_words_work(version: str, wheels: Path, tmp_path: Path) -> None:
    found = environments.interpreters(version)
    if not found:
        pytest.skip(f"there is no Python {version} here")
    words = {"plain": "herdpydb", "server": "herdpydb[server]", "client": "herdpydb-client[sqlalchemy]"}
    made = {
        name: environments.install_by_pip(tmp_path / name, wheels, word, python=found[-1])
        for name, word in words.items()
    }
    for name in ("readme", "talk"):
        (tmp_path / name).mkdir()
    journeys.run_readme(made["plain"], tmp_path / "readme")
    seen = journeys.use_a_server(made["server"], made["client"], tmp_path / "talk", "sqlalchemy")
    assert seen["sqlalchemy"] == ["herdpy", "1.80"]
