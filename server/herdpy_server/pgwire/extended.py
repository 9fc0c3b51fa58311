"""The extended query: Parse, Bind, Describe, Execute, Close, Flush, Sync.

Above ``conversation``: handlers that it is given; the hot path of the server. A portal that need not wait is
run by one ``send`` into the session's coroutine, with no run made for it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from herdpy_server.pgwire import backend, messages
from herdpy_server.pgwire.bound import (
    TEXT,
    BindPattern,
    ClientPortal,
    ClientStatement,
    check_parameter_formats,
    check_result_formats,
    make_encoder,
)
from herdpy_server.pgwire.copying import copy
from herdpy_server.pgwire.errors import ProtocolViolationError
from herdpy_server.pgwire.results import SMALL_ROWS, send_rows
from herdpy_server.wire import type_of_oid
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import Result
    from herdpy_sql.plan import OutputColumn

_STATEMENT = ord("S")
_PORTAL = ord("P")
_SYNC = ord("S")
_TEXTS = 64
_UNNAMED_PORTAL = b"P\0"
_BORROWING = frozenset({"EXECUTE", "FETCH"})  # their rows are another statement's
_ALL_ROWS = b"\0\0\0\0\0"  # of the unnamed portal


def parse(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Parse: prepare a statement."""
    conversation.extended = True
    name, sql, oids = messages.parse(data, at, stop)
    try:
        _parse(conversation, name, sql, oids)
    except SqlError:
        if conversation.session.transaction is not None or not conversation.session.checks.waits_to_read:
            raise
        conversation.drive(_parse_later(conversation, name, sql, oids))


async def _parse_later(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    """Parse once this replica has the definitions that the session's read level wants."""
    try:
        await conversation.session.checks.until_readable()
    except SqlError as refusal:
        with suppress(SqlError):  # else what cannot be read is told when it is executed
            _parse(conversation, name, sql, oids)
            return
        raise refusal
    _parse(conversation, name, sql, oids)


def _parse(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    session = conversation.session
    conversation.bound.pop(name, None)
    session.parse(name, sql, tuple([type_of_oid(oid) for oid in oids]) if oids else ())
    statement = session.prepared[name]
    bound = conversation.bound
    if name:
        bound[name] = ClientStatement(name, statement, oids)
        if len(bound) > 2 * len(session.prepared) + 16:
            _forget_dead(conversation)
    else:
        texts = conversation.texts
        again = texts.get(sql)
        if again is None or not again.parsed_again(statement, oids):
            if len(texts) >= _TEXTS:
                texts.clear()
            texts[sql] = again = ClientStatement(name, statement, oids)
        bound[""] = again
    conversation.out.append(backend.PARSE_COMPLETE)


def _forget_dead(conversation: Conversation) -> None:
    """Drop what was remembered of statements that SQL deallocated."""
    prepared, bound = conversation.session.prepared, conversation.bound
    for name in [name for name, one in bound.items() if prepared.get(name) is not one.statement]:
        del bound[name]


def _bound(conversation: Conversation, name: str) -> ClientStatement:
    """What is remembered of the prepared statement ``name``. SqlError 26000 when there is none."""
    session = conversation.session
    statement = session.prepared.get(name)
    bound = conversation.bound.get(name)
    if bound is not None and bound.statement is statement:
        return bound
    session.param_types(name)  # raises for one that is not there
    assert statement is not None
    conversation.bound[name] = bound = ClientStatement(name, statement, ())  # PREPARE made it
    return bound


def bind(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Bind: a portal of a prepared statement and parameters."""
    conversation.extended = True
    session = conversation.session
    if data[at : at + 1] == b"\0" and not session.failed:
        end = data.find(0, at + 1, stop)
        name = data[at + 1 : end].decode("utf-8", "replace")
        bound = conversation.bound.get(name)
        if bound is not None and bound.statement is session.prepared.get(name):
            shape = bound.shape
            if (
                shape is not None
                and data.startswith(shape.head, end, stop)
                and shape.zone == session.settings.zone
            ):
                datums = shape.values(data, end + len(shape.head), stop)
                if datums is not None:
                    session.bind("", name, datums)
                    shape.portal.portal = session.portals[""]
                    conversation.portals[""] = shape.portal
                    conversation.out.append(backend.BIND_COMPLETE)
                    return
    _bind(conversation, data, at, stop)


def _bind(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Bind a statement in a way that it was not bound the last time."""
    portal, name, formats, values, results = messages.bind(data, at, stop)
    session = conversation.session
    bound = _bound(conversation, name)
    statement = bound.statement
    zone = session.settings.zone
    check_parameter_formats(formats, len(values))
    if session.failed or len(values) != len(statement.param_types):
        session.bind(portal, name, tuple(values))  # it is refused, whatever they are
    else:
        session.bind(portal, name, bound.datums(formats, values, zone))
    try:
        check_result_formats(results, statement.columns)
    except ProtocolViolationError:
        session.close_portal(portal)
        raise
    made = ClientPortal(session.portals[portal], bound, results)
    conversation.portals[portal] = made
    if not portal and len(values) == len(statement.param_types):
        bound.shape = BindPattern(bound, formats, made, zone)
    conversation.out.append(backend.BIND_COMPLETE)


def describe(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Describe: what a statement takes, and what it or a portal returns."""
    conversation.extended = True
    session, out = conversation.session, conversation.out
    if data[at:stop] == _UNNAMED_PORTAL and not session.failed:
        found = _bound_portal(conversation, "")
        if found is not None:
            columns = found.portal.columns
            if columns is not None:
                out.append(found.row_description(columns))
                return
            if found.bound.statement.keyword not in _BORROWING:
                out.append(backend.NO_DATA)
                return
    kind, name = messages.target(data, at, stop)
    if kind == _STATEMENT:
        description = session.describe_statement(name)
        out.append(backend.parameter_description(description.param_types))
        if description.columns is None:
            out.append(backend.NO_DATA)
        else:
            out.append(_bound(conversation, name).row_description(description.columns, TEXT))
    elif kind == _PORTAL:
        description = session.describe_portal(name)
        if description.columns is None:
            out.append(backend.NO_DATA)
        else:
            out.append(_portal_rows(conversation, name, description.columns))
    else:
        raise ProtocolViolationError(f"invalid DESCRIBE message subtype {kind}")


def _portal_rows(conversation: Conversation, name: str, columns: Sequence[OutputColumn]) -> bytes:
    """RowDescription of a portal; of a cursor, which SQL made, in text."""
    found = _bound_portal(conversation, name)
    if found is not None:
        return found.row_description(columns)
    return backend.row_description(columns, (0,) * len(columns))


def _bound_portal(conversation: Conversation, name: str) -> ClientPortal | None:
    """What Bind remembered of a portal, if it is still the same."""
    found = conversation.portals.get(name)
    if found is None or found.portal is not conversation.session.portals.get(name):
        return None
    return found


def execute(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Execute: run a portal, or go on with it."""
    conversation.extended = True
    name, max_rows = ("", 0) if data[at:stop] == _ALL_ROWS else messages.execute(data, at, stop)
    session = conversation.session
    ends = stop < len(data) and data[stop] == _SYNC
    found = _bound_portal(conversation, name)
    steps = session.execute_portal(name, max_rows, ends=ends)
    try:
        wait = steps.send(None)
    except StopIteration as over:
        result: Result = over.value
        if not result.is_under_way and result.length <= SMALL_ROWS:
            _answer(conversation, result, found)
        else:
            conversation.drive(_answer_large(conversation, result, found))
    else:
        conversation.drive(_answer_late(conversation, _GoOn(steps, wait), found))


class _GoOn:
    """Awaits the rest of a coroutine that has begun and waits for something."""

    __slots__ = ("_steps", "_wait")

    def __init__(self, steps: Coroutine[Any, Any, Result], wait: Any) -> None:
        self._steps = steps
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, Result]:
        steps, wait = self._steps, self._wait
        try:
            while True:
                try:
                    yield wait
                except BaseException as error:  # noqa: BLE001 - it goes on inside the coroutine
                    wait = steps.throw(error)
                else:
                    wait = steps.send(None)
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


async def _answer_late(conversation: Conversation, rest: _GoOn, found: ClientPortal | None) -> None:
    result = await rest
    await _answer_large(conversation, result, found)


async def _answer_large(conversation: Conversation, result: Result, found: ClientPortal | None) -> None:
    if result.copy is not None:
        await copy(conversation, result)
    elif result.stream is None and result.length <= SMALL_ROWS:
        _answer(conversation, result, found)
    else:
        await send_rows(conversation, result, found.results if found is not None else TEXT)
        _complete(conversation, result)


def _answer(conversation: Conversation, result: Result, found: ClientPortal | None) -> None:
    """Send an answer of few rows."""
    columns = result.columns
    if columns is not None:
        rows = result.rows
        if rows:
            zone = conversation.session.settings.zone
            if found is not None:
                encoded = found.bound.encoder(columns, found.results, zone)(rows)
            else:
                encoded = make_encoder(columns, TEXT, zone)(rows)
            conversation.out.append(encoded)
            conversation.connection.out_bytes += len(encoded)
    _complete(conversation, result)


def _complete(conversation: Conversation, result: Result) -> None:
    if conversation.session.notices:
        conversation.notify()
    if not result.is_complete:
        conversation.out.append(backend.PORTAL_SUSPENDED)
        return
    tag = result.tag
    conversation.out.append(backend.command_complete(tag) if tag else backend.EMPTY_QUERY)


def close(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Close: forget a statement or a portal; one that is not there is no error."""
    conversation.extended = True
    kind, name = messages.target(data, at, stop)
    if kind == _STATEMENT:
        conversation.session.close_statement(name)
        conversation.bound.pop(name, None)
    elif kind == _PORTAL:
        conversation.session.close_portal(name)
        conversation.portals.pop(name, None)
    else:
        raise ProtocolViolationError(f"invalid CLOSE message subtype {kind}")
    conversation.out.append(backend.CLOSE_COMPLETE)


def flush(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Flush: send what there is."""
    del data
    conversation.extended = True
    messages.nothing(at, stop)
    conversation.connection.flush = True


def sync(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Sync: the end of an extended query, and of the transaction that it is where BEGIN was not said."""
    del data
    conversation.extended = conversation.skipping = False
    if at != stop:
        messages.nothing(at, stop)
    session = conversation.session
    if session.sync_now():
        if conversation.portals and session.transaction is None:
            conversation.portals.clear()
        conversation.ready()
    else:
        conversation.drive(_sync(conversation))


async def _sync(conversation: Conversation) -> None:
    await conversation.session.sync()
    conversation.portals.clear()
    if conversation.session.notices:
        conversation.notify()
    conversation.ready()
