"""What is sent and taken bit by bit: large answers, and the data of COPY.

Above ``conversation``, below ``queries``. Rows are made and sent no faster than the client reads them. COPY's
formats are ``herdpy_server.copy``'s, the table is the session's; here are the CopyData messages. Coming in,
they are taken from the inbox one by one by the coroutine that the statement is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from herdpy_server.pgwire import backend, frontend
from herdpy_server.pgwire.backend import FatalError, ProtocolViolationError, error_response
from herdpy_server.pgwire.client_statements import TEXT, make_encoder, row_form
from herdpy_server.pgwire.connection import FLUSH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from herdpy_server.pgwire.client_statements import Formats, RowsEncoder
    from herdpy_server.pgwire.connection import ClientConnection
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result
    from herdpy_server.sessions.copying import CopySink, CopySource
    from herdpy_server.sessions.result import Row
    from herdpy_server.wire.columns import DataRowForm
    from herdpy_sql.plan import OutputColumn
    from herdpy_sql.values.styles import Style


SMALL_ROWS = 64
"""Answers of no more rows than that are made at once."""
_BATCH_ROWS = 2048
"""Rows of an Arrow table that are made at once: others wait for about a millisecond."""
_DATA = ord("d")
_DONE = ord("c")
_FAIL = ord("f")
_IGNORED = frozenset(b"HS")  # a client that pipelines may have sent them already


async def send_rows(conversation: Conversation, result: Result, results: Formats) -> None:
    """Send the rows of an answer as DataRow messages, as they come.

    Raises:
        SqlError: why there are no more of them.
        ConnectionLost: the client went away.
    """
    columns = result.columns
    assert columns is not None
    connection = conversation.connection
    style = conversation.session.settings.style
    stream = result.stream
    if stream is None:
        await _send_piece(connection, result, columns, results, style)
        return
    try:
        if stream.as_bytes:
            form = row_form(columns, results, style)
            while (data := await stream.next_bytes(form)) is not None:
                await send_bytes(connection, data)
        else:
            stream.prefer(row_form(columns, results, style))
            while (piece := await stream.next()) is not None:
                await _send_piece(connection, piece, columns, results, style)
                await _show(connection)
    finally:
        stream.close()


def cursor_form(conversation: Conversation, columns: Sequence[OutputColumn]) -> DataRowForm:
    """The form of the rows of a cursor that is being declared: that of DECLARE's own results.

    It is a guess: drivers ask for all results alike.
    """
    found = conversation.portals.get("") if conversation.extended else None
    results = TEXT if found is None or len(found.results) > 1 else found.results
    return row_form(columns, results, conversation.session.settings.style)


async def _send_piece(
    connection: ClientConnection,
    piece: Result,
    columns: Sequence[OutputColumn],
    results: Formats,
    style: Style,
) -> None:
    """Send rows that are here: as they were encoded, or by columns, unless they are few."""
    form = row_form(columns, results, style)
    if piece.encoded is not None and piece.encoded.form == form:
        await send_bytes(connection, piece.encoded.data)
        return
    batches = piece.batches(_BATCH_ROWS) if piece.length > SMALL_ROWS else None
    if batches is None:
        await _send(connection, make_encoder(columns, results, style), piece.chunks())
        return
    for batch in batches:
        await send_bytes(connection, form.batch(batch))


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


async def copy(conversation: Conversation, result: Result) -> None:
    """Carry out a COPY whose statement has begun, and complete it.

    Raises:
        SqlError: whatever is wrong with the data, or 57014 when the client gave up.
        FatalError: 08P01, another message came among the data.
        ConnectionLost: the client went away.
    """
    if hasattr(result.copy, "feed"):
        tag = await _copy_in(conversation, cast("CopySink", result.copy))
    else:
        tag = await _copy_out(conversation, cast("CopySource", result.copy))
    if conversation.session.notices:
        conversation.notify()
    conversation.out.append(backend.command_complete(tag))


async def _copy_in(conversation: Conversation, sink: CopySink) -> str:
    conversation.connection.send(backend.copy_response(b"G", sink.columns, binary=sink.is_binary))
    conversation.connection.flush = True
    inbox = conversation.connection.inbox
    try:
        while True:
            message = inbox.next()
            if message is None:
                await conversation.more_input()
                continue
            kind, at, stop = message
            if kind == _DATA:
                await sink.feed(inbox.data[at:stop])
            elif kind == _DONE:
                break
            elif kind == _FAIL:
                reason, _ = frontend.string(inbox.data, at, stop)
                await sink.fail(f"COPY from stdin failed: {reason}")
            elif kind not in _IGNORED:
                raise _out_of_place(conversation, kind)
        return await sink.finish()
    except BaseException:
        conversation.session.abort()
        raise


def _out_of_place(conversation: Conversation, kind: int) -> FatalError:
    """PostgreSQL does not read on after such a message: the two sides disagree on what is going on."""
    wrong = ProtocolViolationError(f"unexpected message type 0x{kind:02X} during COPY from stdin")
    conversation.connection.send(error_response(wrong))
    return FatalError("08P01", "terminating connection because protocol synchronization was lost")


async def _copy_out(conversation: Conversation, source: CopySource) -> str:
    connection = conversation.connection
    connection.send(backend.copy_response(b"H", source.columns, binary=source.is_binary))
    try:
        while (data := await source.next()) is not None:
            await send_bytes(connection, data)
    finally:
        source.close()
    tag = await source.finish()
    connection.out.append(backend.COPY_DONE)
    return tag
