"""Which function answers which type of message."""

from __future__ import annotations

from herdpy_server.pgwire import extended, rare, simple
from herdpy_server.pgwire.conversation import HANDLERS

HANDLERS.update(
    {
        ord("Q"): simple.query,
        ord("P"): extended.parse,
        ord("B"): extended.bind,
        ord("D"): extended.describe,
        ord("E"): extended.execute,
        ord("C"): extended.close,
        ord("H"): extended.flush,
        ord("S"): extended.sync,
        ord("F"): rare.function_call,
        ord("X"): rare.terminate,
        ord("d"): rare.ignore,
        ord("c"): rare.ignore,
        ord("f"): rare.ignore,
    }
)

KINDS = frozenset(HANDLERS)
