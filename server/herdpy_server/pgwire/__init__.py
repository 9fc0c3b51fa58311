"""PostgreSQL's protocol 3 in front of sessions.

    messages, backend, errors, startup, scram, inbox     pure: bytes to requests, answers to bytes
    connection                                           asyncio: one client
    opening -> conversation                              what a connection is at: who it is, then its requests
    simple, extended, copying, results, rare             the requests
    server                                               listens, knows all connections, ends them

A statement's way: ``Connection.data_received`` -> ``Conversation.advance`` -> ``extended.bind`` and
``execute`` -> the session -> DataRow and CommandComplete into ``out`` -> one write when the pass is over.
docs/protocol.md says what of the protocol there is.
"""

from herdpy_server.pgwire.authority import Authority, LoopbackTrust
from herdpy_server.pgwire.server import PgServer
from herdpy_server.pgwire.settings import PgSettings

__all__ = ["Authority", "LoopbackTrust", "PgServer", "PgSettings"]
