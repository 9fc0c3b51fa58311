"""Large answers, made and sent bit by bit, no faster than the client reads them.

A part of :class:`Conversation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.pgwire.bound import make_encoder

if TYPE_CHECKING:
    from herdpy_server.pgwire.bound import Formats
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result

SMALL_ROWS = 64
"""Answers of no more rows than that are made at once."""


async def send_rows(conversation: Conversation, result: Result, results: Formats) -> None:
    """Send the rows of an answer as DataRow messages.

    Raises:
        ConnectionLost: the client went away.
    """
    columns = result.columns
    assert columns is not None
    connection = conversation.connection
    encode = make_encoder(columns, results, conversation.session.settings.zone)
    chunk_bytes = connection.server.settings.chunk_bytes
    step = SMALL_ROWS
    for rows in result.chunks():
        start = 0
        while start < len(rows):
            encoded = encode(rows[start : start + step])
            taken = min(step, len(rows) - start)
            start += taken
            connection.send(encoded)
            if connection.out_bytes >= chunk_bytes or connection.is_full:
                await connection.room()
            step = max(1, chunk_bytes * taken // max(len(encoded), 1))
