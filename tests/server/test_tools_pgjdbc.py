"""pgjdbc, by a Java program that does what such programs do: it finds what it finds on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.server.pgjdbc import run
from tests.support.server_process import RunningServer


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.closing(sink):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()


class Door:
    """A free TCP port that leads to a Unix socket: Java knows no others, and the PostgreSQL has no port."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._path)
        await asyncio.gather(_pipe(reader, inner_writer), _pipe(inner_reader, writer))

    def close(self) -> None:
        """Leave nothing: no port, no connection, no thread."""

        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture(scope="module")
def peer_port(postgres: str) -> Iterator[int]:
    """A port of PostgreSQL."""
    host = dict(part.split("=") for part in postgres.split())["host"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE tools_pgjdbc TEMPLATE template0")
        door = Door(f"{host}/.s.PGSQL.5432")
        yield door.port
        door.close()
        connection.execute("DROP DATABASE tools_pgjdbc WITH (FORCE)")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled program is."""
    return tmp_path_factory.mktemp("classes")


@pytest.mark.parametrize(
    "properties",
    [(), ("prepareThreshold=1", "reWriteBatchedInserts=true"), ("prepareThreshold=0", "autosave=always")],
    ids=["as it comes", "prepared at once", "never prepared"],
)
def test_a_java_program_finds_what_it_finds_on_postgres(
    shared_server: RunningServer, peer_port: int, classes: Path, properties: tuple[str, ...]
) -> None:
    expected = run(peer_port, "tools_pgjdbc", classes, *properties)
    assert expected[-1] == "end"
    assert "batch = 500" in expected
    assert run(shared_server.port, "test", classes, *properties) == expected
