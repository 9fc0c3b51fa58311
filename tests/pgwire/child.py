"""A server alone in a process: ``python -m tests.pgwire.child <directory> <settings>``."""

from __future__ import annotations

import ast
import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from herdpy_server.pgwire import PgServer, PgSettings
from herdpy_server.roles.role import RoleFile, RoleStore
from herdpy_server.serving import ServedDatabase, alone
from herdpy_server.sessions.registry import SessionRegistry


async def main() -> None:
    database = await ServedDatabase.open(Path(sys.argv[1]))
    settings = PgSettings(port=0, **ast.literal_eval(sys.argv[2]))
    registry = SessionRegistry(RoleStore(RoleFile(database.path)))
    server = PgServer(alone(database), settings, registry=registry)
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", server.port, flush=True)
    await stop.wait()
    await server.stop()
    await database.close()


if __name__ == "__main__":
    uvloop.run(main())
