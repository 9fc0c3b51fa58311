"""PostgreSQL's protocol 3 in front of sessions.

    messages, backend, errors, startup, scram, inbox     pure: bytes to requests, answers to bytes
    context                                              what a server's connections share
    connection                                           asyncio: one client
    conversation                                         one session's messages; given what answers them
    simple, extended, round_trip, copying, results       the requests
    handlers                                             which of them answers which message
    admission                                            a server's sessions
    opening                                              from the first byte to the session
    server                                               listens, knows all connections, ends them

A statement's way: ``ClientConnection.data_received`` -> ``Conversation.advance`` -> ``extended.bind`` and
``execute`` -> the session -> DataRow and CommandComplete into ``out`` -> one write when the pass is over.
docs/protocol.md says what of the protocol there is.
"""

from herdpy_server.pgwire.authority import Authority, LoopbackTrust
from herdpy_server.pgwire.server import PgServer
from herdpy_server.pgwire.settings import PgSettings

__all__ = ["Authority", "LoopbackTrust", "PgServer", "PgSettings"]
