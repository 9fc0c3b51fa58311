"""The databases that a suite is run on: empty ones, made for a run and gone with it.

A name is a place (``directory``, ``server``, or ``cluster``: three servers on three bookies), and after a
``+`` the dialect's driver where it is not the first: ``server+aio``, ``cluster+zk``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

PLACES = ("directory", "server", "cluster")


@contextlib.contextmanager
def database(name: str, scratch: Path) -> Iterator[str]:
    """SQLAlchemy's URL of a new database, whose files are under ``scratch``."""
    place, _, driver = name.partition("+")
    scheme = f"herdpy+{driver}" if driver else "herdpy"
    if place == "directory":
        yield f"{scheme}:///{scratch}/db"
    elif place == "server":
        from tests.support.server_process import RunningServer

        running = RunningServer(scratch / "data").ready()
        try:
            yield f"{scheme}://127.0.0.1:{running.port}/herdpy"
        finally:
            running.close()
    elif place == "cluster":
        from herdpy.dev import LocalCluster

        with LocalCluster(scratch / "cluster", servers=3, bookies=3) as cluster:
            cluster.await_leader()
            first, *others = [f"127.0.0.1:{one.sql_port}" for one in cluster.status().servers]
            if driver == "zk":
                yield f"{scheme}://{cluster.zookeeper}/herdpy?tablespace=herdpy"
            else:
                yield f"{scheme}://{first}/herdpy?hosts={','.join(others)}"
    else:
        raise SystemExit(f"a database is one of {', '.join(PLACES)}, with or without +driver, and not {name}")


def drivers_url(url: str) -> str:
    """The URL of the same database for ``herdpy.connect``."""
    return url.replace("herdpy+aio:", "herdpy:", 1)
