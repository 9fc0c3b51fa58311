"""Every isolation script gives the answers it shows. HERDPY_REWRITE_GOLDEN=1 writes what is given now."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from isolation_scripts import SCRIPTS, Herd, play, read_script, render

from herdpy_server.embedded import Database, opened


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with opened(tmp_path_factory.mktemp("isolation") / "db") as database:
        yield database


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, database: Database) -> None:
    head, sections = read_script(path)
    played = []
    for section in sections:
        herd = Herd(database)
        played.append((section, play(section, herd)))
        herd.close()
    given = render(head, played)
    if os.environ.get("HERDPY_REWRITE_GOLDEN"):
        path.write_text(given)
    assert given == path.read_text()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_columnar_engine_reads_the_same(path: Path, database: Database) -> None:
    """Whoever reads: own plans and DuckDB over a snapshot are judged alike."""
    for section in read_script(path)[1]:
        herd = Herd(database, "columnar")
        given = play(section, herd)
        herd.close()
        assert given == section.lines


def test_there_is_a_script_for_each_anomaly() -> None:
    assert len(SCRIPTS) >= 17
