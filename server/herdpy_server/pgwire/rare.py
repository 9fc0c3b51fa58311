"""Messages that are of neither kind of query, or out of place."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
