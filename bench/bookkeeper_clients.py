"""The two clients of the BookKeeper benchmark, each in a process of its own, and the bookies they share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from json_program import JsonProgram

from herdpy.testing import BookKeeperCluster, JavaProgram

Figures = dict[str, Any]

_HERE = Path(__file__).parent
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=4", "-Xmx768m", "-XX:MaxDirectMemorySize=768m")
_BOOKIES = {
    "journalPreAllocSizeMB": 4,
    "journalMaxSizeMB": 256,
    "logSizeLimit": 64 << 20,
    "skipListSizeLimit": 16 << 20,
    "pageLimit": 2048,
}
# As the Python client does by default; without it, Java's last entries are never seen by who tails.
_JAVA_CLIENT = ("explicitLacInterval=100",)
_ANSWER_TIMEOUT_S = 300.0


class PythonProgram(JsonProgram):
    """`bookkeeper_client.py` on one kind of event loop; a context manager, started on entry."""

    def __init__(self, uri: str, loop: str) -> None:
        super().__init__([sys.executable, str(_HERE / "bookkeeper_client.py"), uri, loop])

    def send(self, operation: str, **fields: object) -> None:
        """Send a request without waiting."""
        self.ask({"op": operation, **fields})

    def request(self, operation: str, **fields: object) -> Figures:
        """Send a request and wait for its answer."""
        self.send(operation, **fields)
        return self.answer()


@dataclass
class Bed:
    """Bookies, and the clients that take turns on them.

    Attributes:
        runs: every figure that was measured: what -> who -> one answer for each turn.
    """

    cluster: BookKeeperCluster
    python: PythonProgram
    asyncio: PythonProgram
    java: JavaProgram
    pairs: int
    ledger: Figures
    runs: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)

    def in_turn(
        self,
        what: str,
        operation: str,
        *,
        with_asyncio: bool = False,
        keep: bool = False,
        warm_up: int = 0,
        **fields: object,
    ) -> dict[str, list[Figures]]:
        """The same work by Python and Java in turn, as many times as there are to be pairs.

        ``keep``: the ledgers stay. ``warm_up``: so many turns before those that count.
        """
        found: dict[str, list[Figures]] = {"python": [], "java": []}
        if with_asyncio:
            found["asyncio"] = []
        for turn in range(self.pairs + warm_up):
            if turn == warm_up:
                found = {who: [] for who in found}
            self._take_turns(found, operation, **fields)
            if not keep:
                self._delete(found)
        self.runs[what] = found
        return found

    def warm_up(self, seconds: float) -> None:
        """Let Java compile what it will need, in the client and in the bookies; nothing is kept of it."""
        for in_flight in (1, 1000, 1000):
            found: dict[str, list[Figures]] = {"python": [], "java": []}
            self._take_turns(found, "write", entry_bytes=1024, in_flight=in_flight, seconds=seconds)
            self._delete(found)

    def _take_turns(self, found: dict[str, list[Figures]], operation: str, **fields: object) -> None:
        for who, answers in found.items():
            if who == "java":
                answer = self.java.request(operation, timeout_s=_ANSWER_TIMEOUT_S, **self.ledger, **fields)
            else:
                program = self.python if who == "python" else self.asyncio
                answer = program.request(operation, **self.ledger, **fields)
            answers.append(answer)

    def _delete(self, found: dict[str, list[Figures]]) -> None:
        ids = [answers[-1]["ledger_id"] for answers in found.values()]
        self.python.request("delete", ledger_ids=ids)


@contextmanager
def opened_bed(pairs: int, *, journal_flush_when_queue_empty: bool) -> Iterator[Bed]:
    """Three bookies and the clients; the work is 3-3-2 with CRC32C."""
    with (
        BookKeeperCluster(
            3,
            journal_flush_when_queue_empty=journal_flush_when_queue_empty,
            configuration=_BOOKIES,
            java_options=_JAVA_OPTIONS,
        ) as cluster,
        PythonProgram(cluster.uri, "uvloop") as python,
        PythonProgram(cluster.uri, "asyncio") as plain,
        JavaProgram(
            _HERE / "java" / "BookKeeperBench.java",
            cluster.metadata_service_uri,
            *_JAVA_CLIENT,
            java_options=_JAVA_OPTIONS,
        ) as java,
    ):
        ledger = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2, "digest": "CRC32C"}
        yield Bed(cluster, python, plain, java, pairs, ledger)
