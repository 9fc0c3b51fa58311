"""What most clients ask most of the time, answered in one go: a statement by key, BEGIN, COMMIT.

Either Bind, Describe, Execute and Sync of a statement prepared before, as libpq and so most drivers send
them, or a simple query of one plain statement. Beside ``extended`` and ``simple``, which do the same message
by message, and to which everything is left that is not plain: a statement bound in another way than the last
time, an error, a plan that takes long. Then nothing has been answered, and nothing has happened.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from herdpy_server.pgwire import backend
from herdpy_server.pgwire.bound import TEXT, AnswerForm, make_encoder
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.request_ids import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_server.pgwire.bound import BindPattern, ClientStatement
    from herdpy_server.pgwire.conversation import Conversation
    from herdpy_server.sessions import FastAnswer
    from herdpy_sql.plan import Plan

_REST = b"D\0\0\0\6P\0E\0\0\0\t\0\0\0\0\0S\0\0\0\4"
"""Describe and Execute of the unnamed portal, all its rows, and Sync."""
_REST_BYTES = len(_REST)
_PLANS = 64


def round_trip(conversation: Conversation, data: bytes, at: int, stop: int) -> bool:
    """Answer a Bind message and all that follows it up to Sync; False: it was left as it is."""
    if data[at] or not data.startswith(_REST, stop):
        return False
    session = conversation.session
    end = data.find(0, at + 1, stop)
    bound = conversation.bound.get(data[at + 1 : end].decode("utf-8", "replace"))
    if bound is None or bound.statement is not session.prepared.get(bound.name):
        return False
    shape = bound.shape
    if shape is None or not data.startswith(shape.head, end, stop) or shape.zone != session.settings.zone:
        return False
    if session.portals and session.transaction is None:
        return False
    began = perf_counter()
    try:
        datums = shape.values(data, end + len(shape.head), stop)
    except Exception:  # noqa: BLE001 - the usual way finds the same, and tells it
        return False
    if datums is None:
        return False
    statement, request_id = bound.statement, b""
    if statement.named:
        name, datums = datums[-1], datums[:-1]
        request_id = name_of(name)
        if not request_id:
            return False
    quick = session.fast_path.run(statement, datums, request_id)
    if quick is None:
        return False
    statement.binds += 1
    conversation.connection.inbox.at = stop + _REST_BYTES
    conversation.extended = False
    found = shape.portal
    if session.transaction is not None:
        portal = Portal("", statement, datums)
        portal.spent = True
        portal.depth = session.depth
        session.portals[""] = found.portal = portal
        conversation.portals[""] = found
    session.text = statement.text
    form = shape.form
    if form is None or shape.columns is not statement.columns:
        form = _bound_form(bound, shape)
    _answer(conversation, form, quick, began)
    return True


def _bound_form(bound: ClientStatement, shape: BindPattern) -> AnswerForm:
    """How the statement's answers are put now, to a client that binds it in this shape."""
    statement, results = bound.statement, shape.portal.results
    columns = statement.columns
    if columns is None:
        form = AnswerForm(statement.text, backend.BIND_COMPLETE + backend.NO_DATA, None)
    else:
        head = backend.BIND_COMPLETE + bound.row_description(columns, results)
        form = AnswerForm(statement.text, head, bound.encoder(columns, results, shape.zone))
    shape.form, shape.columns = form, columns
    return form


def plain_query(conversation: Conversation, sql: str) -> bool:
    """Answer a simple query; False: it was left as it is."""
    session = conversation.session
    if session.portals and session.transaction is None:
        return False
    began = perf_counter()
    brief = session.plans.brief(sql, session.catalog, session.settings.engine)
    if brief is None:
        return False
    quick = session.fast_path.run(*brief)
    if quick is None:
        return False
    session.close_statement("")
    session.close_portal("")
    session.text = sql
    _answer(conversation, _form(conversation, quick.plan, brief[0].statement.text), quick, began)
    return True


def _form(conversation: Conversation, plan: Plan, text: str) -> AnswerForm:
    """How a simple query with this plan is answered: all in text."""
    forms, zone = conversation.forms, conversation.session.settings.zone
    known = forms.get(plan)
    if known is not None and known[1] == zone:
        return known[0]
    columns = plan.columns
    if columns is None:
        form = AnswerForm(text, b"", None)
    else:
        head = backend.row_description(columns, (0,) * len(columns))
        form = AnswerForm(text, head, make_encoder(columns, TEXT, zone))
    if len(forms) >= _PLANS:
        forms.clear()
    forms[plan] = form, zone
    return form


def _answer(conversation: Conversation, form: AnswerForm, quick: FastAnswer, began: float) -> None:
    if quick.later is not None:
        conversation.drive(_late(conversation, form, quick, began))
        return
    plan, count = quick.plan, quick.changed
    session = conversation.session
    _send(conversation, form, quick.rows, plan.command_tag(count))
    if session.observer is not None:
        session.observer(form.text, perf_counter() - began, count, None)


async def _late(conversation: Conversation, form: AnswerForm, quick: FastAnswer, began: float) -> None:
    """Answer once what it rests on is durable, or once it has what it waited for."""
    session = conversation.session
    assert quick.later is not None
    session.is_running = True
    rows, count, tag = quick.rows, quick.changed, None
    try:
        result = await quick.later
        if result is not None:
            rows, count, tag = result.rows, result.rowcount, result.tag
    except BaseException as error:
        if session.observer is not None:
            session.observer(form.text, perf_counter() - began, -1, error)
        conversation.out.append(form.head)
        raise
    finally:
        session.is_running = False
    _send(conversation, form, rows, tag or quick.plan.command_tag(count))
    if session.observer is not None:
        session.observer(form.text, perf_counter() - began, count, None)


def _send(
    conversation: Conversation, form: AnswerForm, rows: Sequence[Sequence[Datum]] | None, tag: str
) -> None:
    out = conversation.out
    out.append(form.head)
    if rows and form.encode is not None:
        encoded = form.encode(rows)
        out.append(encoded)
        conversation.connection.out_bytes += len(encoded)
    session = conversation.session
    if session.notices:
        conversation.notify()
    out.append(backend.command_complete(tag))
    if conversation.portals and session.transaction is None:
        conversation.portals.clear()
    conversation.ready()
