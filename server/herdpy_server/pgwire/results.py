"""Large answers, made and sent bit by bit, no faster than the client reads them.

Above ``conversation``, below ``extended``, ``simple`` and ``copying``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.pgwire.bound import make_encoder, row_form
from herdpy_server.pgwire.connection import FLUSH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herdpy_server.pgwire.bound import Formats, RowsEncoder
    from herdpy_server.pgwire.connection import ClientConnection
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result
    from herdpy_server.sessions.result import Row

SMALL_ROWS = 64
"""Answers of no more rows than that are made at once."""


async def send_rows(conversation: Conversation, result: Result, results: Formats) -> None:
    """Send the rows of an answer as DataRow messages, as they come.

    Raises:
        SqlError: why there are no more of them.
        ConnectionLost: the client went away.
    """
    columns = result.columns
    assert columns is not None
    connection = conversation.connection
    zone = conversation.session.settings.zone
    stream = result.stream
    if stream is None:
        await _send(connection, make_encoder(columns, results, zone), result.chunks())
        return
    try:
        if stream.as_bytes:
            form = row_form(columns, results, zone)
            while (data := await stream.next_bytes(form)) is not None:
                await send_bytes(connection, data)
        else:
            encode = make_encoder(columns, results, zone)
            while (piece := await stream.next()) is not None:
                await _send(connection, encode, piece.chunks())
                await _show(connection)
    finally:
        stream.close()


async def send_bytes(connection: ClientConnection, data: bytes) -> None:
    """Send messages that were made elsewhere; ConnectionLost when the client went away."""
    chunk_bytes = connection.context.settings.chunk_bytes
    if len(data) <= 2 * chunk_bytes:
        connection.send(data)
        await _show(connection)
        return
    for at in range(0, len(data), chunk_bytes):  # rows may be long, and are not to be copied all at once
        connection.send(data[at : at + chunk_bytes])
        await _show(connection)


async def _show(connection: ClientConnection) -> None:
    """What comes next may take long: let the client see what there is, unless it is little.

    Others have their turn then, too: what comes may be there already, again and again.
    """
    if connection.out_bytes > FLUSH_BYTES or connection.is_full:
        await connection.room()


async def _send(connection: ClientConnection, encode: RowsEncoder, pieces: Iterable[list[Row]]) -> None:
    chunk_bytes = connection.context.settings.chunk_bytes
    step = SMALL_ROWS
    for rows in pieces:
        start = 0
        while start < len(rows):
            encoded = encode(rows[start : start + step])
            taken = min(step, len(rows) - start)
            start += taken
            connection.send(encoded)
            if connection.out_bytes >= chunk_bytes or connection.is_full:
                await connection.room()
            step = max(1, chunk_bytes * taken // max(len(encoded), 1))
