"""What a connected client can do, with no transport in it. See ``session``, and DESIGN.md for why."""

from herdpy_server.sessions.block import SessionNotice
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.sessions.open_sessions import OpenSessions
from herdpy_server.sessions.plans import Declared, PlanCache, PreparedStatement, StatementDescription
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.session import Session, SimpleQuery

__all__ = [
    "Declared",
    "OpenSessions",
    "PlanCache",
    "Portal",
    "PreparedStatement",
    "Result",
    "Session",
    "SessionLimits",
    "SessionNotice",
    "SimpleQuery",
    "StatementDescription",
]
