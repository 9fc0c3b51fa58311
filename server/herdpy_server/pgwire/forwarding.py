"""A session at a follower whose statements are forwarded to the leader, where this node may not do them.

Above ``queries``; ``forwarded`` is the leader's end, docs/decisions/35 says why it is so. The session stays
here, with its settings, prepared statements and cursors. A message whose statement this node can carry out is
answered by the handlers of every session. From the first message that it cannot (``forward_choice``) up to
Sync, a request is relayed: messages go to the leader's connection as they are, answers to the client. A
prepared statement is parsed there, too, before it is used the first time. A transaction stays at the leader
from its first such statement to its end; here one is open meanwhile that does nothing.

When the leader is lost the next one is waited for. The outcome of what was a transaction of its own is
looked up by its commit's name (``herdpy.forbid_commit``): done, and the client gets the answer that was held
back; not done, and its messages are put back and taken again. In an open transaction the statement fails with
40001.
"""

from __future__ import annotations

import asyncio
import json
import struct
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from herdpy.log.lsn import LSN, START
from herdpy.log.wait import Wait
from herdpy_server.pgwire import frontend
from herdpy_server.pgwire.backend import message, parameter_status
from herdpy_server.pgwire.client_statements import ClientStatement
from herdpy_server.pgwire.connection import FLUSH_BYTES
from herdpy_server.pgwire.conversation import COMMIT_POSITION
from herdpy_server.pgwire.forward_choice import ENDS, UNKNOWN, StatementTraits, traits_of
from herdpy_server.pgwire.frontend import HEAD
from herdpy_server.pgwire.leader_link import LeaderLink, error_fields, refusal
from herdpy_server.pgwire.relayed_request import RelayedRequest
from herdpy_server.sessions.plans import Prepared, PreparedStatement
from herdpy_server.sessions.request_ids import without_name
from herdpy_server.sessions.settings import MODES
from herdpy_server.tablespace.cluster import LeaderPlace
from herdpy_server.wire import declared_types
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.as_of import may_read_past
from herdpy_sql.plan import Execute, Fetch

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from herdpy_server.cluster.secret import NodeSecret
    from herdpy_server.pgwire.conversation import Conversation, Handler

_QUERY, _PARSE, _BIND, _DESCRIBE, _EXECUTE, _CLOSE, _FLUSH, _SYNC = b"QPBDECHS"
_TERMINATE = ord("X")
_QUERIES: Final = frozenset(b"QPBDEC")
_LOOK_S: Final = 0.1
"""How often a request that is waited for looks whether its leader still leads."""
_PAUSE_S: Final = 0.02
"""Between looks for a leader."""
_STATUS: Final = {"I": "idle", "T": "active", "E": "failed"}
_UNDOES: Final = frozenset({"ROLLBACK", "ABORT"})
_OF_CHANNELS: Final = frozenset({"LISTEN", "UNLISTEN"})
_OF_CURSORS: Final = frozenset({"FETCH", "MOVE", "CLOSE"})
_UNRESOLVED: Final = frozenset({"08007"})
_NOT_NOW: Final = "57P03"
_REFUSED_HERE: Final = frozenset({"25006", "57P03", "HP003"})
_HERE_BYTES: Final = 1 << 20


class LeaderLostError(Exception):
    """The leader's connection is gone, or it does not lead any more."""


class NodeForwarding:
    """See ``context.Forwarding``."""

    def __init__(
        self,
        node: str,
        secret: NodeSecret,
        tls: Callable[[], ssl.SSLContext | None],
        leads: Callable[[str], bool],
    ) -> None:
        self.node = node
        self.secret = secret
        self.tls = tls
        self.leads = leads

    def forwarder(self, conversation: Conversation, handlers: Mapping[int, Handler]) -> SessionForwarder:
        """See ``context.Forwarding``."""
        return SessionForwarder(self, conversation, handlers)


class SessionForwarder:
    """Of one session.

    Attributes:
        handlers, is_remote: see ``context.Forwarder``.
    """

    def __init__(
        self, forwarding: NodeForwarding, conversation: Conversation, handlers: Mapping[int, Handler]
    ) -> None:
        self.handlers = {kind: partial(self._take, kind, handler) for kind, handler in handlers.items()}
        self.is_remote = False
        self._forwarding = forwarding
        self._conversation = conversation
        self._session = conversation.session
        self._link: LeaderLink | None = None
        self._texts: dict[str, bytes] = {}  # the Parse messages of statements, by their names
        self._floor = START  # what this replica has to have before it answers this session
        self._has_failed = False  # the transaction at the leader has
        self._local_batch = False  # up to Sync messages are answered here, although one is open there
        self._leads = True  # what is connected to does
        self._pushed: dict[str, str | None] = {}
        self._name: str | None = None  # what the leader has learnt of the client's name for the next commit
        self._until_s: float | None = None  # a leader is waited for, since one was lost
        # Of a request that is answered here: its messages, None: too many; what it has parsed, and where its
        # answer begins: after so many writes, in so long a list.
        self._here: bytearray | None = None
        self._parsed_here: list[str] = []
        self._place_in_out = (0, 0, 0)
        self._has_ended = True
        self._is_forced = False  # it was refused here
        self._hindrance = ""  # why the last attempt to reach a leader failed
        self._cancelling: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """See ``context.Forwarder``."""
        self._drop()

    # Which messages are forwarded.

    def _take(
        self, kind: int, here: Handler, conversation: Conversation, data: bytes, at: int, stop: int
    ) -> None:
        """Take a message of the client."""
        if kind in _QUERIES:  # also where it is put back after its Sync was taken: an error ends as it is to
            conversation.extended = kind != _QUERY
        if kind != _TERMINATE and self._goes(kind, data, at, stop):
            conversation.extended = kind != _QUERY
            self._has_ended = True
            conversation.drive(self._relay(data[at - HEAD.size : stop]))
            return
        self._until_s = None  # a request that was to be made again is made here
        is_between = self._has_ended
        self._has_ended |= kind == _QUERY
        self._begin_here()
        if kind == _PARSE:
            self._remember(data, at, stop)
        elif kind in (_BIND, _DESCRIBE):
            name = _second_string(data, at, stop) if kind == _BIND else _target(data, at, stop)
            if name in self._texts and name not in self._session.prepared:
                conversation.extended = True
                self._parse_again(name)
        inbox = conversation.connection.inbox
        self._note_here(data[at - HEAD.size : stop])
        try:
            here(conversation, data, at, stop)
        finally:
            if inbox.data is data:
                self._note_here(data[stop : inbox.at])  # that was answered with it
            ends = kind in (_QUERY, _SYNC) or (kind == _FLUSH and is_between)
            self._has_ended = ends or not conversation.extended

    def _begin_here(self) -> None:
        """A message is about to be answered here: what of its request can be taken back is noted."""
        if self._has_ended:
            connection = self._conversation.connection
            self._has_ended = False
            self._here, self._parsed_here = bytearray(), []
            self._place_in_out = connection.writes, len(connection.out), connection.out_bytes

    def _note_here(self, messages: bytes) -> None:
        if self._here is not None:
            self._here += messages
            if len(self._here) > _HERE_BYTES:
                self._here = None

    def takes_again(self, error: SqlError) -> bool:
        """See ``context.Forwarder``: a request that was refused because this node does not lead, or not any
        more, and of whose answer the client has nothing."""
        session, connection = self._session, self._conversation.connection
        writes, count, out_bytes = self._place_in_out
        if (
            error.sqlstate not in _REFUSED_HERE
            or self._is_forced
            or self.is_remote
            or session.transaction is not None
            or not session.settings.standby
            or not self._here
            or connection.writes != writes
        ):
            return False
        del connection.out[count:]
        connection.out_bytes = out_bytes
        session.notices.clear()
        for name in self._parsed_here:
            session.close_statement(name)
            self._conversation.bound.pop(name, None)
        connection.inbox.put_back(bytes(self._here))
        self._conversation.extended = self._conversation.skipping = False
        self._has_ended = self._is_forced = True
        return True

    def _goes(self, kind: int, data: bytes, at: int, stop: int) -> bool:
        """Whether a request for the leader begins with this message. SqlError 40001: the leader changed."""
        session = self._session
        if self.is_remote:
            return not self._stays_in_transaction(kind, data, at, stop)
        standby = session.settings.standby
        forced, self._is_forced = self._is_forced and kind in b"QPB", False
        if forced and standby:
            return True
        if session.failed or kind not in b"QPBD":
            return False
        if session.transaction is not None and session.began_standby is not standby:
            self._check_ends(kind, data, at, stop)
            return False
        if not standby:
            return False
        if kind == _QUERY:
            return any(self._is_for_leader(traits) for traits in self._query_traits(data, at, stop))
        if kind == _PARSE:
            found = self._parsed(data, at, stop)
            traits = None if found is None else traits_of(session, found)
            return traits is not None and (traits is UNKNOWN or (traits.reads and self._is_behind))
        if kind == _BIND:
            return self._is_for_leader(self._bound_traits(data, at, stop))
        name = _target(data, at, stop)
        return bool(name) and name not in session.prepared and name in self._texts

    def _is_for_leader(self, traits: StatementTraits | None) -> bool:
        return traits is not None and (traits.leader or (traits.reads and self._is_behind))

    @property
    def _is_behind(self) -> bool:
        """Whether this replica lacks what the session has written."""
        return self._floor > self._session.tablespace.store.applied

    def _query_traits(self, data: bytes, at: int, stop: int) -> list[StatementTraits]:
        """Of the statements of a Query; none where it cannot be parsed."""
        try:
            statements = self._session.plans.statements(frontend.query(data, at, stop))
        except SqlError:
            return []
        for one in statements:
            if one.keyword in {"DEALLOCATE", "DISCARD"}:
                self._outdate(None)
        return [traits_of(self._session, one) for one in statements]

    def _parsed(self, data: bytes, at: int, stop: int) -> Prepared | None:
        """The statement of a Parse message; None: it is none, or reads the past."""
        try:
            _name, sql, _oids = frontend.parse(data, at, stop)
            found = () if may_read_past(sql) else self._session.plans.statements(without_name(sql)[0])
        except SqlError:
            return None
        if len(found) != 1:
            return None
        if found[0].keyword in {"DEALLOCATE", "DISCARD"}:
            self._outdate(None)
        return found[0]

    def _bound_traits(self, data: bytes, at: int, stop: int) -> StatementTraits | None:
        """Of the statement of a Bind message; None: there is no such statement."""
        name = _second_string(data, at, stop)
        statement = self._session.prepared.get(name)
        if statement is not None:
            return None if statement.statement is None else traits_of(self._session, statement)
        return UNKNOWN if name in self._texts else None

    def _check_ends(self, kind: int, data: bytes, at: int, stop: int) -> None:
        """This replica led or followed when the transaction began, and does not now: it can only end."""
        keywords = self._keywords(kind, data, at, stop)
        if keywords and keywords[0] not in _UNDOES:
            raise self._changed()

    def _keywords(self, kind: int, data: bytes, at: int, stop: int) -> list[str]:
        session = self._session
        if kind == _BIND:
            statement = session.prepared.get(_second_string(data, at, stop))
            return [] if statement is None else [statement.keyword]
        try:
            if kind == _QUERY:
                return [one.keyword for one in session.plans.statements(frontend.query(data, at, stop))]
            found = self._parsed(data, at, stop) if kind == _PARSE else None
        except SqlError:
            return []
        return [] if found is None else [found.keyword]

    def _stays_in_transaction(self, kind: int, data: bytes, at: int, stop: int) -> bool:
        """Whether a message is answered here although a transaction is open at the leader: it is about a
        cursor that was opened here before, a prepared statement, or a channel."""
        if self._local_batch:
            self._local_batch = kind != _SYNC
            return True
        session = self._session
        if self._has_failed:
            return False
        stays = False
        if kind in (_QUERY, _PARSE):
            stays = self._is_of_session(kind, data, at, stop)
        elif kind in (_EXECUTE, _DESCRIBE, _CLOSE):
            at += kind != _EXECUTE
            name = data[at : data.find(0, at, stop)].decode("utf-8", "replace")
            is_portal = kind == _EXECUTE or data[at - 1 : at] == b"P"
            stays = is_portal and bool(name) and name in session.portals
        self._local_batch = stays and kind != _QUERY
        return stays or kind == _SYNC

    def _is_of_session(self, kind: int, data: bytes, at: int, stop: int) -> bool:
        session = self._session
        try:
            if kind == _QUERY:
                found = session.plans.statements(frontend.query(data, at, stop))
            else:
                one = self._parsed(data, at, stop)
                found = () if one is None else (one,)
            if len(found) != 1:
                return False
            if found[0].keyword == "DEALLOCATE":
                self._outdate(None)
                return found[0].text.rpartition(" ")[2].strip('"') in {*session.prepared, "ALL", "all"}
            if found[0].keyword in _OF_CHANNELS:
                return True
            if found[0].keyword not in _OF_CURSORS:
                return False
            plan = found[0].planned(session.catalog, session.settings.engine).plan
        except SqlError:
            return False
        name = plan.name if isinstance(plan, Fetch) else getattr(plan, "name", None)
        return name in session.portals

    # Prepared statements.

    def _remember(self, data: bytes, at: int, stop: int) -> None:
        """A statement is parsed: the leader is given its text when it is used there."""
        name = data[at : data.find(0, at, stop)].decode("utf-8", "replace")
        if name not in self._session.prepared or not name:
            self._parsed_here.append(name)
        self._texts[name] = data[at:stop]
        self._outdate(name)
        if len(self._texts) > 2 * len(self._session.prepared) + 64:
            prepared = self._session.prepared
            self._texts = {one: text for one, text in self._texts.items() if one in prepared or one == name}

    def _outdate(self, name: str | None) -> None:
        """The leader's statement of that name is another one now; None: all of them are."""
        link = self._link
        if link is None:
            return
        gone = set(link.known) if name is None else link.known & {name}
        link.outdated |= gone - {""}
        link.known -= gone

    def _give(self, request: RelayedRequest, link: LeaderLink, name: str) -> None:
        """See to it that the leader has a prepared statement."""
        if name in link.known:
            return
        body = self._texts.get(name)
        if body is None:
            statement = self._session.prepared.get(name)
            if statement is None:
                return
            body = _parse_body(name, statement)
        if name in link.outdated:
            link.outdated.discard(name)
            link.send(message(b"C", b"S" + name.encode() + b"\0"))
            request.expect("3", is_visible=False)
        link.send(message(b"P", body))
        request.expect("1", is_visible=False)
        link.known.add(name)

    def _give_executed(self, request: RelayedRequest, statement: Prepared | PreparedStatement) -> None:
        """See to it that the leader has what an EXECUTE names."""
        ready = statement.ready
        if statement.keyword != "EXECUTE" or ready is None or not isinstance(ready.plan, Execute):
            return
        name, link = ready.plan.name, self._the_link
        if name not in link.known and name in self._session.prepared:
            self._give(request, link, name)
            if not request.extended:  # an error of it must not have the Query passed over
                link.send(message(b"S", b""))
                request.to_pass_over += 1

    def _parse_here(self, request: RelayedRequest, name: str, body: bytes) -> None:
        """What is parsed at the leader is a statement of this session, too, if it can be planned here."""
        session = self._session
        session.close_statement(name)
        self._conversation.bound.pop(name, None)
        self._texts[name] = body
        request.parsed.append(name)
        was_failed = session.failed
        with suppress(SqlError):
            self._parse_again(name)
        session.failed = was_failed

    def _parse_again(self, name: str) -> None:
        """Prepare here what only the leader had so far. SqlError as planning raises them."""
        session, body = self._session, self._texts[name]
        _name, sql, oids = frontend.parse(body, 0, len(body))
        if not may_read_past(sql):
            session.parse(name, sql, declared_types(oids, session.catalog) if oids else ())
            self._conversation.bound[name] = ClientStatement(name, session.prepared[name], oids)

    # A request.

    async def _relay(self, first: bytes) -> None:
        """Carry a request out at the leader, from its ``first`` message on."""
        session, conversation = self._session, self._conversation
        session.begins(self._text(first))
        session.waits.deadline.begin(None)  # the leader minds its time
        request: RelayedRequest | None = None
        try:
            try:
                if not await self._reached():
                    conversation.connection.inbox.put_back(first)
                    return
                request = self._begin(extended=first[0] != _QUERY)
                self._pass(request, first)
                await self._exchange(request)
            except LeaderLostError:
                request = await self._recovered(request, first)
            if request is not None:
                await self._finish(request)
        except BaseException:
            self._drop()
            self._until_s = None  # the next request waits anew
            if request is not None and request.is_sent:
                conversation.extended = False  # there is no Sync to come
            raise
        finally:
            session.is_running = False

    def _begin(self, *, extended: bool) -> RelayedRequest:
        """Tell the leader what a request begins with."""
        session, link = self._session, self._the_link
        settings = session.settings
        own = settings.request_id.decode()
        name = own or f"forward-{uuid.uuid4().hex}"
        self._leads = True
        if self.is_remote:
            return RelayedRequest(name, extended=extended, explicit=True, is_own=bool(own))
        given: dict[str, Any] = {}
        if settings.revision != link.revision:
            link.revision = settings.revision
            now = settings.differences()
            if now != link.settings or settings.request_id:
                given["settings"] = link.settings = now
        explicit = session.transaction is not None and not session.implicit
        if explicit:
            self._check_attachable()
            given["begin"] = {mode: settings[mode] for mode in MODES}
            given["savepoints"] = [savepoint for savepoint, _mark, _settings in session.savepoints]
            self.is_remote, self._has_failed = True, False
        if own or not explicit:
            given |= {"request_id": name, "is_own": bool(own)}
        link.send(message(b"h", json.dumps(given).encode()))
        request = RelayedRequest(name, extended=extended, explicit=explicit, is_own=bool(own))
        request.attaches = explicit
        return request

    def _check_attachable(self) -> None:
        """SqlError 25001: the transaction has read here what it must read again as it was."""
        transaction, isolation = self._session.transaction, self._session.settings.isolation
        if transaction is not None and transaction.queried and isolation != "read committed":
            raise SqlError(
                "25001",
                f"a {isolation} transaction that has read on this replica cannot go on at the leader",
                hint="Write before the first read, or SET herdpy.read_level = 'linearizable' before BEGIN.",
            )

    @property
    def _the_link(self) -> LeaderLink:
        if self._link is None:
            raise LeaderLostError
        return self._link

    def _pass(self, request: RelayedRequest, raw: bytes) -> None:
        """Send a message of the client to the leader."""
        link, kind, at, stop = self._the_link, raw[0], HEAD.size, len(raw)
        if request.copying:
            if kind in b"cf":
                request.copying = False
                request.is_sent = not request.extended
            link.send(raw)
            return
        request.note(raw)
        if kind == _QUERY:
            self._pass_query(request, raw)
        elif kind == _PARSE:
            self._pass_parse(request, raw)
        elif kind == _BIND:
            self._pass_bind(request, raw)
        elif kind == _DESCRIBE:
            is_statement = raw[at : at + 1] == b"S"
            if is_statement:
                self._give(request, link, raw[at + 1 : stop - 1].decode("utf-8", "replace"))
            request.expect("S" if is_statement else "D")
        elif kind == _EXECUTE:
            portal = raw[at : raw.find(0, at)].decode("utf-8", "replace")
            request.expect("E", request.tags.get(portal))
        elif kind == _CLOSE:
            self._pass_close(request, raw)
        elif kind == _FLUSH:
            request.hold = False
        elif kind == _SYNC:
            if request.hold:
                link.send(message(b"H", b""))  # so that the answer comes before the commit
            request.is_sent = True
        link.send(raw)

    def _pass_query(self, request: RelayedRequest, raw: bytes) -> None:
        request.is_sent = True
        self._the_link.known.discard("")
        try:
            statements = self._session.plans.statements(frontend.query(raw, HEAD.size, len(raw)))
        except SqlError:
            return  # the leader says so
        for one in statements:
            self._give_executed(request, one)
            traits = traits_of(self._session, one)
            request.add(traits, one.keyword)
            request.expect("E", traits.tag)
        self._name_commit(request)

    def _pass_parse(self, request: RelayedRequest, raw: bytes) -> None:
        at = HEAD.size
        name = raw[at : raw.find(0, at)].decode("utf-8", "replace")
        link = self._the_link
        if name in link.outdated:
            link.outdated.discard(name)
            link.send(message(b"C", b"S" + name.encode() + b"\0"))
            request.expect("3", is_visible=False)
        request.expect("1")
        link.known.add(name)
        self._parse_here(request, name, raw[at:])

    def _pass_bind(self, request: RelayedRequest, raw: bytes) -> None:
        at, stop = HEAD.size, len(raw)
        name = _second_string(raw, at, stop)
        portal = raw[at : raw.find(0, at)].decode("utf-8", "replace")
        self._give(request, self._the_link, name)
        statement = self._session.prepared.get(name)
        traits = UNKNOWN
        keyword = ""
        if statement is not None:
            keyword = statement.keyword
            traits = traits_of(self._session, statement) if keyword else StatementTraits(leader=False)
            self._give_executed(request, statement)
            if statement.named:
                value = frontend.bind(raw, at, stop)[3][-1]
                if value:
                    request.request_id, request.is_own = value.decode("utf-8", "replace"), True
        request.add(traits, keyword)
        request.tags[portal] = traits.tag
        request.expect("2")
        if keyword in ENDS:
            self._name_commit(request)

    def _pass_close(self, request: RelayedRequest, raw: bytes) -> None:
        at = HEAD.size
        name = raw[at + 1 : -1].decode("utf-8", "replace")
        if raw[at : at + 1] == b"S":
            link = self._the_link
            link.known.discard(name)
            link.outdated.discard(name)
            self._session.close_statement(name)
            self._conversation.bound.pop(name, None)
            self._texts.pop(name, None)
        request.expect("3")

    def _name_commit(self, request: RelayedRequest) -> None:
        """Before the COMMIT of a transaction: it has a name, for its outcome to be looked up."""
        if self.is_remote and request.commits:
            given = {"request_id": request.request_id, "is_own": request.is_own}
            self._the_link.send(message(b"h", json.dumps(given).encode()))

    # Its answer.

    async def _exchange(self, request: RelayedRequest) -> None:
        """Pass messages on in both directions up to ReadyForQuery.

        Raises:
            LeaderLostError: before that.
            ConnectionLost: the client went away.
        """
        connection = self._conversation.connection
        while True:
            link = self._the_link
            self._pass_input(request, link)
            self._take_answers(request, link)
            if request.status:
                self._judge(request)
                return
            if link.is_lost or self._is_over(link):
                raise LeaderLostError
            if connection.is_full or connection.out_bytes > FLUSH_BYTES:
                await connection.room()
            elif not link.messages:
                await self._until_something(request, link)

    def _pass_input(self, request: RelayedRequest, link: LeaderLink) -> None:
        """Pass on what the client has sent of the request."""
        inbox = self._conversation.connection.inbox
        while (not request.is_sent or request.copying) and not link.is_full:
            found = inbox.next()
            if found is None:
                return
            _kind, at, stop = found
            self._pass(request, inbox.data[at - HEAD.size : stop])

    def _take_answers(self, request: RelayedRequest, link: LeaderLink) -> None:
        """Take what the leader has answered, and pass on what need not be held back."""
        connection = self._conversation.connection
        while link.messages and not request.status and connection.out_bytes <= FLUSH_BYTES:
            raw = link.take()
            kind = raw[:1]
            if request.to_pass_over and kind in b"EZ":
                request.to_pass_over -= kind == b"Z"
            elif kind == b"Z":
                request.status = chr(raw[5])
            elif kind == b"S":
                self._reported(request, raw)
            elif kind == b"h":
                self._learn(json.loads(raw[5:]))
            elif kind == b"E" and error_fields(raw).get("V") == "FATAL":
                request.is_refused = error_fields(raw).get("C") == _NOT_NOW
                link.abort()
            else:
                request.answer(raw)
                self._let_go(request)

    def _let_go(self, request: RelayedRequest) -> None:
        """Send the client what need not be held back."""
        conversation = self._conversation
        if request.copying or request.is_full or not request.hold:
            for one in request.release():
                conversation.connection.send(one)
            conversation.connection.flush = True
        if request.error is not None and not request.is_sent and request.extended:
            conversation.connection.flush = True  # the client may wait for it before Sync

    def _reported(self, request: RelayedRequest, raw: bytes) -> None:
        """A setting of the leader's session: those are reported from here, but for the commit's position."""
        name, value = raw[5:-1].split(b"\0", 1)
        if name.decode() == COMMIT_POSITION:
            request.position = value.rstrip(b"\0").decode()
            self._floor = max(self._floor, LSN.parse(request.position))

    def _learn(self, changes: Mapping[str, Any]) -> None:
        """What the leader says before ReadyForQuery."""
        self._leads = changes.get("leads", True)
        self._name = changes.get("request_id", self._name)
        self._pushed |= changes.get("settings", {})
        if "temporary" in changes:
            self._session.settings.use_temporary_schema(changes["temporary"])

    def _judge(self, request: RelayedRequest) -> None:
        """The request has come to its end. LeaderLostError: not where it was to."""
        if request.error is None:
            return
        state = error_fields(request.error).get("C")
        if not self._leads or (state in _UNRESOLVED and request.writes):
            raise LeaderLostError

    async def _until_something(self, request: RelayedRequest, link: LeaderLink) -> None:
        """Wait for the leader, and for the client where more of the request is to come."""
        conversation, session = self._conversation, self._session
        wait: Wait[None] = Wait()
        link.wake = wait
        if not request.is_sent or request.copying:
            conversation.input_wanted = wait
        conversation.connection.pass_over(waiting=False)
        timer = conversation.connection.context.loop.call_later(_LOOK_S, wait.resolve, None)
        try:
            await session.waits.until(wait)
        except SqlError:
            if conversation.is_over or session.waits.is_closed:
                raise
            session.waits.deadline.begin(None)
            self._cancel(link)
        finally:
            timer.cancel()
            link.wake = conversation.input_wanted = None

    def _cancel(self, link: LeaderLink) -> None:
        """The client cancels what the leader does for it."""
        task = self._conversation.connection.context.loop.create_task(link.cancel(self._forwarding))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    def _is_over(self, link: LeaderLink) -> bool:
        """Whether another leads than the node at the other end, as far as is known here."""
        return not self._session.settings.standby or self._place() not in (None, link.place)

    def _place(self) -> LeaderPlace | None:
        guard = self._session.tablespace.guard
        return None if guard is None else guard.leader_place()

    async def _finish(self, request: RelayedRequest) -> None:
        """The client gets what is left of the answer, and the session is as the request leaves it."""
        conversation, session = self._conversation, self._session
        self._until_s = None
        for one in request.release():
            conversation.connection.send(one)
        if request.error is not None:
            conversation.connection.send(request.error)
        name, self._name = self._name, None
        if name is not None:
            session.settings.learn_request_id(name)
        await self._mirror(request)
        link, settings = self._link, session.settings
        if self._pushed:
            pushed, self._pushed = self._pushed, {}
            settings.take_over(pushed)
        if link is not None and link.revision >= 0 and not self.is_remote:
            link.revision, link.settings = settings.revision, settings.differences()
        conversation.extended = conversation.skipping = False
        conversation.report_changes()
        if request.position and request.is_own:
            if not self.is_remote:
                settings.take_request_id()
            conversation.out.append(parameter_status(COMMIT_POSITION, request.position))
        conversation.notify()
        conversation.end_request(_STATUS[request.status])

    async def _mirror(self, request: RelayedRequest) -> None:
        """The session has a transaction open here while, and only while, it has one at the leader."""
        session = self._session
        self._has_failed = request.status == "E"
        if request.status != "I":
            self.is_remote = True
            if session.transaction is None:
                session.begin()
            session.implicit = session.pipelined = False
            return
        self.is_remote = False
        if session.transaction is not None:
            if request.error is not None or request.last_tag == "ROLLBACK":
                await session.rollback()
            else:
                await session.commit()
        self._conversation.portals.clear()

    # A leader, and the loss of one.

    async def _reached(self) -> bool:
        """Be connected to the leader; False: this node leads itself.

        Raises:
            LeaderLostError: the transaction that is open is lost with another leader.
            SqlError: 57P03, there was none in time; 57014; what the leader says against the session.
        """
        session = self._session
        loop = self._conversation.connection.context.loop
        until_s = self._until_s or loop.time() + session.settings.forward_timeout_s
        while True:
            link, place = self._link, self._place()
            if link is not None and not link.is_lost and not self._is_over(link):
                return True
            if self.is_remote:
                raise LeaderLostError
            self._drop()
            if not session.settings.standby:
                return False
            if place is not None and await self._connected(place):
                return True
            if loop.time() > until_s:
                raise self._unreached()
            await self._pause()

    def _unreached(self) -> SqlError:
        """57P03: no leader came in time."""
        self._until_s = None
        return SqlError(
            _NOT_NOW,
            f"no leader could be reached within {self._session.settings.forward_timeout_s:g} s",
            detail=self._hindrance or "There is no leader at the moment.",
            hint="Try again; herdpy.forward_timeout says how long a leader is waited for.",
        )

    @property
    def _is_late(self) -> bool:
        """Whether leaders have been lost, and waited for, long enough."""
        return self._until_s is not None and self._conversation.connection.context.loop.time() > self._until_s

    async def _connected(self, place: LeaderPlace) -> bool:
        """Connect to a leader; False when that fails. SqlError: what it says against the session."""
        entry = self._conversation.entry
        if entry is None:
            return False
        link = LeaderLink(place)
        start: dict[str, Any] = {
            "node": self._forwarding.node,
            "user": entry.user,
            "database": entry.database,
            "address": entry.address,
            "port": entry.port,
            "pid": entry.pid,
            "settings": self._session.settings.beginning(),
        }
        context = self._conversation.connection.context
        opening = context.loop.create_task(link.open(self._forwarding, start))
        wait: Wait[None] = Wait()
        opening.add_done_callback(lambda _task: wait.resolve(None))
        try:
            await self._session.waits.until(wait)
            opening.result()
        except OSError as error:  # TimeoutError among them
            self._hindrance = f"Node {place.node} at {place.host}:{place.port}: {error!r}"
            return False
        except SqlError as error:
            link.abort()
            self._hindrance = f"Node {place.node} at {place.host}:{place.port}: {error.message}"
            if error.sqlstate == _NOT_NOW:
                return False
            raise
        self._link = link
        return True

    async def _pause(self) -> None:
        wait: Wait[None] = Wait()
        timer = self._conversation.connection.context.loop.call_later(_PAUSE_S, wait.resolve, None)
        try:
            await self._session.waits.until(wait)
        finally:
            timer.cancel()

    def _drop(self) -> None:
        """Leave the leader; what is open there is rolled back."""
        link, self._link = self._link, None
        self.is_remote = self._has_failed = self._local_batch = False
        if link is not None:
            link.abort()
            self._pushed, self._name = {}, None
            if self._session.settings.temporary_schema:
                self._session.settings.use_temporary_schema("")

    async def _recovered(self, request: RelayedRequest | None, first: bytes) -> RelayedRequest | None:
        """The leader was lost during a request.

        Returns:
            The request, whose transaction is committed; None: it was put back, to be made again.

        Raises:
            SqlError: 40001 nothing of it is done, 08007 that is not known, or its answer is not.
        """
        session, conversation = self._session, self._conversation
        was_remote = self.is_remote and not (request is not None and request.attaches)
        self._drop()
        if self._until_s is None:
            now_s = conversation.connection.context.loop.time()
            self._until_s = now_s + session.settings.forward_timeout_s
        if was_remote:
            await self._end_lost(request, first)
        try:
            lsn = await self._outcome(request)
        finally:
            if request is not None and request.is_sent:
                conversation.extended = False
        if lsn is not None:
            assert request is not None
            self._floor = max(self._floor, lsn)
            rest = request.rest()
            if request.attaches:
                await session.rollback()
            if rest is None:
                raise _answer_lost(lsn)
            request.held += rest
            request.error, request.status = None, "I"
            request.position, request.last_tag = str(lsn), "COMMIT"
            return request
        if was_remote or request is None or request.is_released or request.sent is None:
            self._until_s = None
            raise self._changed()
        if self._is_late:
            raise self._unreached()
        await self._pause()
        for name in request.parsed:
            session.close_statement(name)
            conversation.bound.pop(name, None)
        conversation.connection.inbox.put_back(bytes(request.sent))
        return None

    async def _end_lost(self, request: RelayedRequest | None, first: bytes) -> None:
        """A transaction is lost with its leader. SqlError 40001 unless its COMMIT may have been done."""
        session = self._session
        keywords = self._keywords(first[0], first, HEAD.size, len(first))
        if request is None or not request.commits:
            if keywords and keywords[0] in {*ENDS, *_UNDOES}:
                await session.rollback()
            self._until_s = None
            if request is not None and request.is_sent:
                self._conversation.extended = False
            raise self._changed()
        await session.rollback()

    async def _outcome(self, request: RelayedRequest | None) -> LSN | None:
        """Where a request was committed; None: it was not, and will not be. SqlError 08007: nobody knows."""
        if request is None or request.is_refused or not request.commits:
            return None
        if not request.named or request.commits != 1:
            raise _unknown("it is not one commit with a name")
        text = ""
        while not text:
            try:
                text = await self._forbid(request.request_id)
            except LeaderLostError:
                self._drop()
            except SqlError as error:
                raise _unknown(error.message) from error
            if not text and self._is_late:
                raise _unknown(self._unreached().message)
        if text.startswith("done "):
            return LSN.parse(text[5:])
        if text == "not done":
            return None
        raise _unknown("it is not kept for so long")

    async def _forbid(self, name: str) -> str:
        """Ask the leader what became of a commit, which cannot be carried out any more. LeaderLostError."""
        session = self._session
        if not await self._reached():
            result = await session.execute("SELECT herdpy.forbid_commit($1)", [name])
            return str(result.rows[0][0])
        link = self._the_link
        quoted = name.replace("'", "''")
        link.send(message(b"Q", f"SELECT herdpy.forbid_commit('{quoted}')".encode() + b"\0"))
        request = RelayedRequest("", extended=False, explicit=False, is_own=False)
        request.is_sent = True
        await self._exchange(request)
        if request.error is not None:
            raise refusal(request.error)
        (row,) = (one for one in request.release() if one[:1] == b"D")
        return row[11:].decode()

    def _changed(self) -> SqlError:
        return SqlError(
            "40001",
            "the leader changed while the transaction was open",
            detail="Nothing of it is done.",
            hint="Run the transaction again from its start.",
        )

    def _text(self, first: bytes) -> str:
        """The statement that a request begins with."""
        try:
            if first[0] == _QUERY:
                return frontend.query(first, HEAD.size, len(first))
            if first[0] == _PARSE:
                return frontend.parse(first, HEAD.size, len(first))[1]
        except SqlError:
            return ""
        found = self._session.prepared.get(_second_string(first, HEAD.size, len(first)))
        return "" if found is None else found.text


def _target(data: bytes, at: int, stop: int) -> str:
    """The statement's name in a Describe message; "" where it is about a portal."""
    return data[at + 1 : stop - 1].decode("utf-8", "replace") if data[at : at + 1] == b"S" else ""


def _second_string(data: bytes, at: int, stop: int) -> str:
    """The second name in a message: of Bind, the statement's."""
    start = data.find(0, at, stop) + 1
    return data[start : data.find(0, start, stop)].decode("utf-8", "replace")


def _parse_body(name: str, statement: PreparedStatement) -> bytes:
    """The body of a Parse message for what SQL's PREPARE made."""
    oids = [one.oid for one in statement.param_types]
    text = name.encode() + b"\0" + statement.text.encode() + b"\0"
    return text + struct.pack(f">H{len(oids)}I", len(oids), *oids)


def _unknown(reason: str) -> SqlError:
    return SqlError(
        "08007",
        "the leader was lost while the statement was committed, and its outcome is not known",
        detail=reason,
        hint="Look whether it is there before it is run again.",
    )


def _answer_lost(lsn: LSN) -> SqlError:
    return SqlError(
        "08007",
        "the leader was lost after the statement was committed, and its answer with it",
        detail=f"The commit is done, at {lsn}.",
        hint="Do not run it again; look at the rows instead.",
    )
