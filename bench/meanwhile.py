"""What a benchmark does in a thread beside the thing that it measures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Within the block ``work(over)`` runs in a thread; at its end ``over`` is set, and the thread awaited.

    Raises:
        BaseException: what the work raised, at the block's end.
    """
    over = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(over)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]
