"""Terminals that run transactions beside each other until they are stopped, or their database is gone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.tpcc.profiles import Profiles
from bench.tpcc.scale import Scale

RETRIED = frozenset({"40001", "40P01"})
"""SQLSTATEs of transactions that are run again."""


class Terminal(threading.Thread):
    """One terminal. After errors of the classes ``survives`` it goes on with another connection.

    Attributes:
        done: how often each transaction was committed.
        retried: how often one had to be run again.
        error: what ended it; None as long as nothing did.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        scale: Scale,
        number: int,
        seed: int,
        stop: threading.Event,
        survives: tuple[type[BaseException], ...] = (),
    ) -> None:
        super().__init__(daemon=True)
        self.done: Counter[str] = Counter()
        self.retried = 0
        self.error: BaseException | None = None
        self._connect = connect
        self._survives = survives
        self._stop_asked = stop
        self.profiles = Profiles(connect(), scale, number % scale.warehouses + 1, seed * 1000 + number)

    def run(self) -> None:
        """Until ``stop`` is set or the connection fails."""
        try:
            while not self._stop_asked.is_set():
                try:
                    self._one()
                except self._survives:
                    self.retried += 1
                    self.profiles.connection.close()
                    self.profiles.use(self._connect())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the thread looks at it
            self.error = error
        finally:
            self.profiles.connection.close()

    def _one(self) -> None:
        try:
            self.done[self.profiles.any()] += 1
        except Exception as error:
            if getattr(error, "sqlstate", None) not in RETRIED:
                raise
            self.profiles.connection.rollback()
            self.retried += 1


def started(
    connect: Callable[[], Any],
    scale: Scale,
    count: int,
    seed: int,
    stop: threading.Event,
    survives: tuple[type[BaseException], ...] = (),
) -> list[Terminal]:
    """``count`` terminals at work."""
    found = [Terminal(connect, scale, number, seed, stop, survives) for number in range(count)]
    for one in found:
        one.start()
    return found
