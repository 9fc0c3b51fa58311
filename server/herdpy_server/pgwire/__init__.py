"""PostgreSQL's protocol 3 in front of sessions.

    frontend, backend, errors      pure: bytes to requests, answers to bytes
    authentication                 pure: who may come in, and SCRAM
    context                        what a server's connections share
    connection                     asyncio: one client
    client_statements              functions between bytes and datums, kept for each prepared statement
    conversation                   one session's messages; given what answers them
    queries, streams               what answers them: requests, and what is sent and taken bit by bit
    admission                      a server's sessions
    opening                        from the first byte to the session
    server                         listens, knows all connections, ends them

A statement's way: ``ClientConnection.data_received`` -> ``Conversation.advance`` -> ``queries.bind`` and
``execute`` -> the session -> DataRow and CommandComplete into ``out`` -> one write when the pass is over.
docs/protocol.md says what of the protocol there is.
"""

from herdpy_server.pgwire.authentication import Authority, LoopbackTrust
from herdpy_server.pgwire.context import PgSettings
from herdpy_server.pgwire.server import PgServer

__all__ = ["Authority", "LoopbackTrust", "PgServer", "PgSettings"]
