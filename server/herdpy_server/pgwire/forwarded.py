"""The leader's end of sessions that other nodes forward: what proves one, and what it has beside others.

Between ``queries`` and ``opening``; ``forwarding`` is the other end, and docs/protocol.md has the bytes. A
node that has the cluster's secret forwards for a role that has proved itself there. Each side signs random
bytes of the other, so nothing that was overheard proves anything. The session is one of that role like any
other: rights, limits and settings are the role's. It differs in three things:

- A message of type ``h`` comes before requests: the settings of the client's session, the name of the commit,
  and the transaction that began at the follower.
- A message of type ``h`` goes before ReadyForQuery, where this node does not lead any more, or what SET was
  said: the follower keeps the settings.
- A text of one statement that writes is answered in two pieces, as an extended query with Flush before its
  Sync is: the answer, and once the commit is durable ReadyForQuery. When this node dies in between, the
  follower has the answer, and learns the outcome from the next leader by the commit's name.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from herdpy_server.pgwire import frontend
from herdpy_server.pgwire.backend import FatalError, SilentClose, message
from herdpy_server.pgwire.forwarded_client import ForwardedClient
from herdpy_server.pgwire.frontend import CONTEXT, NONCE_BYTES, PROTOCOL, StartupMessage
from herdpy_server.pgwire.queries import run_query, run_statements
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.cluster.secret import NodeSecret
    from herdpy_server.pgwire.conversation import Conversation, Handler
    from herdpy_server.sessions import SimpleQuery

MAX_START_BYTES: Final = 8 << 20
"""Settings of a session, its user's own among them, have room in that."""
SIGNATURE_BYTES: Final = 32
LEADER, FOLLOWER = b"leader", b"follower"
"""Whose signature it is: one is never good as the other."""
_CHANGING = frozenset(
    {"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "SELECT", "(", "VALUES", "COPY", "EXECUTE"}
)


class ForwardChallenge:
    """The proof of one connection's other side that it is a node, of which this side gives one, too."""

    def __init__(self, secret: NodeSecret, theirs: bytes) -> None:
        """``theirs``: the random bytes that the node has sent."""
        self._secret = secret
        self._theirs = theirs
        self._own = secrets.token_bytes(NONCE_BYTES)

    def question(self) -> bytes:
        """The message to the node: other random bytes, and this side's proof. SilentClose: none is had."""
        try:
            proof = self._secret.signature(LEADER, self._theirs, self._own)
        except OSError as error:
            raise SilentClose(f"a forwarded session: {error}") from error
        if proof is None:
            raise SilentClose("a forwarded session before the cluster's secret is known")
        return message(b"h", self._own + proof)

    def answered(self, body: bytes) -> tuple[StartupMessage, ForwardedClient]:
        """What the node's answer begins. FatalError 28000: it proves nothing."""
        signature, start = body[:SIGNATURE_BYTES], body[SIGNATURE_BYTES:]
        if not self._secret.is_signed(signature, FOLLOWER, self._theirs, self._own, start):
            raise FatalError("28000", "the proof of a node that forwards a session is wrong")
        given = json.loads(start)
        startup = StartupMessage(
            given["user"], given["database"], given["settings"], "", (), PROTOCOL & 0xFFFF
        )
        return startup, ForwardedClient(given["node"], given["address"], given["port"], given.get("pid", 0))


def forwarded_handlers(handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
    """What the messages of a forwarded session are answered by."""
    return {**handlers, ord("Q"): _query, CONTEXT: _context}


def _context(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """What a request begins with. It has no answer; FatalError where it cannot be carried out."""
    origin, session = conversation.origin, conversation.session
    assert origin is not None
    given = json.loads(data[at:stop])
    settings = session.settings
    try:
        if "settings" in given and session.transaction is None:
            settings.take(given["settings"])
            origin.took(session)
        name = given.get("request_id", "")
        origin.names(name, is_own=given.get("is_own", False))
        if name:
            settings.name_commit(name.encode())
        elif settings.request_id and session.transaction is None:
            settings.take_request_id()
        if settings.standby:
            raise FatalError("57P03", "this node does not lead the database any more")
        if "begin" in given:
            session.begin_alike(given["begin"])
            for savepoint in given["savepoints"]:
                session.savepoint(savepoint)
    except SqlError as error:
        raise FatalError.of(error) from error


def _query(conversation: Conversation, data: bytes, at: int, stop: int) -> None:
    """Query: the answer of what may write is sent before its commit is durable."""
    conversation.extended = False
    session = conversation.session
    sql = frontend.query(data, at, stop)
    if session.transaction is not None:
        run_query(conversation, sql, briefly=False)
        return
    statements = session.simple_query(sql)
    if len(statements.keywords) != 1 or statements.keywords[0] not in _CHANGING:
        run_query(conversation, sql, briefly=False)
        return
    session.close_statement("")
    session.close_portal("")
    statements.commits_apart = True
    conversation.drive(_run_apart(conversation, statements))


async def _run_apart(conversation: Conversation, statements: SimpleQuery) -> None:
    await run_statements(conversation, statements)
    conversation.connection.write()
    if conversation.session.implicit:
        await conversation.session.commit()
    conversation.notify()
    conversation.ready()
