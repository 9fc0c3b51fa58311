"""The one place of the testing kit that polls: readiness of processes nobody can ask to call back."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_INTERVAL_S = 0.02


def await_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether `condition` became true within `timeout_s`; what it raises ends the wait."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_INTERVAL_S)
    return True
