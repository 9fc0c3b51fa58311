"""Answers the messages of a session whose statements are traced: ``queries``, with a look at each before.

Beside ``queries``; a server that traces gives its conversations :func:`traced`'s table and not
``HANDLERS``, so one that does not has nothing of this in its way. Each message with a statement is admitted:
its context is the comment at the end of the statement's text, else the session's setting
``herdpy.traceparent``, else that of the transaction. A statement whose trace is not recorded goes the way
that it has without tracing. A recorded one goes the way of every statement, and never one of the short ones:
there its steps are seen. It has the same meaning, as the tests of the short ways show.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import random
from time import perf_counter
from typing import TYPE_CHECKING

from herdpy_server.pgwire import frontend, queries
from herdpy_server.pgwire.queries import HANDLERS
from herdpy_server.tracing import SessionTrace, parse_traceparent, without_traceparent

if TYPE_CHECKING:
    from herdpy_server.pgwire.conversation import Conversation, Handler
    from herdpy_server.sessions import Session
    from herdpy_server.tracing import Parent, StatementTracer
    from herdpy_server.tracing.statements import StatementTrace

_MOST_PREPARED = 256


class TracedMessages:
    """The handlers of one conversation.

    Args:
        trace: the session's.
    """

    def __init__(self, session: Session, trace: SessionTrace) -> None:
        self._session = session
        self._trace = trace
        self._parsed: dict[str, Parent] = {}
        """Contexts that came with Parse. A driver that prepares a text has its context in there, too."""
        self._bound: dict[str, StatementTrace] = {}
        """Traces of portals that are bound and not executed to their end."""
        self._setting: Parent | None = None
        self._revision = -1  # of the settings that it was read of

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """The table: all messages, these in place of some."""
        own: dict[int, Handler] = {
            ord("Q"): self.query,
            ord("P"): self.parse,
            ord("B"): self.bind,
            ord("E"): self.execute,
            ord("S"): self.sync,
        }
        return {**HANDLERS, **own}

    def _context(self, parent: Parent | None) -> Parent | None:
        """The context of a statement: what came with it, else the session's."""
        if parent is not None:
            return parent
        settings = self._session.settings
        if settings.revision != self._revision:
            self._revision = settings.revision
            text = settings["herdpy.traceparent"]
            self._setting = parse_traceparent(text) if text else None
        return self._setting

    def _is_left_out(self) -> bool:
        """Whether a statement without a context of its own is certainly not recorded.

        Most are not, so this is all that tracing adds to them.
        """
        if self._context(None) is not None:
            return False
        trace = self._trace
        if self._session.transaction is not None:
            return trace.block is None
        ratio = trace.tracer.ratio
        return ratio < 1 and random() >= ratio

    def query(self, conversation: Conversation, data: bytes, at: int, stop: int) -> None:
        """Query."""
        conversation.extended = False
        sql, parent = without_traceparent(frontend.query(data, at, stop))
        trace = self._trace
        if parent is None and self._is_left_out():
            trace.current = trace.script = None
            queries.run_query(conversation, sql)
            return
        trace.current = statement = trace.admit(self._context(parent), chosen=parent is None)
        trace.script = None if statement is None or ";" not in sql else statement.context
        queries.run_query(conversation, sql, briefly=statement is None)

    def parse(self, conversation: Conversation, data: bytes, at: int, stop: int) -> None:
        """Parse."""
        conversation.extended = True
        name, sql, oids = frontend.parse(data, at, stop)
        sql, parent = without_traceparent(sql)
        self._parsed.pop(name, None)
        self._trace.current = self._trace.script = None
        if parent is not None:
            if len(self._parsed) >= _MOST_PREPARED:
                self._parsed.clear()
            self._parsed[name] = parent
        try:
            queries.prepare(conversation, name, sql, oids)
        except Exception as error:
            refused = self._trace.admit(self._context(parent))
            if refused is not None:
                self._trace.end(refused, sql, 0.0, -1, error)
            raise

    def bind(self, conversation: Conversation, data: bytes, at: int, stop: int) -> None:
        """Bind: it decides for the portal's whole life."""
        trace = self._trace
        trace.current = trace.script = None
        if not (self._parsed or self._bound) and self._is_left_out():
            queries.bind(conversation, data, at, stop)
            return
        first = data.find(0, at, stop)
        portal = data[at:first].decode("utf-8", "replace")
        second = data.find(0, first + 1, stop)
        name = data[first + 1 : second].decode("utf-8", "replace")
        parent = self._parsed.get(name) if self._parsed else None
        had = bool(self._bound)
        self._bound.pop(portal, None)
        chosen = not self._parsed and not had  # it was not left out just now
        statement = trace.admit(self._context(parent), chosen=chosen)
        if statement is None:
            queries.bind(conversation, data, at, stop)
            return
        began = perf_counter()
        span = statement.child("bind")
        try:
            queries.bind_portal(conversation, data, at, stop)
        except Exception as error:
            span.end(error)
            prepared = self._session.prepared.get(name)
            text = "" if prepared is None else prepared.text
            trace.end(statement, text, perf_counter() - began, -1, error)
            raise
        span.end()
        self._bound[portal] = statement

    def execute(self, conversation: Conversation, data: bytes, at: int, stop: int) -> None:
        """Execute: a portal's statement has ended when the session's observer has heard of it."""
        end = data.find(0, at, stop)
        portal = data[at:end].decode("utf-8", "replace")
        statement = self._bound.get(portal)
        if statement is not None and statement.root.ended_ns:
            del self._bound[portal]
            statement = None
        self._trace.script = None
        self._trace.current = statement
        queries.execute(conversation, data, at, stop)

    def sync(self, conversation: Conversation, data: bytes, at: int, stop: int) -> None:
        """Sync: it commits what a pipeline has done, as a step of its trace."""
        trace = self._trace
        trace.current = trace.script = None
        if self._session.transaction is None or self._session.implicit:
            self._bound.clear()
        if not self._session.implicit or trace.block is None or at != stop:
            queries.sync(conversation, data, at, stop)
            return
        trace.current = statement = trace.admit(None)
        conversation.extended = conversation.skipping = False
        conversation.drive(self._synced(conversation, statement))

    async def _synced(self, conversation: Conversation, statement: StatementTrace | None) -> None:
        began = perf_counter()
        failure: BaseException | None = None
        try:
            await queries.commit_pipeline(conversation)
        except BaseException as error:
            failure = error
            raise
        finally:
            if statement is not None:
                self._trace.current = None
                self._trace.end(statement, "COMMIT", perf_counter() - began, -1, failure)


def traced(session: Session, tracer: StatementTracer, database: str) -> Mapping[int, Handler]:
    """Have a session's statements traced; what its messages are answered by."""
    trace = SessionTrace(tracer, database, session.observer, lambda: session.transaction is not None)
    session.report_to(trace)
    return TracedMessages(session, trace).handlers
