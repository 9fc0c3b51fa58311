"""Answers each type of message: the simple query, the extended query, and the rest.

Above ``conversation``; ``opening`` gives the table at the end to each conversation. The hot path of the
server. A statement that need not wait is run by one ``send`` into the session's coroutine, with no run made
for it.

Drivers send a prepared statement as Bind, Describe, Execute and Sync in one piece, as libpq does. Of a point
statement :func:`bind` takes them as one step: no portal is needed, and the answer has a form that was made
before (:class:`AnswerForm`). A simple query that is an earlier one with other integers is run in the same
way (:func:`_plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from herdpy_server.pgwire import backend, frontend
from herdpy_server.pgwire.backend import ProtocolViolationError
from herdpy_server.pgwire.client_statements import (
    TEXT,
    AnswerForm,
    BindPattern,
    ClientPortal,
    ClientStatement,
    Formats,
    QueryForm,
    check_parameter_formats,
    check_result_formats,
    make_answer_encoder,
    make_encoder,
)
from herdpy_server.pgwire.streams import SMALL_ROWS, copy, send_rows
from herdpy_server.sessions.autocommit_statements import AutocommitStatement
from herdpy_server.sessions.block_statements import (
    BlockBegin,
    BlockCommit,
    BlockStatement,
    LoggedAnswer,
    ResolvedStatement,
    is_resolvable,
)
from herdpy_server.sessions.point_reads import PointRead
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.request_ids import name_of
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.row_steps import RowRead, row_write
from herdpy_server.wire import declared_types
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.query import PointSelect
from herdpy_sql.parse.as_of import may_read_past
from herdpy_sql.plan import Begin, Commit
from herdpy_sql.values.styles import Style

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.pgwire.conversation import Conversation, Handler
    from herdpy_server.serving.driver import Run
    from herdpy_server.sessions import Session, SimpleQuery
    from herdpy_server.sessions.execution import Answering
    from herdpy_server.sessions.plans import Prepared, PreparedStatement, ReadyPlan
    from herdpy_sql.plan import OutputColumn

_STATEMENT = ord("S")
_PORTAL = ord("P")
_SYNC = ord("S")
_TEXTS = 64
_UNNAMED_PORTAL = b"P\0"
_BORROWING = frozenset({"EXECUTE", "FETCH"})  # their rows are another statement's
_ALL_ROWS = b"\0\0\0\0\0"  # of the unnamed portal
_REST: Final = b"D\0\0\0\6P\0E\0\0\0\t\0\0\0\0\0S\0\0\0\4"
"""Describe and Execute of the unnamed portal, all its rows, and Sync."""
_REST_BYTES: Final = len(_REST)
_FORMS = 64
_OF_BLOCKS = frozenset({Begin, Commit})
_NO_ROWS = AnswerForm(b"", None)


def query(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Query."""
    conversation.extended = False
    run_query(conversation, frontend.query(data, at, stop))


def run_query(conversation: Conversation, sql: str, *, briefly: bool = True) -> None:
    """Answer a simple query; not ``briefly``: in the way of every statement."""
    session = conversation.session
    plain = _plain(session, sql) if briefly else None
    session.close_statement("")
    session.close_portal("")
    if plain is not None:
        statement, numbers, columns = plain
        _answer_plain(conversation, statement, numbers, columns, sql)
        return
    statements = session.simple_query(sql)
    if statements.is_empty:
        conversation.out.append(backend.EMPTY_QUERY)
        conversation.ready()
    else:
        conversation.drive(_run_all(conversation, statements))


def _answer_plain(
    conversation: Conversation,
    statement: Prepared,
    numbers: tuple[int, ...],
    columns: tuple[OutputColumn, ...] | None,
    sql: str,
) -> None:
    """Answer a simple query that is a point statement."""
    session = conversation.session
    if columns is None:
        _answer_alone(conversation, _NO_ROWS, session.run(statement, numbers, text=sql))
        return
    known = _query_form(conversation, statement, columns)
    point = known.point
    if point is not None:
        answer = point.run(statement.ready, numbers, sql, statement.text)
        if answer is not None:
            _send_point(conversation, answer)
            return
    if session.transaction is None:
        known.point = _resolved(session, statement.ready, point, known.form, columns, TEXT, known.style)
    _answer_alone(conversation, known.form, session.run(statement, numbers, text=sql), statement)


def _plain(
    session: Session, sql: str
) -> tuple[Prepared, tuple[int, ...], tuple[OutputColumn, ...] | None] | None:
    """A simple query as a point statement, its integers as parameters, and its columns.

    None: it is no such text, or not to be run as one.
    """
    if session.failed or session.implicit or session.auditor is not None:
        return None
    if session.portals and session.transaction is None:
        return None
    catalog, engine = session.catalog, session.settings.engine
    found = session.plans.brief(sql, catalog, engine)
    if found is None:
        return None
    try:
        plan = found[0].planned(catalog, engine).plan
    except SqlError:
        return None
    return (*found, plan.columns) if plan.brief else None


async def _run_all(conversation: Conversation, statements: SimpleQuery) -> None:
    await run_statements(conversation, statements)
    conversation.ready()


async def run_statements(conversation: Conversation, statements: SimpleQuery) -> None:
    """Run the statements of a simple query, and answer each."""
    session = conversation.session
    while True:
        result = await statements.step()
        if result is None:
            break
        if result.copy is not None:
            await copy(conversation, result)
            continue
        if result.columns is not None:
            await _send_simple_rows(conversation, result)
        if session.notices:
            conversation.notify()
        conversation.out.append(backend.command_complete(result.tag))


async def _send_simple_rows(conversation: Conversation, result: Result) -> None:
    columns = result.columns
    assert columns is not None
    conversation.out.append(backend.row_description(columns, (0,) * len(columns)))
    if result.stream is not None or result.length > SMALL_ROWS:
        await send_rows(conversation, result, TEXT)
        return
    rows = result.rows
    if rows:
        encode = make_encoder(columns, TEXT, conversation.session.settings.style)
        conversation.connection.send(encode(rows))


def parse(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Parse: prepare a statement."""
    conversation.extended = True
    prepare(conversation, *frontend.parse(data, at, stop))


def prepare(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    """Prepare the statement of a Parse message."""
    if may_read_past(sql):
        conversation.drive(_parse_past(conversation, name, sql, oids))
        return
    try:
        _parse(conversation, name, sql, oids)
    except SqlError:
        if conversation.session.transaction is not None or not conversation.session.checks.waits_to_read:
            raise
        conversation.drive(_parse_later(conversation, name, sql, oids))


async def _parse_past(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    """Parse what reads the past, once its definitions are there."""
    await conversation.session.hold_past(sql)
    _parse(conversation, name, sql, oids)


async def _parse_later(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    """Parse once this replica has the definitions that the session's read level wants."""
    try:
        await conversation.session.checks.until_readable()
    except SqlError as refusal:
        with suppress(SqlError):  # else the execution reports what cannot be read
            _parse(conversation, name, sql, oids)
            return
        raise refusal
    _parse(conversation, name, sql, oids)


def _parse(conversation: Conversation, name: str, sql: str, oids: tuple[int, ...]) -> None:
    session = conversation.session
    conversation.bound.pop(name, None)
    session.parse(name, sql, declared_types(oids, session.catalog) if oids else ())
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


def _client_statement(conversation: Conversation, name: str) -> ClientStatement:
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
    """Bind: a portal of a prepared statement and parameters.

    Of a point statement with it all that follows up to Sync, where that is here.
    """
    conversation.extended = True
    session = conversation.session
    portal = ""
    bound: ClientStatement | None = None
    pattern: BindPattern | None = None
    datums: tuple[Datum, ...] | None = None
    if data[at : at + 1] == b"\0":  # the unnamed portal: of a statement that is bound as before
        end = data.find(0, at + 1, stop)
        known = conversation.bound.get(data[at + 1 : end].decode("utf-8", "replace"))
        if known is not None and known.statement is session.prepared.get(known.name):
            pattern = known.pattern
            if (
                pattern is not None
                and pattern.style == session.settings.style
                and data.startswith(pattern.head, end, stop)
            ):
                bound, datums = known, pattern.values(data, end + len(pattern.head), stop)
                if datums is not None and data.startswith(_REST, stop):
                    resolved = pattern.alone if session.transaction is None else pattern.in_block
                    if resolved is not None:
                        if _run_resolved(conversation, known, pattern, resolved, datums, stop):
                            return
                    elif pattern.point is not None and session.transaction is None:
                        if _read_point(conversation, known.statement, pattern.point, datums, stop):
                            return
                        if _ask_leader(conversation, known, pattern, datums):
                            return
    if bound is None or pattern is None or datums is None:
        portal, bound, pattern, datums = _bound_anew(conversation, data, at, stop)
    if not portal and data.startswith(_REST, stop) and _run_alone(conversation, bound, pattern, datums, stop):
        return
    _bind_portal(conversation, portal, bound, pattern, datums)


def bind_portal(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Bind, whatever follows: the portal is executed by its message, in the way of every statement."""
    conversation.extended = True
    _bind_portal(conversation, *_bound_anew(conversation, data, at, stop))


def _bind_portal(
    conversation: Conversation,
    portal: str,
    bound: ClientStatement,
    pattern: BindPattern,
    datums: tuple[Datum, ...],
) -> None:
    session = conversation.session
    session.bind(portal, bound.name, datums)
    try:
        check_result_formats(pattern.results, bound.statement.columns)
    except ProtocolViolationError:
        session.close_portal(portal)
        raise
    conversation.portals[portal] = ClientPortal(session.portals[portal], bound, pattern.results)
    conversation.out.append(backend.BIND_COMPLETE)


def _bound_anew(
    conversation: Conversation, data: bytes, at: int, stop: int
) -> tuple[str, ClientStatement, BindPattern, tuple[Datum, ...]]:
    """The portal's name, the statement, how it is bound, and its datums.

    SqlError 26000, and as the types say of the bytes.
    """
    session = conversation.session
    portal, name, formats, values, results = frontend.bind(data, at, stop)
    bound = _client_statement(conversation, name)
    check_parameter_formats(formats, len(values))
    if session.failed or len(values) != len(bound.statement.param_types):
        session.bind(portal, name, tuple(values))  # it is refused, whatever they are
    pattern = BindPattern(bound, formats, results, session.settings.style)
    datums = pattern.datums(values)
    bound.pattern = pattern
    return portal, bound, pattern, datums


def _run_alone(
    conversation: Conversation,
    bound: ClientStatement,
    pattern: BindPattern,
    datums: tuple[Datum, ...],
    stop: int,
) -> bool:
    """Bind, Describe, Execute and Sync as one step; False: they are not, and nothing has happened."""
    session, statement = conversation.session, bound.statement
    if not session.runs_alone(statement) or (session.portals and session.transaction is None):
        return False
    request_id = b""
    if statement.named:
        request_id = name_of(datums[-1])
        if not request_id:
            return False
        datums = datums[:-1]
    form = pattern.form
    if form is None or pattern.columns is not statement.columns:
        form = _statement_form(bound, pattern)
    elif not statement.named:
        _resolve(session, statement, pattern, form)
    statement.binds += 1
    conversation.connection.inbox.at = stop + _REST_BYTES
    conversation.extended = False
    in_block = session.transaction is not None
    if in_block:
        _keep_spent(conversation, bound, pattern, datums)
    try:
        _answer_alone(conversation, form, session.run(statement, datums, request_id=request_id))
    except Exception:
        conversation.out.append(form.head)
        raise
    if not in_block and session.transaction is not None and not conversation.blocked:
        _keep_spent(conversation, bound, pattern, datums)  # it was BEGIN
    return True


def _read_point(
    conversation: Conversation,
    statement: PreparedStatement,
    point: PointRead,
    datums: tuple[Datum, ...],
    stop: int,
) -> bool:
    """Bind, Describe, Execute and Sync of a read by key as one function; False: nothing has happened."""
    text = statement.text
    answer = point.run(statement.ready, datums, text, text)
    if answer is None:
        return False
    statement.binds += 1
    conversation.connection.inbox.at = stop + _REST_BYTES
    conversation.extended = False
    _send_point(conversation, answer)
    return True


def _ask_leader(
    conversation: Conversation, bound: ClientStatement, pattern: BindPattern, datums: tuple[Datum, ...]
) -> bool:
    """Read by key on a follower once the leader has answered; False: nothing has happened."""
    wait = conversation.session.checks.ask_leader()
    if wait is None:
        return False
    conversation.go_on(None, wait, partial(_read_admitted, conversation, bound, pattern, datums))
    return True


def _read_admitted(
    conversation: Conversation,
    bound: ClientStatement,
    pattern: BindPattern,
    datums: tuple[Datum, ...],
    _run: Run[Result],
) -> None:
    """The leader has answered, or does not: then the portal is bound, and runs as any other."""
    inbox = conversation.connection.inbox
    point = pattern.point
    try:
        if (
            point is not None
            and inbox.data.startswith(_REST, inbox.at)
            and _read_point(conversation, bound.statement, point, datums, inbox.at)
        ):
            return
    finally:
        conversation.session.checks.forget_admission()
    _bind_portal(conversation, "", bound, pattern, datums)


def _run_resolved(
    conversation: Conversation,
    bound: ClientStatement,
    pattern: BindPattern,
    resolved: ResolvedStatement,
    datums: tuple[Datum, ...],
    stop: int,
) -> bool:
    """Bind, Describe, Execute and Sync of a resolved statement as one step; False: nothing has happened."""
    session, statement = conversation.session, bound.statement
    inbox = conversation.connection.inbox
    at, inbox.at = inbox.at, stop + _REST_BYTES
    conversation.extended = False
    try:
        answer = resolved.run(statement, datums)
        if answer is None:
            inbox.at, conversation.extended = at, True
            return False
        statement.binds += 1
        if session.transaction is not None:
            _keep_spent(conversation, bound, pattern, datums)
        elif conversation.portals:
            conversation.portals.clear()
        if isinstance(answer, bytes):
            conversation.out.append(answer)
            conversation.connection.out_bytes += len(answer)
            conversation.ready()
        elif isinstance(answer, LoggedAnswer):
            conversation.go_on(None, answer.append, partial(_answer_logged, conversation, pattern, answer))
        else:
            assert pattern.form is not None
            _answer_alone(conversation, pattern.form, answer)
    except Exception:
        assert pattern.form is not None
        conversation.out.append(pattern.form.head)
        raise
    return True


def _answer_logged(
    conversation: Conversation, pattern: BindPattern, answer: LoggedAnswer, _run: Run[Result]
) -> None:
    """Answer a resolved statement that the log has kept, or has not."""
    try:
        given = answer.give()
    except Exception:
        assert pattern.form is not None
        conversation.out.append(pattern.form.head)
        raise
    if conversation.session.notices:
        conversation.notify()
    conversation.out.append(given)
    conversation.ready()


def _resolve(session: Session, statement: PreparedStatement, pattern: BindPattern, form: AnswerForm) -> None:
    """A statement that is now answered as before, as one function for the next time."""
    ready, columns = statement.ready, statement.columns
    plan = None if ready is None else ready.plan
    if session.transaction is None and (ready is None or (ready.read_only and type(plan) is not Begin)):
        pattern.point = _resolved(
            session, ready, pattern.point, form, columns, pattern.results, pattern.style
        )
        return
    tried = pattern.tried_alone if session.transaction is None else pattern.tried
    if ready is None or plan is None or ready is tried:
        return
    if type(plan) not in _OF_BLOCKS and not is_resolvable(session, ready):
        return

    def whole(count: int) -> bytes:
        return form.head + backend.command_complete(plan.command_tag(count))

    if session.transaction is None:
        pattern.tried_alone = ready
        pattern.alone = _resolved_alone(session, ready, whole)
        return
    pattern.tried = ready
    if type(plan) is Commit:
        pattern.in_block = BlockCommit(session, ready, whole(0))
    elif isinstance(plan, PointSelect) and columns is not None:
        around = form.head, backend.command_complete(plan.command_tag(1))
        answer = make_answer_encoder(columns, pattern.results, pattern.style, plan.decode, around)
        pattern.in_block = BlockStatement(session, ready, RowRead(session, plan, answer, whole(0)))
    else:
        step = row_write(plan, whole)
        pattern.in_block = None if step is None else BlockStatement(session, ready, step)


def _resolved_alone(
    session: Session, ready: ReadyPlan, whole: Callable[[int], bytes]
) -> ResolvedStatement | None:
    """What begins a transaction, or writes a row in one of its own; None where it is neither."""
    if type(ready.plan) is Begin:
        return BlockBegin(session, ready, whole(0))
    step = row_write(ready.plan, whole)
    return None if step is None else AutocommitStatement(session, ready, step)


def _send_point(conversation: Conversation, answer: bytes) -> None:
    conversation.out.append(answer)
    conversation.connection.out_bytes += len(answer)
    if conversation.portals:
        conversation.portals.clear()
    conversation.ready()


def _resolved(
    session: Session,
    ready: ReadyPlan | None,
    point: PointRead | None,
    form: AnswerForm,
    columns: Sequence[OutputColumn] | None,
    results: Formats,
    style: Style,
) -> PointRead | None:
    """A statement outside of a transaction, now answered as before, as one function for the next time.

    ``point``: what it was before, which it may still be. None where it cannot be that.
    """
    if ready is None or not ready.is_resolved or columns is None:
        return None
    if point is not None and point.is_of(ready):
        return point
    plan = ready.plan
    assert isinstance(plan, PointSelect)
    one, none = (backend.command_complete(plan.command_tag(count)) for count in (1, 0))
    answer = make_answer_encoder(columns, results, style, plan.decode, (form.head, one))
    return PointRead(session, ready, answer, form.head + none)


def _keep_spent(
    conversation: Conversation, bound: ClientStatement, pattern: BindPattern, datums: tuple[Datum, ...]
) -> None:
    """Make the portal that outlives a Sync within a transaction; it has no rows left."""
    session = conversation.session
    before = session.portals.get("")
    if before is not None and before.buffer is not None:
        session.drop_portal("")
    spent = pattern.spent
    if spent is None:
        spent = pattern.spent = ClientPortal(Portal("", bound.statement, datums), bound, pattern.results)
    spent.portal.spend(bound.statement, datums, len(session.savepoints))
    session.portals[""] = spent.portal
    conversation.portals[""] = spent


def _statement_form(bound: ClientStatement, pattern: BindPattern) -> AnswerForm:
    """How the statement's answers are put now, to a client that binds it so. ProtocolError for formats of
    results that do not fit."""
    columns = bound.statement.columns
    check_result_formats(pattern.results, columns)
    if columns is None:
        form = AnswerForm(backend.BIND_COMPLETE + backend.NO_DATA, None)
    else:
        head = backend.BIND_COMPLETE + bound.row_description(columns, pattern.results)
        form = AnswerForm(head, bound.encoder(columns, pattern.results, pattern.style))
    pattern.form, pattern.columns, pattern.point = form, columns, None
    pattern.in_block = pattern.alone = pattern.tried = pattern.tried_alone = None
    return form


def _query_form(
    conversation: Conversation, statement: Prepared, columns: tuple[OutputColumn, ...]
) -> QueryForm:
    """How a simple query is answered."""
    forms, style = conversation.forms, conversation.session.settings.style
    known = forms.get(statement)
    if known is not None and known.columns is columns and known.style == style:
        return known
    head = backend.row_description(columns, (0,) * len(columns))
    if len(forms) >= _FORMS:
        forms.clear()
    forms[statement] = known = QueryForm(AnswerForm(head, make_encoder(columns, TEXT, style)), columns, style)
    return known


def _answer_alone(
    conversation: Conversation, form: AnswerForm, steps: Answering, simple: Prepared | None = None
) -> None:
    """Run a point statement and answer it, up to ReadyForQuery; ``simple``: that of a simple query."""
    if isinstance(steps, Result):
        _send_alone(conversation, form, steps)
        return
    try:
        wait = steps.send(None)
    except StopIteration as over:
        _send_alone(conversation, form, over.value)
    else:
        conversation.go_on(steps, wait, partial(_answer_alone_late, conversation, form, simple))


def _answer_alone_late(
    conversation: Conversation, form: AnswerForm, simple: Prepared | None, run: Run[Result]
) -> None:
    """Answer: what the answer rests on is durable, or it has what it waited for.

    A ``simple`` query may have other columns by then.
    """
    try:
        result = run.result()
    except BaseException:
        conversation.out.append(form.head)
        raise
    if simple is not None and result.columns is not None:
        form = _query_form(conversation, simple, result.columns).form
    _send_alone(conversation, form, result)


def _send_alone(conversation: Conversation, form: AnswerForm, result: Result) -> None:
    out = conversation.out
    out.append(form.head)
    if form.encode is not None:
        rows = result.rows
        if rows:
            encoded = form.encode(rows)
            out.append(encoded)
            conversation.connection.out_bytes += len(encoded)
    session = conversation.session
    if session.notices:
        conversation.notify()
    plan = result.plan
    tag = plan if isinstance(plan, str) else plan.command_tag(result.rowcount)
    out.append(backend.command_complete(tag))
    if conversation.portals and session.transaction is None:
        conversation.portals.clear()
    conversation.ready()


def describe(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Describe: what a statement takes, and what it or a portal returns."""
    conversation.extended = True
    session, out = conversation.session, conversation.out
    if data[at:stop] == _UNNAMED_PORTAL and not session.failed:
        found = _client_portal(conversation, "")
        if found is not None:
            columns = found.portal.columns
            if columns is not None:
                out.append(found.row_description(columns))
                return
            if found.bound.statement.keyword not in _BORROWING:
                out.append(backend.NO_DATA)
                return
    kind, name = frontend.target(data, at, stop)
    if kind == _STATEMENT:
        description = session.describe_statement(name)
        out.append(backend.parameter_description(description.param_types))
        if description.columns is None:
            out.append(backend.NO_DATA)
        else:
            out.append(_client_statement(conversation, name).row_description(description.columns, TEXT))
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
    found = _client_portal(conversation, name)
    if found is not None:
        return found.row_description(columns)
    return backend.row_description(columns, (0,) * len(columns))


def _client_portal(conversation: Conversation, name: str) -> ClientPortal | None:
    """What Bind remembered of a portal, if it is still the same."""
    found = conversation.portals.get(name)
    if found is None or found.portal is not conversation.session.portals.get(name):
        return None
    return found


def execute(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Execute: run a portal, or go on with it."""
    conversation.extended = True
    name, max_rows = ("", 0) if data[at:stop] == _ALL_ROWS else frontend.execute(data, at, stop)
    session = conversation.session
    ends = stop < len(data) and data[stop] == _SYNC
    found = _client_portal(conversation, name)
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
        _complete_portal(conversation, result)


def _answer(conversation: Conversation, result: Result, found: ClientPortal | None) -> None:
    """Send an answer of few rows."""
    columns = result.columns
    if columns is not None:
        rows = result.rows
        if rows:
            style = conversation.session.settings.style
            if found is not None:
                encoded = found.bound.encoder(columns, found.results, style)(rows)
            else:
                encoded = make_encoder(columns, TEXT, style)(rows)
            conversation.out.append(encoded)
            conversation.connection.out_bytes += len(encoded)
    _complete_portal(conversation, result)


def _complete_portal(conversation: Conversation, result: Result) -> None:
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
    kind, name = frontend.target(data, at, stop)
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
    frontend.nothing(at, stop)
    conversation.connection.flush = True


def sync(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Sync: the end of an extended query, and of the transaction that it is where BEGIN was not said."""
    del data
    conversation.extended = conversation.skipping = False
    if at != stop:
        frontend.nothing(at, stop)
    session = conversation.session
    if session.sync_now():
        if conversation.portals and session.transaction is None:
            conversation.portals.clear()
        conversation.ready()
    else:
        conversation.drive(commit_pipeline(conversation))


async def commit_pipeline(conversation: Conversation) -> None:
    """End the transaction that a pipeline is, and say that the next query may come."""
    await conversation.session.sync()
    conversation.portals.clear()
    if conversation.session.notices:
        conversation.notify()
    conversation.ready()


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


HANDLERS: Mapping[int, Handler] = {
    ord("Q"): query,
    ord("P"): parse,
    ord("B"): bind,
    ord("D"): describe,
    ord("E"): execute,
    ord("C"): close,
    ord("H"): flush,
    ord("S"): sync,
    ord("F"): function_call,
    ord("X"): terminate,
    ord("d"): ignore,
    ord("c"): ignore,
    ord("f"): ignore,
}
"""What a session's messages are answered by."""
