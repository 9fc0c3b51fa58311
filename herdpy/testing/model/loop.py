"""The bottom of the simulation: an asyncio loop whose clock is a number.

Nothing here waits. When no callback is ready, the clock jumps to the next timer; when there is no timer
either, nothing can ever happen again and the run ends with `DeadlockError`. Connections go to a
`SimulatedNetwork` instead of to sockets, so code written for asyncio runs unchanged, and one seed gives
one run, always the same.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Turns of the loop with nothing to wait for: more is a loop that spins without ever waiting.
_SPIN_LIMIT = 200_000
_TURN_S = 1e-9


class SimulationError(Exception):
    """The simulated program can not go on, or has left something behind."""


class DeadlockError(SimulationError):
    """No callback is ready and no timer is set, yet the program has not ended."""


class TimeLimitError(SimulationError):
    """The program has not ended within its limit of virtual time, or spins at one instant."""


class UnhandledError(SimulationError):
    """An exception reached the loop: a callback raised, or a task failed and nobody looked."""


class _Clock:
    """Stands where the loop expects its selector: to select is to let time pass."""

    def __init__(self, limit_s: float) -> None:
        self.now_s = 0.0
        self.limit_s = limit_s
        self._spins = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise DeadlockError(f"nothing is ready and no timer is set at {self.now_s:.6f} s")
        if timeout > 0:
            self._spins = 0
            self.now_s += timeout
            if self.now_s > self.limit_s:
                raise TimeLimitError(f"not at its end after {self.limit_s} s of virtual time")
        else:
            # A turn takes a moment, as on a real machine: who sleeps "until then" must get there, although
            # a loop runs timers that are nearly due.
            self.now_s += _TURN_S
            self._spins += 1
            if self._spins > _SPIN_LIMIT:
                raise TimeLimitError(f"spins without waiting at {self.now_s:.6f} s")
        return []


class VirtualNetwork(Protocol):
    """What gives the loop its connections."""

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Any:
        """A connection from the host of the calling task: a transport and its protocol."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop with virtual time.

    `rng` is the seeded source of everything random in the simulation; `network` serves
    `create_connection`; `limit_s` bounds the virtual time of a run. Threads are refused: their
    time can not be virtual.
    """

    def __init__(self, seed: int, *, limit_s: float = 100_000.0) -> None:
        super().__init__()
        self.seed = seed
        self.rng = random.Random(seed)
        self.network: VirtualNetwork | None = None
        self.leaked: list[str] = []
        self.unhandled: list[str] = []
        self._clock = _Clock(limit_s)
        self._selector = self._clock  # where BaseEventLoop looks for it
        self._first_unhandled: BaseException | None = None
        self.set_exception_handler(self._note_unhandled)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now_s

    def run(self, program: Coroutine[Any, Any, T]) -> T:
        """Run `program` to its end, close the loop, and return or raise what it did.

        Tasks that the program left running are cancelled and their names kept in `leaked`. Raises
        UnhandledError when an exception reached the loop, DeadlockError and TimeLimitError.
        """
        main = self.create_task(program, name="main")
        try:
            result = self.run_until_complete(main)
        finally:
            self._end(main)
        if self.unhandled:
            raise UnhandledError("; ".join(self.unhandled)) from self._first_unhandled
        return result

    def _end(self, main: asyncio.Task[Any]) -> None:
        left = sorted(
            (task for task in asyncio.all_tasks(self) if not task.done()), key=lambda task: task.get_name()
        )
        self.leaked = [f"{task.get_name()}: {task.get_coro()}" for task in left if task is not main]
        try:
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.close()

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._first_unhandled = self._first_unhandled or error
        self.unhandled.append(f"{context.get('message')} {error!r}")

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """A connection through the simulated network; of the options only `ssl` is looked at, and refused."""
        if self.network is None:
            raise OSError("this loop has no network")
        if options.get("ssl") is not None:
            raise NotImplementedError("the simulated network has no TLS")
        return await self.network.connect(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Every name is its own address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Refused: a thread does not live in virtual time."""
        raise NotImplementedError("threads do not live in virtual time")

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no events but timers."""

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing has to be woken by call_soon_threadsafe."""
