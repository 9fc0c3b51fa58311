"""Statements step by step: a test sees what each waits for, and goes on when it likes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from herdpy.log.wait import Wait, run_blocking
from herdpy_server.sessions import Result, Session

STEP = Coroutine[Any, Any, Result]


def ask(session: Session, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, all of whose waits are waited for."""
    return run_blocking(session.execute(sql)).rows


def until(steps: STEP, *kinds: type[Wait[Any]]) -> Wait[Any]:
    """Go on with a statement until it waits for something of a kind."""
    while True:
        wait = steps.send(None)
        if type(wait) in kinds:
            return wait  # type: ignore[no-any-return]
        wait.block()
