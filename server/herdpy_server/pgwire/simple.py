"""The simple query: a text of any number of statements, each answered with its rows in text.

Above ``conversation``: one of the handlers that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.pgwire import backend, messages
from herdpy_server.pgwire.bound import TEXT, make_encoder
from herdpy_server.pgwire.copying import copy
from herdpy_server.pgwire.results import SMALL_ROWS, send_rows
from herdpy_server.pgwire.round_trip import plain_query

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result, SimpleQuery


def query(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Query."""
    conversation.extended = False
    sql = messages.query(data, at, stop)
    if plain_query(conversation, sql):
        return
    session = conversation.session
    session.close_statement("")
    session.close_portal("")
    statements = session.simple_query(sql)
    if statements.is_empty:
        conversation.out.append(backend.EMPTY_QUERY)
        conversation.ready()
    else:
        conversation.drive(_statements(conversation, statements))


async def _statements(conversation: Conversation, statements: SimpleQuery) -> None:
    session = conversation.session
    while True:
        result = await statements.step()
        if result is None:
            break
        if result.copy is not None:
            await copy(conversation, result)
            continue
        if result.columns is not None:
            await _rows(conversation, result)
        if session.notices:
            conversation.notify()
        conversation.out.append(backend.command_complete(result.tag))
    conversation.ready()


async def _rows(conversation: Conversation, result: Result) -> None:
    columns = result.columns
    assert columns is not None
    conversation.out.append(backend.row_description(columns, (0,) * len(columns)))
    if result.stream is not None or result.length > SMALL_ROWS:
        await send_rows(conversation, result, TEXT)
        return
    rows = result.rows
    if rows:
        encode = make_encoder(columns, TEXT, conversation.session.settings.zone)
        conversation.connection.send(encode(rows))
