"""A database opened for a server: one event loop runs every session. See ``database``."""

from herdpy_server.serving.database import ServedDatabase
from herdpy_server.serving.driver import Driver, Run
from herdpy_server.serving.interpreter import settle_interpreter
from herdpy_server.serving.turn import LoopTurn

__all__ = ["Driver", "LoopTurn", "Run", "ServedDatabase", "settle_interpreter"]
