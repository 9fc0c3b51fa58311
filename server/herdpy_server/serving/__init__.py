"""A database opened for a server: one event loop runs every session. See ``database``."""

from herdpy_server.serving.database import ServedDatabase
from herdpy_server.serving.databases import Databases, OneDatabase, no_database
from herdpy_server.serving.driver import Driver, Run
from herdpy_server.serving.interpreter import settle_interpreter
from herdpy_server.serving.tablespaces import Served, ServedTablespaces, Standing
from herdpy_server.serving.turn import LoopTurn

__all__ = [
    "Databases",
    "Driver",
    "LoopTurn",
    "OneDatabase",
    "Run",
    "Served",
    "ServedDatabase",
    "ServedTablespaces",
    "Standing",
    "no_database",
    "settle_interpreter",
]
