"""The spans of statements: what a session reports while it runs one, and whether anybody wants to know.

Above ``spans`` and ``traceparent``; below ``sessions``, which call a :class:`SessionTrace` where they wait. A
front end says when a statement has come (:meth:`SessionTrace.admit`), with the context that its client has
sent. Is its trace recorded (the client's decision; without a client's, a share of all), there is a
:class:`StatementTrace` until the session's observer hears of its end, and the steps below it are spans. All
of this is on the loop's thread. A server that does not trace has none of it, and a session's ``trace`` is
None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from herdpy_server.tracing.spans import (
    INTERNAL,
    SERVER,
    Attributes,
    SpanQueue,
    SpanRecord,
    harmless,
    new_trace_id,
)
from herdpy_server.tracing.traceparent import Parent, without_constants

if TYPE_CHECKING:
    from herdpy.log import Append

Observer = Callable[[str, float, int, BaseException | None], object]
"""As of ``sessions.identity``."""
SYSTEM: Final = "postgresql"
"""What the database is for tools that know databases: its protocol, its SQL and its SQLSTATEs are these."""


class OpenSpan:
    """A step of a statement that is under way."""

    __slots__ = ("_span", "_trace")

    def __init__(self, trace: StatementTrace, span: SpanRecord) -> None:
        self._trace = trace
        self._span = span

    def say(self, attribute: str, value: str | int) -> None:
        """Something becomes known of it."""
        self._span.attributes[attribute] = value

    @harmless
    def end(self, error: BaseException | None = None) -> None:
        """It is over, with an error where it failed."""
        if error is not None:
            self._span.error = sqlstate_of(error)
        self._trace.ended(self._span)


class StatementTrace:
    """A statement of a trace that is recorded.

    Attributes:
        root: its span.
        executing: the span of its execution, while that goes on.
    """

    __slots__ = ("_commits", "_tracer", "executing", "root")

    def __init__(self, tracer: StatementTracer, parent: Parent | None) -> None:
        self._tracer = tracer
        trace_id = new_trace_id() if parent is None else parent.trace_id
        self.root = SpanRecord("statement", trace_id, 0 if parent is None else parent.span_id, kind=SERVER)
        self.executing: SpanRecord | None = None
        self._commits: list[CommitTrace] = []

    @property
    def context(self) -> Parent:
        """What the statements that belong together with this one are below."""
        root = self.root
        return Parent(root.trace_id, root.parent_id or root.span_id, is_sampled=True)

    def child(self, name: str, attributes: Attributes | None = None) -> OpenSpan:
        """A step begins: one of the execution while that goes on, else of the statement."""
        below = self.executing or self.root
        return OpenSpan(self, SpanRecord(name, below.trace_id, below.span_id, attributes=attributes))

    def ended(self, span: SpanRecord) -> None:
        """A step is over."""
        self._tracer.queue.put(span.ends())

    def planned(self, span: OpenSpan) -> None:
        """The statement has its plan, which runs now."""
        span.end()
        if self.executing is None:
            self.executing = SpanRecord("execute", self.root.trace_id, self.root.span_id)

    def executed(self) -> None:
        """The plan has run."""
        span, self.executing = self.executing, None
        if span is not None:
            self.ended(span)

    def committing(self, append: Append) -> CommitTrace:
        """It waits for its commit to be durable: the entry that has it belongs to this trace, too."""
        self.executed()
        commit = CommitTrace(self, append, self._tracer.commits)
        self._commits.append(commit)
        return commit

    def finish(self) -> None:
        """Nothing more is heard of the statement: let go of what waits for it."""
        for commit in self._commits:
            commit.forget()
        self.executed()


class CommitTrace:
    """A commit of a traced statement, on its way through the log.

    Attributes:
        trace: the statement's. span: its wait for the log, below which the entry's spans are.
    """

    __slots__ = ("_append", "_commits", "span", "trace")

    def __init__(self, trace: StatementTrace, append: Append, commits: dict[int, CommitTrace]) -> None:
        self.trace = trace
        self.span = SpanRecord("durability wait", trace.root.trace_id, trace.root.span_id)
        self._append = append  # keeps its id from being another's
        self._commits = commits
        commits[id(append)] = self

    @harmless
    def end(self, error: BaseException | None = None) -> None:
        """The wait is over."""
        span = self.span
        if span.ended_ns:
            return
        if error is not None:
            span.error = sqlstate_of(error)
        lsn = self._append.lsn
        if lsn is not None:
            span.attributes |= {"herdpy.ledger_id": lsn.ledger_id, "herdpy.entry_id": lsn.entry_id}
        self.trace.ended(span)
        self.forget()

    def forget(self) -> None:
        """It is looked for no more."""
        if self._commits.get(id(self._append)) is self:
            del self._commits[id(self._append)]


class StatementTracer:
    """What all sessions of a server share.

    Args:
        ratio: of the statements that come without a context, the share whose trace is recorded.
        kind_of: a statement's kind, by its text. query_text: "off", "without_constants" or "full".
        shown: a statement's text without its secrets, and cut.

    Attributes:
        queue: takes spans. commits: traced ones that wait for the log, by the ids of their appends.
        exemplars: what metrics show of traces.
    """

    def __init__(
        self,
        queue: SpanQueue,
        *,
        ratio: float,
        kind_of: Callable[[str], str],
        shown: Callable[[str, int], str],
        query_text: str = "without_constants",
        query_chars: int = 2000,
        ended: Callable[[str, float, int], object] = lambda _kind, _seconds, _trace: None,
    ) -> None:
        self.queue = queue
        self.ratio = ratio
        self.commits: dict[int, CommitTrace] = {}
        self._kind_of = kind_of
        self._shown = shown
        self._query_text = query_text
        self._query_chars = query_chars
        self._ended = ended

    def is_recorded(self, parent: Parent | None) -> bool:
        """Whether a statement is recorded: as its client has decided, else by chance."""
        if parent is not None:
            return parent.is_sampled
        return self.ratio > 0 and (self.ratio >= 1 or random.random() < self.ratio)

    def describe(self, span: SpanRecord, text: str, database: str, rows: int) -> None:
        """Say in a statement's span which it was."""
        kind = self._kind_of(text)
        span.name = f"{kind} {database}"
        span.attributes |= {
            "db.system.name": SYSTEM,
            "db.namespace": database,
            "db.operation.name": kind,
        }
        if self._query_text == "without_constants":
            span.attributes["db.query.text"] = without_constants(text, self._query_chars)
        elif self._query_text == "full":
            span.attributes["db.query.text"] = self._shown(text[: self._query_chars + 1], self._query_chars)
        if rows >= 0:
            span.attributes["db.response.returned_rows"] = rows

    def finished(self, trace: StatementTrace, text: str, seconds: float) -> None:
        """A statement's span is in the queue: metrics may name its trace."""
        self._ended(self._kind_of(text), seconds, trace.root.trace_id)


class SessionTrace:
    """What one session reports; the sessions of a server that does not trace have none.

    Attributes:
        current: the statement that runs, where its trace is recorded.
        block: what the statements of the open transaction are below, where its first one was recorded.
        script: what the statements that follow in the same text are below; None: nothing follows.
    """

    def __init__(
        self,
        tracer: StatementTracer,
        database: str,
        observer: Observer | None,
        in_transaction: Callable[[], bool],
    ) -> None:
        """``observer`` was the session's, and hears of every statement as before."""
        self.tracer = tracer
        self.current: StatementTrace | None = None
        self.block: Parent | None = None
        self.script: Parent | None = None
        self._database = database
        self._observer = observer
        self._in_transaction = in_transaction

    def admit(self, parent: Parent | None, *, chosen: bool = False) -> StatementTrace | None:
        """A statement has come, with its context; its trace, where it is recorded.

        Without a context it is as the transaction that it is within; that is decided when it begins.

        Args:
            chosen: chance has decided already that it is recorded, if it has no context.
        """
        if not self._in_transaction():
            self.block = None
        elif parent is None:
            parent = self.block
            if parent is None:
                return None
        if (chosen and parent is None) or self.tracer.is_recorded(parent):
            return StatementTrace(self.tracer, parent)
        return None

    # What the session says while it runs the statement; nothing where there is none.

    @harmless
    def child(self, name: str, attributes: Attributes | None = None) -> OpenSpan | None:
        """A step begins."""
        current = self.current
        return None if current is None else current.child(name, attributes)

    @harmless
    def planned(self, span: OpenSpan) -> None:
        """The statement that is at hand has its plan."""
        if self.current is not None:
            self.current.planned(span)

    @harmless
    def committing(self, append: Append) -> CommitTrace | None:
        """The statement waits for this commit."""
        current = self.current
        return None if current is None else current.committing(append)

    def observe(self, text: str, seconds: float, rows: int, error: BaseException | None) -> None:
        """The session's observer: a statement has ended."""
        if self._observer is not None:
            self._observer(text, seconds, rows, error)
        current = self.current
        if current is not None:
            self.current = None
            self.end(current, text, seconds, rows, error)
            if self.script is not None:
                self.current = StatementTrace(self.tracer, self.script)

    @harmless
    def end(
        self, trace: StatementTrace, text: str, seconds: float, rows: int, error: BaseException | None
    ) -> None:
        """A statement is over."""
        trace.finish()
        root = trace.root
        self.tracer.describe(root, text, self._database, rows)
        if error is not None:
            root.error = state = sqlstate_of(error)
            root.attributes |= {"db.response.status_code": state, "error.type": state}
        trace.ended(root)
        self.tracer.finished(trace, text, seconds)
        if self.block is None and self._in_transaction():
            self.block = trace.context


def sqlstate_of(error: BaseException) -> str:
    """The SQLSTATE of an error, as its client gets it."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) and state else "XX000"


def internal(
    name: str, below: SpanRecord, began_ns: int, ended_ns: int, attributes: Mapping[str, object]
) -> SpanRecord:
    """A step that is over already."""
    span = SpanRecord(name, below.trace_id, below.span_id, kind=INTERNAL, began_ns=began_ns)
    span.attributes.update(attributes)  # type: ignore[arg-type]
    return span.ends(ended_ns)
