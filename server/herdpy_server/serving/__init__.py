"""A database opened for a server: one event loop runs every session. See ``database``."""

from herdpy_server.serving.alone import AlonePlacements, alone
from herdpy_server.serving.database import ServedDatabase
from herdpy_server.serving.driver import Driver, LoopTurn, Run
from herdpy_server.serving.interpreter import settle_interpreter
from herdpy_server.serving.node import Databases, Served, ServedNode, TablespaceStatus, no_database

__all__ = [
    "AlonePlacements",
    "Databases",
    "Driver",
    "LoopTurn",
    "Run",
    "Served",
    "ServedDatabase",
    "ServedNode",
    "TablespaceStatus",
    "alone",
    "no_database",
    "settle_interpreter",
]
