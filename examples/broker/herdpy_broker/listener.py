"""The listener: wakes the claim loop when tasks become ready. Layer 3.

    LISTEN broker -> notification, its payload a group -> WorkerState.wake
                  -> a gap (another server, a lost connection) -> the claim loop looks by itself

While it listens the claim loop need not look often. A worker whose listener cannot listen works, too.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import herdpy
from herdpy.backoff import Backoff
from herdpy_broker.state import WorkerState
from herdpy_broker.transactions import APPLICATION
from herdpy_broker.waking import CHANNEL

logger = logging.getLogger("herdpy_broker")

_SLICE_S = 0.5
"""The listener ends within so many seconds."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_NOT_SUPPORTED = "0A000"


class Listener:
    """Listens on a connection of its own.

    Args:
        url: of the database.
    """

    def __init__(self, url: str, state: WorkerState) -> None:
        self._url, self._state = url, state

    def run(self, ended: threading.Event) -> None:
        """Listen until ``ended`` is set, or it cannot listen at all."""
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while not ended.is_set():
            try:
                with herdpy.connect(self._url, autocommit=True, application_name=APPLICATION) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._state.set_listening(True)
                    backoff.reset()
                    self._hear(connection, ended)
            except herdpy.Error as error:
                if error.sqlstate == _NOT_SUPPORTED:
                    return
                logger.warning("notifications are missed: %s", error)
            finally:
                self._state.set_listening(False)
            ended.wait(backoff.pause_s())

    def _hear(self, connection: herdpy.Connection[Any], ended: threading.Event) -> None:
        while not ended.is_set():
            for found in connection.notifies(timeout_s=_SLICE_S):
                if found.missed:
                    self._state.look()
                else:
                    self._state.wake([found.payload])
                if ended.is_set():
                    return
