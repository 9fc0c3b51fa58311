"""Which function answers which type of message: the simple query, the extended query, and what is neither.

Above ``simple``, ``extended`` and ``round_trip``. ``opening`` gives the table to each conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.pgwire import extended, simple
from herdpy_server.pgwire.conversation import MessageHandlers
from herdpy_server.pgwire.round_trip import round_trip
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation


def function_call(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """FunctionCall: PostgreSQL's oldest way to call a function, which needs its object ids."""
    del data, at, stop
    conversation.extended = False
    raise SqlError("0A000", "function calls by message are not supported", hint="Use SELECT.")


def ignore(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Messages of COPY when there is none, which follow one that failed."""
    del conversation, data, at, stop


def terminate(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Terminate: the client says good-bye."""
    del data, at, stop
    conversation.close()


HANDLERS = MessageHandlers(
    round_trip,
    {
        ord("Q"): simple.query,
        ord("P"): extended.parse,
        ord("B"): extended.bind,
        ord("D"): extended.describe,
        ord("E"): extended.execute,
        ord("C"): extended.close,
        ord("H"): extended.flush,
        ord("S"): extended.sync,
        ord("F"): function_call,
        ord("X"): terminate,
        ord("d"): ignore,
        ord("c"): ignore,
        ord("f"): ignore,
    },
)
"""What a session's messages are answered by."""
