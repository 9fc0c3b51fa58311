"""When a bookie counts as started: not before it answers requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from herdpy.bookkeeper.wire.messages import start_tls
from herdpy.testing import StartError
from herdpy.testing import bookie as kit
from herdpy.testing.bookie import BookieServer

TIMEOUT_S = 60.0


class Registered:
    """ZooKeeper, where the bookie has registered."""

    def is_registered(self, bookie_id: str) -> bool:
        return True


class Scripted(BookieServer):
    """A bookie whose port is listened on here."""

    def _await_listening(self) -> None:
        """It listens since before it was started."""

    @property
    def is_running(self) -> bool:
        return True

    def kill(self) -> None:
        """There is no process."""


@contextmanager
def listening(bookie: BookieServer, refused: int) -> Iterator[list[bytes]]:
    """Answer on the bookie's port, but for the first connections, which are closed when they have asked."""
    asked: list[bytes] = []
    with socket.create_server((bookie.address, bookie.port)) as listener:

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if not (request := connection.recv(1024)):
                        return  # the test is over
                    asked.append(request)
                    if len(asked) > refused:
                        connection.sendall(b"\0\0\0\1x")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            socket.create_connection((bookie.address, bookie.port), TIMEOUT_S).close()
            thread.join()


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    bookie = Scripted(tmp_path, "127.0.0.1:1")
    yield bookie
    bookie.close()


def test_a_bookie_is_ready_once_it_answers(scripted: Scripted) -> None:
    with listening(scripted, refused=3) as asked:
        scripted.await_ready(Registered())  # type: ignore[arg-type]
    assert asked == [start_tls(1)] * 4


def test_a_bookie_that_never_answers_did_not_start(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "START_TIMEOUT_S", 0.1)
    with (
        listening(scripted, refused=10**6) as asked,
        pytest.raises(StartError, match="bookie registered, and answers no request"),
    ):
        scripted.await_ready(Registered())  # type: ignore[arg-type]
    assert asked
