"""Calls of the service Loads, brought to whichever server leads the tablespace. Above gRPC, below ``loads``.

Every call here may be repeated: a load has a name, and is done once. So a call that broke off goes to the
next server, or to the one that a follower names, until patience is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import grpc

from herdpy.backoff import Backoff
from herdpy.rpc import loads_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy.rpc.errors import RemoteError

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_NOT_LEADER = "25006"

Call = Callable[[Any, GrpcAddress], Awaitable[T]]
"""What is done with a stub of the service, and with the place it leads to."""


class UnreachedError(Exception):
    """Patience is over.

    Attributes:
        may_be_done: a call broke off after it had been sent, so its server may have done it.
    """

    def __init__(self, reason: str, *, may_be_done: bool) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done


class RefusedError(Exception):
    """A server that leads said no.

    Attributes:
        error: what it said.
        where: the row that it speaks of, in words; empty when it is about none.
    """

    def __init__(self, error: RemoteError, where: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.where = where


class LeaderCalls:
    """Knows some servers of a tablespace, and finds the one that leads.

    Attributes:
        place: the server that answered last.
    """

    def __init__(
        self, places: Sequence[GrpcAddress], patience_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args:
        places: servers to begin with, at least one.
        patience_s: how long a call is tried without any progress.
        """
        assert places
        self.place = places[0]
        self._places = list(places)
        self._patience_s = patience_s
        self._clock = clock
        self._until_s = clock()
        self._next = 1

    def progressed(self) -> None:
        """A server works on the call that is under way: patience begins anew."""
        self._until_s = max(self._until_s, self._clock() + self._patience_s)

    async def call(self, do: Call[T], patience_s: float | None = None) -> T:
        """What ``do`` gives, by the server that leads.

        Raises:
            RefusedError: that server says no, and would again.
            UnreachedError: none that leads was found in time.
        """
        self._until_s = self._clock() + (self._patience_s if patience_s is None else patience_s)
        backoff, may_be_done, moved = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), False, False
        while True:
            place = self.place
            try:
                async with place.channel() as channel:
                    return await do(loads_pb2_grpc.LoadsStub(channel), place)
            except grpc.aio.AioRpcError as broken:
                error = RemoteError.of(broken)
                trailers: dict[str, Any] = dict(broken.trailing_metadata() or ())
                if error.sqlstate == _NOT_LEADER:
                    # Two that name each other are asked with pauses.
                    moved = self._follow(trailers.get("leader-grpc")) and not moved
                elif error.is_transient or error.code is grpc.StatusCode.ABORTED:
                    may_be_done = may_be_done or error.code is not grpc.StatusCode.ABORTED
                    moved = False
                    self._advance()
                else:
                    raise RefusedError(error, _where(trailers)) from broken
                reason = f"{place.target}: {error.message}"
                if self._clock() >= self._until_s:
                    raise UnreachedError(reason, may_be_done=may_be_done) from broken
            if not moved:
                await asyncio.sleep(backoff.pause_s())

    def _follow(self, leader: Any) -> bool:
        """Go to the leader that a follower names; whether that is another place than the present one."""
        host, _, port = str(leader or "").rpartition(":")
        if not host or not port.isdigit():
            self._advance()
            return False
        named = replace(self.place, host=host.strip("[]"), port=int(port))
        moved = named.target != self.place.target
        self.place = named
        return moved

    def _advance(self) -> None:
        self.place = self._places[self._next % len(self._places)]
        self._next += 1


def _where(trailers: dict[str, Any]) -> str:
    told = trailers.get("where-bin")
    return "" if told is None else bytes(told).decode(errors="replace")
