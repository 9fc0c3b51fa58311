"""The engine, and transactions that are run again when that may help."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

T = TypeVar("T")

URL_VARIABLE = "ORDERS_DATABASE"
HERE = "herdpy:///./orders-data"
PATIENCE_S = 60.0


def url() -> str:
    """Where the orders are kept: a directory here, if the environment names no cluster."""
    return os.environ.get(URL_VARIABLE, HERE)


@cache
def engine() -> Engine:
    """The one engine of this process."""
    return create_engine(url(), pool_size=16)


def transaction(work: Callable[[Session], T]) -> T:
    """Run ``work`` as one transaction, and again when that may help.

    It is run again after a deadlock, and when a leader was lost. It is also run again when nobody can
    say what became of a commit (SQLSTATE 08007): so ``work`` must first look whether it was done.
    """
    until = time.monotonic() + PATIENCE_S
    pause_s = 0.01
    while True:
        try:
            with Session(engine(), expire_on_commit=False) as session, session.begin():
                return work(session)
        except DBAPIError as error:
            if not helps_to_try_again(error) or time.monotonic() + pause_s > until:
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, 1.0)


def helps_to_try_again(error: DBAPIError) -> bool:
    """Whether the transaction was lost, or nobody can say what became of it."""
    cause = error.orig  # what the driver raised
    return getattr(cause, "retryable", False) or getattr(cause, "outcome", "not done") == "unknown"
