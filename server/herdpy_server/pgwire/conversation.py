"""A session's messages, taken one after the other and answered: the state machine of protocol 3.

Above ``connection``, below ``queries``, which knows the messages: a conversation is given its functions by
their types. Here is what is common: the order of requests, what happens after an error, what is
waited for, how long a session may idle, and which settings are reported. Most messages are answered
within :meth:`Conversation.advance`. A statement that waits (for a lock, the log, a worker, the client's
reading) blocks the conversation and no other: what arrives meanwhile stays in the inbox.

An error in an extended query is followed by silence up to Sync; one in a simple query ends with ReadyForQuery
at once.

Source of the settings that are reported: PostgreSQL's manual, "Asynchronous Operations" of the message flow:
these and no others. Beside them the position of the newest commit that had a name is reported, as if that
were a setting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from herdpy.log.wait import Wait
from herdpy_server.pgwire import backend
from herdpy_server.pgwire.backend import FatalError, SilentClose, error_response, notice_response
from herdpy_server.pgwire.connection import ConnectionLost
from herdpy_server.pgwire.frontend import HEAD, SMALL_MESSAGE_BYTES
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.pgwire.client_statements import ClientPortal, ClientStatement, QueryForm
    from herdpy_server.pgwire.connection import ClientConnection
    from herdpy_server.pgwire.context import Forwarder
    from herdpy_server.pgwire.forwarded_client import ForwardedClient
    from herdpy_server.serving import Run
    from herdpy_server.sessions import Session
    from herdpy_server.sessions.listening import SessionChannels
    from herdpy_server.sessions.plans import Prepared
    from herdpy_server.sessions.registry import SessionEntry
    from herdpy_server.sessions.result import Result
    from herdpy_server.sessions.settings import Settings


_REPORTED = {
    "application_name": "",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "on",
    "server_encoding": "UTF8",
    "server_version": "15.0",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}

COMMIT_POSITION: Final = "herdpy.commit_position"
logger = logging.getLogger("herdpy.pgwire")
Handler = Callable[["Conversation", bytes, int, int], None]
"""Answers a message, given the buffer and where in it the body begins and ends."""
PASS_MESSAGES: Final = 128
"""So many of one client's messages are answered in one go, and then others have their turn."""
_HEAD_BYTES: Final = HEAD.size
_unpack: Final = HEAD.unpack_from
_UNSKIPPED: Final = frozenset(b"SX")
_READY: Final = backend.READY


@dataclass(frozen=True, slots=True)
class ReportedSettings:
    """The values as of one revision of a session's settings."""

    revision: int
    values: dict[str, str]


def report(settings: Settings) -> ReportedSettings:
    """What is reported of a session's settings; where it has no such setting, what is always so."""
    values = {}
    for name, fixed in _REPORTED.items():
        try:
            values[name] = settings[name.lower()]
        except SqlError:
            values[name] = fixed
    return ReportedSettings(settings.revision, values)


class Idling:
    """The clock of one conversation, made when it first has a limit."""

    __slots__ = ("_loop", "_session", "_since", "_terminate", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, session: Session, terminate: Callable[[SqlError], object]
    ) -> None:
        """``terminate`` ends the session; when it has ended already, it does nothing."""
        self._loop = loop
        self._session = session
        self._terminate = terminate
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """ReadyForQuery is on its way: from now on the client is waited for."""
        limit_s = self._limit_s()
        if limit_s is None:
            self.stop()
            return
        self._since = self._loop.time()
        if self._timer is None or self._timer.when() > self._since + limit_s:
            self._set(limit_s)

    def end(self) -> None:
        """A message has come."""
        self._since = None

    def stop(self) -> None:
        """There is no limit any more, or no session."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit_s(self) -> float | None:
        session = self._session
        settings = session.settings
        return settings.idle_session_s if session.status == "idle" else settings.idle_transaction_s

    def _set(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        limit_s = self._limit_s()
        if self._since is None or limit_s is None:
            return
        left_s = self._since + limit_s - self._loop.time()
        if left_s > 0:
            self._set(left_s)
        elif self._session.status == "idle":
            self._terminate(SqlError("57P05", "terminating connection due to idle-session timeout"))
        else:
            self._terminate(SqlError("25P03", "terminating connection due to idle-in-transaction timeout"))


class Conversation:
    """One session's end of a connection.

    Attributes:
        session: what is talked to.
        entry: under which it is registered.
        out: where answers go; the connection's.
        skipping: an error happened; nothing is answered up to Sync.
        extended: the message at hand is one of an extended query.
        blocked: something is waited for, so no message is taken.
        bound, portals: what is remembered of the session's prepared statements and portals, by name.
        texts: what is remembered of the texts that the unnamed statement was parsed from lately.
        forms: how simple queries are answered, for which columns and which style of texts that is.
        input_wanted: what waits for messages of COPY, if anything does.
        idling: how long the client may say nothing; None for as long as it likes.
        forwarder: what forwards statements to the leader; None where the session does not.
        origin: of a session that another node forwards: of whom; else None.
    """

    __slots__ = (
        "_fatal",
        "_handlers",
        "_has_left",
        "_left",
        "_own_handlers",
        "_run",
        "_told_position",
        "_turn_is_due",
        "blocked",
        "bound",
        "connection",
        "entry",
        "extended",
        "forms",
        "forwarder",
        "idling",
        "input_wanted",
        "is_over",
        "origin",
        "out",
        "portals",
        "reported",
        "session",
        "skipping",
        "texts",
    )

    def __init__(
        self,
        connection: ClientConnection,
        session: Session,
        handlers: Mapping[int, Handler],
        left: Callable[[Conversation], object],
    ) -> None:
        """``left`` is called once the session has ended."""
        self.connection = connection
        self._handlers = self._own_handlers = handlers
        self._left = left
        self.session = session
        self.entry: SessionEntry | None = None
        self.out = connection.out
        self.skipping = False
        self.extended = False
        self.blocked = False
        self.is_over = False
        self.bound: dict[str, ClientStatement] = {}
        self.portals: dict[str, ClientPortal] = {}
        self.texts: dict[str, ClientStatement] = {}
        self.forms: dict[Prepared, QueryForm] = {}
        self.input_wanted: Wait[None] | None = None
        self.reported = report(session.settings)
        self.idling: Idling | None = None
        self._run: Run[Any] | None = None
        self._fatal: SqlError | None = None
        self._has_left = False
        self._told_position = session.settings.commit_position
        self._turn_is_due = False
        session.on_notification = self.notification_waits
        self.forwarder: Forwarder | None = None
        self.origin: ForwardedClient | None = None

    # Taking messages.

    def advance(self) -> None:
        """Answer what has arrived, up to what must be waited for."""
        connection = self.connection
        inbox = connection.inbox
        handlers = self._handlers
        if self.blocked:
            if self.input_wanted is not None:
                self._wake()
            elif connection.eof:
                self.close()
            connection.pass_over(waiting=self._run is not None and self.input_wanted is None)
            return
        if self._turn_is_due and not connection.eof:
            connection.pass_over(waiting=True)  # what has come must not make its turns more
            return
        try:
            left = PASS_MESSAGES
            while not (self.blocked or self.is_over or connection.is_full):
                if not left and not connection.eof:
                    self._turn_is_due = True
                    connection.context.loop.call_soon(self._take_turn)  # after the others'
                    break
                left -= 1
                data, at = inbox.data, inbox.at
                size = len(data)
                if at == size:
                    if connection.eof:
                        self.close()
                    break
                # What Inbox.next does, in line for short messages that are whole.
                kind, length = _unpack(data, at) if size - at >= _HEAD_BYTES else (0, 0)
                stop = at + 1 + length
                if kind in handlers and 4 <= length <= SMALL_MESSAGE_BYTES and stop <= size:
                    at += _HEAD_BYTES
                    inbox.at = stop
                else:
                    message = inbox.next()
                    if message is None:
                        if connection.eof:
                            self.close()
                        break
                    kind, at, stop = message
                if self.idling is not None:
                    self.idling.end()
                if self.skipping and kind not in _UNSKIPPED:
                    continue
                try:
                    handlers[kind](self, data, at, stop)
                except (FatalError, SilentClose):
                    raise
                except SqlError as refusal:
                    if self.extended:
                        self.drive(self._settled(refusal))
                    else:
                        self.fail(refusal)
                except Exception as error:  # noqa: BLE001 - no error of one statement ends its session
                    self.fail(error)
                if connection.out_bytes > connection.write_ahead_bytes:
                    connection.write()
        except (FatalError, SilentClose) as last:
            self.end(last)
        is_waiting = self._run is not None and self.input_wanted is None  # for something else than input
        connection.pass_over(waiting=self._turn_is_due or is_waiting)
        if self.session.channels is not None:
            self.deliver()  # what waited for the client to read

    def _take_turn(self) -> None:
        self._turn_is_due = False
        self.advance()

    def fail(self, error: BaseException) -> None:
        """Tell the client what went wrong with the message at hand."""
        if not isinstance(error, SqlError):
            logger.error("a statement failed as it must not", exc_info=error, extra={"pid": self.pid})
            error = SqlError("XX000", f"internal error: {type(error).__name__}").with_traceback(
                error.__traceback__
            )
        self.session.abort()
        if self.forwarder is not None and self.forwarder.takes_again(error):
            return
        self.notify()
        self.connection.send(error_response(error))
        if self.extended:
            self.skipping = True
            self.connection.flush = True  # who said Flush, and waits before it says Sync, must hear of it
        else:
            self.ready()

    def notify(self) -> None:
        """Send what the session has to say besides answers."""
        notices = self.session.notices
        for one in notices:
            notice = SqlError(one.sqlstate, one.message, detail=one.detail, hint=one.hint)
            self.connection.send(notice_response(notice, one.severity))
        notices.clear()

    def ready(self) -> None:
        """ReadyForQuery, and before it the settings that have changed."""
        session = self.session
        settings = session.settings
        if settings.revision != self.reported.revision:
            self._report()
        if settings.commit_position is not self._told_position:
            self._told_position = settings.commit_position
            self.out.append(backend.parameter_status(COMMIT_POSITION, self._told_position))
        failed = session.failed
        status = "failed" if failed else "idle" if session.transaction is None else "active"
        if self.origin is not None:
            self.out.append(self.origin.status(session))
        self.end_request(status)

    def end_request(self, status: str) -> None:
        """ReadyForQuery, with the status of the transaction that the client sees."""
        channels = self.session.channels
        if channels is not None and status == "idle":
            self._send_notifications(channels)
        self.out.append(_READY[status])
        self.connection.flush = True
        if self.idling is not None:
            self.idling.begin()
        if self.connection.context.is_stopping and status == "idle":
            self.terminate(shutting_down())

    def _send_notifications(self, channels: SessionChannels) -> None:
        """Send what waits, as far as the client reads; where some of it is lost, end the session."""
        connection = self.connection
        try:
            while not connection.is_full and (found := channels.take()) is not None:
                connection.send(backend.notification_response(found.pid, found.channel, found.payload))
                if connection.out_bytes > connection.write_ahead_bytes:
                    connection.write()
        except SqlError as error:
            connection.context.loop.call_soon(self.terminate, error)

    def notification_waits(self) -> None:
        """A notification has come: it is sent soon, together with those that come in the same turn."""
        self.connection.context.loop.call_soon(self.deliver)

    def deliver(self) -> None:
        """Send the notifications that wait to a client that waits for nothing else; others get them later."""
        channels = self.session.channels
        if channels is not None and channels.has_some and self.is_idle and not self.is_over:
            self._send_notifications(channels)
            self.connection.write()

    def begin_reports(self) -> None:
        """The settings have their first values, or others: they are reported to the client."""
        settings = self.session.settings
        self.reported = report(settings)
        if self.idling is None and (settings.idle_session_s or settings.idle_transaction_s):
            self.idling = Idling(self.connection.context.loop, self.session, self.terminate)
        if settings.forward is not (self.forwarder is not None):
            self._forward_or_not()

    def _forward_or_not(self) -> None:
        """The session forwards from now on what this node may not do, or does not any more."""
        forwarding, forwarder = self.connection.context.forwarding, self.forwarder
        if forwarder is None:
            if forwarding is not None and self.origin is None:  # one hop and no more
                self.forwarder = forwarder = forwarding.forwarder(self, self._own_handlers)
                self._handlers = forwarder.handlers
        elif not forwarder.is_remote:
            forwarder.close()
            self.forwarder, self._handlers = None, self._own_handlers

    def report_changes(self) -> None:
        """Report the settings that have changed."""
        if self.session.settings.revision != self.reported.revision:
            self._report()

    def report_now(self) -> None:
        """Report changed settings to a client that waits for nothing else: one that looks for the leader
        hears at once that the database leads now."""
        if self.is_idle and not self.is_over and self.session.settings.revision != self.reported.revision:
            self._report()
            self.connection.write()

    def _report(self) -> None:
        before = self.reported
        self.begin_reports()
        now = self.reported
        for name, value in now.values.items():
            if before.values.get(name) != value:
                self.out.append(backend.parameter_status(name, value))

    # What has to wait.

    def drive(self, steps: Coroutine[Any, Any, None]) -> None:
        """Go through ``steps``; no other message is taken before they are done."""
        run = self.connection.context.databases.run(self._guarded(steps), self._ran)
        self.blocked = True
        self._run = run
        if run.start():
            self._ended(run)

    def go_on(
        self,
        steps: Coroutine[Any, Any, Result] | None,
        wait: Wait[Any],
        answer: Callable[[Run[Result]], None],
    ) -> None:
        """Go on with ``steps``, which have begun and wait; no other message is taken before they are done.

        Then ``answer`` is called, which raises what they raised. None: only the wait comes before that.
        """
        run = self.connection.context.databases.run(steps, partial(self._went_on, answer))
        self.blocked = True
        self._run = run
        run.wait_for(wait)

    def _went_on(self, answer: Callable[[Run[Result]], None], run: Run[Result]) -> None:
        try:
            answer(run)
        except Exception as error:  # noqa: BLE001 - no error of one statement ends its session
            self._failed(error)
        finally:
            self._over()
        if not self.is_over:
            self.advance()

    async def _settled(self, error: SqlError) -> None:
        """An error of a step that could not wait is raised once what it says of tables holds."""
        await self.session.settled(error)
        raise error

    async def _guarded(self, steps: Coroutine[Any, Any, None]) -> None:
        try:
            await steps
        except Exception as error:  # noqa: BLE001 - no error of one statement ends its session
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """What had to wait has ended with ``error``."""
        if isinstance(error, ConnectionLost):
            self.session.abort()
        elif isinstance(error, (FatalError, SilentClose)):
            self.end(error)
        else:
            self.fail(error)

    def _ended(self, run: Run[None]) -> None:
        try:
            run.result()
        finally:
            self._over()

    def _over(self) -> None:
        """Nothing is waited for any more."""
        self._run = None
        self.blocked = False
        if self.is_over:
            self._leave()
        elif self._fatal is not None:
            self.terminate(self._fatal)

    def _ran(self, run: Run[None]) -> None:
        self._ended(run)
        if not self.is_over:
            self.advance()

    async def more_input(self) -> None:
        """Write what is to be sent, and wait until something arrives.

        Raises:
            ConnectionLost: the client went away.
        """
        connection = self.connection
        if connection.is_lost or connection.eof:
            raise ConnectionLost
        wait: Wait[None] = Wait()
        self.input_wanted = wait
        connection.pass_over(waiting=False)
        await wait

    def _wake(self) -> None:
        wait, self.input_wanted = self.input_wanted, None
        if wait is None:
            return
        if self.connection.is_lost or self.connection.eof:
            wait.fail(ConnectionLost())
        else:
            wait.resolve(None)

    # Its end.

    @property
    def pid(self) -> int:
        """The session's number; 0 before it has one."""
        return 0 if self.entry is None else self.entry.pid

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and no transaction is open."""
        return not self.blocked and self.session.status == "idle"

    def end(self, error: Exception) -> None:
        """End the conversation: with a word for a FatalError, without one for a HangUp."""
        self.connection.refuse(error)
        self.lost()

    def close(self) -> None:
        """End the conversation, as the client wants."""
        self.connection.close()
        self.lost()

    def terminate(self, error: SqlError) -> None:
        """End the session from outside, and tell the client why. A commit under way is answered first."""
        if self.is_over:
            return
        if self._run is not None and self._run.is_committing:
            self._fatal = error
        else:
            self.end(FatalError.of(error))

    def lost(self) -> None:
        """The client is gone: what still waits is ended, what was committed stays."""
        self.is_over = True
        if self._run is None:
            self._leave()
            return
        self.session.cancel()
        self._wake()

    def _leave(self) -> None:
        """Undo what is open, once nothing runs any more."""
        if self._has_left:
            return
        self._has_left = True
        if self.idling is not None:
            self.idling.stop()
        self.session.cursor_form = None
        if self.forwarder is not None:
            self.forwarder.close()
        run = self.connection.context.databases.run(self.session.close(), self._closed)
        if run.start():
            self._closed(run)

    def _closed(self, run: Run[None]) -> None:
        self._left(self)
        run.result()


def shutting_down() -> SqlError:
    """Why sessions end when the server does."""
    return SqlError("57P01", "terminating connection due to administrator command")
