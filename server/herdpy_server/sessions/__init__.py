"""What a connected client can do, with no transport in it. See ``session`` for how it works."""

from herdpy_server.sessions.plans import PlanCache
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.session import Session
from herdpy_server.sessions.work import LastWait

__all__ = ["LastWait", "PlanCache", "Result", "Session"]
