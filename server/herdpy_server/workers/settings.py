"""How many workers there may be, and what each may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Attributes have the meaning of the settings in section [workers] of a server's configuration.

    Attributes:
        maximum: workers at a time.
        memory_bytes: memory of one worker beyond what it starts with, columns that it keeps included.
        threads: threads that one query computes with.
        query_timeout_s: how long one query may compute; 0: for ever.
        long_query_s: a query that computes for longer leaves its place to another; 0: never.
        queue: statements that may wait for a worker; one more gets 53000.
        queue_timeout_s: how long one waits at most; 0: for ever.
        idle_timeout_s: a worker that nobody asked for so long ends.
        niceness: how much workers stand back behind the server (nice, 0 to 19).
    """

    maximum: int = 2
    memory_bytes: int = 4 << 30
    threads: int = 2
    query_timeout_s: float = 0.0
    long_query_s: float = 5.0
    queue: int = 200
    queue_timeout_s: float = 60.0
    idle_timeout_s: float = 300.0
    niceness: int = 10
