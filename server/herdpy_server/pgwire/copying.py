"""COPY: data of any format in CopyData messages, from the client and to it.

Above ``conversation``, below ``simple`` and ``extended``. The formats are ``herdpy_server.copy``'s, the table
is the session's; here are the messages. Coming in, messages are taken from the inbox one by one by the
coroutine that the statement is; going out, messages are made no faster than the client reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from herdpy_server.pgwire import backend, messages
from herdpy_server.pgwire.errors import FatalError, ProtocolViolationError, error_response
from herdpy_server.pgwire.results import send_bytes

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result
    from herdpy_server.sessions.copying import CopySink, CopySource

_DATA = ord("d")
_DONE = ord("c")
_FAIL = ord("f")
_IGNORED = frozenset(b"HS")  # a client that pipelines may have sent them already


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
                reason, _ = messages.string(inbox.data, at, stop)
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
