"""Which function answers which type of message."""

from __future__ import annotations

from herdpy_server.pgwire import extended, simple
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
        ord("F"): extended.function_call,
        ord("X"): extended.terminate,
        ord("d"): extended.ignore,
        ord("c"): extended.ignore,
        ord("f"): extended.ignore,
    }
)

KINDS = frozenset(HANDLERS)
