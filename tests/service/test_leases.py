"""Leases, in virtual time: kept until they are over, or for as long as they are used; then dropped once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from herdpy.testing.model.loop import VirtualLoop
from herdpy_server.service.leases import DEFAULT_S, LEAST_S, Leases, finished
from herdpy_sql.errors import SqlError

LONGEST_S = 1000.0


@dataclass(eq=False)
class Thing:
    """Something leased."""

    id: str
    expires_s: float
    users: int = 0


def in_virtual_time(program: Callable[[Leases[Thing], list[str]], Coroutine[Any, Any, None]]) -> None:
    """Run a program with leases and the ids of what they dropped."""

    async def main() -> None:
        dropped: list[str] = []
        leases: Leases[Thing] = Leases("thing", LONGEST_S, lambda one: dropped.append(one.id))
        await program(leases, dropped)
        leases.clear()

    VirtualLoop(1).run(main())


def test_a_lease_ends_at_its_time_and_not_before():
    async def program(leases: Leases[Thing], dropped: list[str]) -> None:
        leases.add(Thing("a", leases.until(10)))
        leases.add(Thing("b", leases.until(20)))
        await asyncio.sleep(9.9)
        assert (dropped, leases.get("a").id) == ([], "a")
        await asyncio.sleep(0.2)
        assert dropped == ["a"]
        with pytest.raises(SqlError, match="no such thing"):
            leases.get("a")
        leases.renew("b", 100)
        await asyncio.sleep(50)
        assert (dropped, len(leases)) == (["a"], 1)
        await asyncio.sleep(100)
        assert (dropped, len(leases)) == (["a", "b"], 0)

    in_virtual_time(program)


def test_what_is_used_is_kept_and_dropped_when_the_last_has_left():
    async def program(leases: Leases[Thing], dropped: list[str]) -> None:
        late, released = Thing("late", leases.until(1), users=2), Thing("released", leases.until(50), users=1)
        leases.add(late)
        leases.add(released)
        leases.release("released")
        await asyncio.sleep(5)
        assert dropped == []
        with pytest.raises(SqlError):
            leases.get("released")  # nobody new
        leases.left(late)
        assert dropped == []
        leases.left(late)
        assert dropped == ["late"]
        leases.left(released)
        assert dropped == ["late", "released"]
        await asyncio.sleep(100)
        assert dropped == ["late", "released"]

    in_virtual_time(program)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (0, DEFAULT_S),
        (-5, DEFAULT_S),
        (float("nan"), DEFAULT_S),
        (1e-9, LEAST_S),
        (5, 5),
        (1e300, LONGEST_S),
        (float("inf"), LONGEST_S),
    ],
)
def test_the_length_of_a_lease_is_bounded(asked, given):
    async def program(leases: Leases[Thing], dropped: list[str]) -> None:
        leases.add(Thing("a", leases.until(asked)))
        assert leases.remaining_s(leases.get("a")) == given

    in_virtual_time(program)


def test_a_call_that_is_cancelled_waits_for_its_thread():
    async def program(leases: Leases[Thing], dropped: list[str]) -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        given_up: list[bool] = []
        call = asyncio.ensure_future(finished(work, lambda: given_up.append(True)))
        await asyncio.sleep(1)
        call.cancel()
        await asyncio.sleep(1)
        assert (call.done(), given_up) == (False, [True])
        work.set_exception(ValueError("of the thread"))
        with pytest.raises(asyncio.CancelledError):
            await call

    in_virtual_time(program)
