"""What a read waits for is looked for at once: a position, or a proof that this replica leads."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.log import LSN
from herdpy.log.errors import LogClosedError
from herdpy.log.wait import Wait
from herdpy_server.cluster.lease import Lease
from herdpy_server.replica import guard as guards
from herdpy_server.replica.guard import ReplicaGuard, ReplicaState
from herdpy_server.tablespace.cluster import ReadLevel
from herdpy_sql.errors import SqlError
from tests.bookkeeper.reader_fakes import run


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


def test_a_leader_whose_lease_rests_answers_with_the_next_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_LOOK_AGAIN_S", 1.0)

    async def program() -> None:
        loop = asyncio.get_running_loop()

        async def end() -> LSN:
            raise AssertionError("a leader asks nobody")

        guard = ReplicaGuard("t", lambda: LSN(1, 1), end, loop.time)
        guard.basis = lease = Lease(0.4, 1, loop.time)
        guard.state = ReplicaState.LEADING
        lease.open()
        lease.lapsed = lambda: loop.call_later(0.002, lease.prove, loop.time(), 1)
        await asyncio.sleep(10)
        began_s = loop.time()
        assert guard.is_open(ReadLevel())
        assert not guard.holds(ReadLevel(), lease)
        await guard.confirm(ReadLevel(), lease)
        assert guard.holds(ReadLevel(), lease)
        assert loop.time() - began_s < 0.01
        guard.close()

    run(program)


def test_a_leader_without_a_lease_is_confirmed_by_the_log() -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()

        async def end() -> LSN:
            raise AssertionError("a leader asks nobody")

        guard = ReplicaGuard("t", lambda: LSN(1, 1), end, loop.time)
        guard.basis = lease = Lease(0.4, 1, loop.time)
        guard.state = ReplicaState.LEADING
        guard.zookeeper_is_silent = lambda: True
        questions: list[Wait[None]] = []

        def ask() -> Wait[None]:
            questions.append(Wait())
            return questions[-1]

        guard.ask_log = ask
        read = asyncio.create_task(guard.confirm(ReadLevel(), lease))
        while not questions:
            await asyncio.sleep(0.001)
        assert not read.done()
        questions[0].resolve(None)
        await read
        assert (len(questions), guard.log_confirmed) == (1, 1)
        # A log that ended proves nothing, and the term is over.
        late = asyncio.create_task(guard.confirm(ReadLevel(), lease))
        while len(questions) < 2:
            await asyncio.sleep(0.001)
        guard.basis = None
        questions[1].fail(LogClosedError("lost"))
        with pytest.raises(SqlError):
            await late
        guard.close()

    run(program)
