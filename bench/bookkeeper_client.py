"""The measured Python client: a process that takes its orders as lines of JSON, as BookKeeperBench.java is.

``python bench/bookkeeper_client.py zk://host:port/ledgers uvloop`` (or ``asyncio``) reads one request a line
from standard input and answers each with one line of figures. Times are those of this process alone, so
that the one who asks costs nothing.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from herdpy.bookkeeper import (
    BackPressureError,
    BookKeeper,
    BookKeeperError,
    ClientSettings,
    DigestType,
    LedgerWriter,
)

Figures = dict[str, Any]
_RSS_EVERY_S = 0.1
_SLOW_BOOKIE_TIMEOUT_S = 60.0


class Bench:
    """What can be measured, one method a request."""

    def __init__(self, client: BookKeeper, uri: str) -> None:
        self._client = client
        self._uri = uri

    async def run(self, request: Figures) -> Figures:
        """Do what a request says."""
        operations: dict[str, Callable[[Figures], Coroutine[Any, Any, Figures]]] = {
            "write": self.write,
            "read": self.read,
            "tail": self.tail,
            "memory": self.memory,
            "delete": self.delete,
        }
        return await operations[request["op"]](request)

    async def write(self, request: Figures) -> Figures:
        """Keep `in_flight` appends of `entry_bytes` going for `seconds`: rate, latencies, processor time."""
        in_flight = request["in_flight"]
        data = b"x" * request["entry_bytes"]
        latencies = array.array("d")
        now = time.perf_counter
        sent_s: deque[float] = deque()
        sent: deque[asyncio.Future[int]] = deque()
        writer = await self._create(self._client, request)
        append, count = writer.append_nowait, 0
        cpu, began = time.process_time(), now()
        until, at = began + request["seconds"], began
        while sent or at < until:
            if at < until:
                for _ in range(in_flight - len(sent)):
                    since = now()
                    try:
                        sent.append(append(data))
                    except BackPressureError:  # one bookie is far behind the others
                        await writer.room()
                        break
                    sent_s.append(since)
                    count += 1
            if sent:
                await sent[0]
            at = now()
            # They are done in order, so all that are done stand in front.
            while sent and sent[0].done():
                sent.popleft().result()
                latencies.append(at - sent_s.popleft())
        figures = _figures(count, len(data), now() - began, time.process_time() - cpu, latencies)
        await writer.close()
        return figures | {"ledger_id": writer.ledger_id, "last_entry_id": writer.last_add_confirmed}

    async def read(self, request: Figures) -> Figures:
        """Read entries 0 to `last_entry_id` in order."""
        reader = await self._client.open_ledger(request["ledger_id"])
        cpu, began = time.process_time(), time.perf_counter()
        count = size_bytes = 0
        async for entry in reader.read(0, request["last_entry_id"]):
            size_bytes += len(entry.data)
            count += 1
        took_s, used_s = time.perf_counter() - began, time.process_time() - cpu
        await reader.close()
        if count != request["last_entry_id"] + 1:
            raise AssertionError(f"{count} entries up to {request['last_entry_id']}")
        return _figures(count, size_bytes // count, took_s, used_s)

    async def tail(self, request: Figures) -> Figures:
        """Append `entries` entries, `interval_us` apart and at most `in_flight` unconfirmed, and follow."""
        count = request["entries"]
        writer = await self._create(self._client, request)
        reader = await self._client.open_ledger(writer.ledger_id)
        sent_s = array.array("d", bytes(8 * count))
        latencies = array.array("d")
        now = time.perf_counter
        cpu, began = time.process_time(), now()
        writing = asyncio.create_task(_paced(writer, request, sent_s))
        seen = 0
        async for entry in reader.tail(0):
            if entry.entry_id != seen:
                raise AssertionError(f"entry {entry.entry_id} follows entry {seen - 1}")
            latencies.append(now() - sent_s[seen])
            seen += 1
            if seen == count:
                break
        figures = _figures(count, request["entry_bytes"], now() - began, time.process_time() - cpu, latencies)
        await writing
        await reader.close()
        await writer.close()
        return figures | {"ledger_id": writer.ledger_id}

    async def memory(self, request: Figures) -> Figures:
        """Append as fast as there is room, for `seconds`, while somebody slows the bookies down."""
        settings = ClientSettings(request_timeout_s=_SLOW_BOOKIE_TIMEOUT_S)
        data = b"x" * request["entry_bytes"]
        resident_mib: list[float] = []
        async with BookKeeper(self._uri, settings=settings) as client:
            writer = await self._create(client, request)
            resident_mib.append(_resident_mib())
            until = time.perf_counter() + request["seconds"]
            sampled = 0.0
            last = None
            while (at := time.perf_counter()) < until:
                if at - sampled >= _RSS_EVERY_S:
                    resident_mib.append(_resident_mib())
                    sampled = at
                try:
                    async with asyncio.timeout(_RSS_EVERY_S):
                        await writer.room()
                except TimeoutError:
                    continue
                last = writer.append_nowait(data)
                last.add_done_callback(_look_at)
            if last is not None:
                await last
            await writer.close()
            bound = settings.max_in_flight_bytes + settings.max_bookie_pending_bytes
        return {
            "ledger_id": writer.ledger_id,
            "entries": writer.last_add_confirmed + 1,
            "resident_mib": [round(one, 1) for one in resident_mib],
            "bound_mib": bound / 2**20,
        }

    async def delete(self, request: Figures) -> Figures:
        """Delete ledgers: bookies give their space back."""
        for ledger_id in request["ledger_ids"]:
            await self._client.delete_ledger(ledger_id)
        return {}

    @staticmethod
    async def _create(client: BookKeeper, request: Figures) -> LedgerWriter:
        return await client.create_ledger(
            request["ensemble_size"],
            request["write_quorum"],
            request["ack_quorum"],
            DigestType[request["digest"]],
        )


async def _paced(writer: LedgerWriter, request: Figures, sent_s: array.array[float]) -> None:
    data = b"x" * request["entry_bytes"]
    interval_s = request["interval_us"] / 1e6
    in_flight: deque[asyncio.Future[int]] = deque()
    due = time.perf_counter()
    for entry_id in range(len(sent_s)):
        wait_s = due - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        due += interval_s
        while len(in_flight) >= request["in_flight"] or (in_flight and in_flight[0].done()):
            await in_flight.popleft()
        await writer.room()
        sent_s[entry_id] = time.perf_counter()
        in_flight.append(writer.append_nowait(data))
    for future in in_flight:
        await future


def _look_at(appended: asyncio.Future[int]) -> None:
    """Have asyncio not complain of each append that failed: the last one tells."""
    appended.exception()


def _figures(
    entries: int, entry_bytes: int, took_s: float, cpu_s: float, latencies: array.array[float] | None = None
) -> Figures:
    figures: Figures = {
        "entries": entries,
        "seconds": took_s,
        "entries_per_s": entries / took_s,
        "megabytes_per_s": entries * entry_bytes / took_s / 1e6,
        "cpu_us_per_entry": cpu_s / entries * 1e6,
    }
    if latencies:
        ordered = sorted(latencies)
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
            figures[name] = ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3
    return figures


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def serve(uri: str) -> None:
    """Answer requests until standard input ends."""
    loop = asyncio.get_running_loop()
    async with BookKeeper(uri) as client:
        bench = Bench(client, uri)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            try:
                answer = await bench.run(json.loads(line))
            except (BookKeeperError, AssertionError) as error:
                answer = {"error": type(error).__name__, "message": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[2] == "uvloop":
        import uvloop

        uvloop.run(serve(sys.argv[1]))
    else:
        asyncio.run(serve(sys.argv[1]))
