"""Every session script gives the answers it shows. HERDPY_REWRITE_GOLDEN=1 writes what is given now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from session_scripts import SCRIPTS, Runner, read_script, render

from herdpy_server.embedded import opened
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.sessions.registry import SessionRegistry

WITH_ROLES = {"partitions_rights", "rights", "rights_seen"}
"""Scripts that need a server's roles."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        if path.stem in WITH_ROLES:
            registry = SessionRegistry(RoleStore(RoleFile(None)))
            registry.add(session, user="admin", database="postgres", end=lambda _error: None)
        given = render(read_script(path), Runner(database, session).answer)
    if os.environ.get("HERDPY_REWRITE_GOLDEN"):
        path.write_text(given)
    assert given == path.read_text()


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 6
