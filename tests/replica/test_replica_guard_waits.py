"""A read that waits for a position has the follower look for it at once."""

from __future__ import annotations

import asyncio

from herdpy.log import LSN
from herdpy_server.replica.guard import ReplicaGuard, ReplicaState
from herdpy_server.tablespace.cluster import ReadLevel


def test_who_waits_for_a_position_hurries_the_follower_and_who_does_not_lets_it_rest() -> None:
    async def program() -> None:
        applied, hurried = LSN(1, 1), 0

        async def end() -> LSN:
            return LSN(1, 4)

        def hurry() -> None:
            nonlocal applied, hurried
            hurried += 1
            applied = LSN(1, 4)
            asyncio.get_running_loop().call_soon(guard.advanced)

        guard = ReplicaGuard("t", lambda: applied, end)
        guard.state, guard.hurry = ReplicaState.FOLLOWING, hurry
        await guard.admit(ReadLevel("any"))
        await guard.admit(ReadLevel("at_lsn", min_lsn=LSN(1, 1)))
        assert hurried == 0
        await guard.admit(ReadLevel("at_lsn", min_lsn=LSN(1, 3)))
        assert hurried == 1
        applied = LSN(1, 2)
        await guard.admit(ReadLevel("bounded", max_staleness_s=1.0))
        assert hurried == 2
        guard.close()

    asyncio.run(program())
