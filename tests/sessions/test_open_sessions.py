"""The sessions that a host knows of go when nobody holds them any more."""

from __future__ import annotations

import gc
from pathlib import Path

from herdpy_server.embedded import opened
from herdpy_server.sessions import OpenSessions


def test_a_session_that_nobody_holds_is_not_among_the_open_ones(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        sessions = OpenSessions()
        held, dropped = database.session(), database.session()
        sessions.add(held)
        sessions.add(dropped)
        assert {id(one) for one in sessions} == {id(held), id(dropped)}
        del dropped
        gc.collect()
        assert list(sessions) == [held]


def test_a_closing_database_ends_the_sessions_that_are_held(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as database:
        session = database.session()
        gc.collect()
    assert session.waits.is_closed
