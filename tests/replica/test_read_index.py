"""Read indexes: a follower's questions, a leader's answers, and what a follower's reads rest on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from herdpy.log import LSN, START, LogClosedError, LogError
from herdpy.rpc.address import RemoteError
from herdpy.rpc.read_index import (
    ReadIndex,
    encode_question,
    is_read_index,
    question_number,
)
from herdpy_server.cluster.lease import Lease
from herdpy_server.replica.guard import ReplicaGuard, ReplicaState
from herdpy_server.replica.read_index import LeaderAnswers, LeaderQuestions
from herdpy_server.tablespace.cluster import Basis, ReadLevel
from herdpy_sql.errors import SqlError
from tests.bookkeeper.reader_fakes import run

LOG_ID = "1" * 32
BOUNDED = ReadLevel("bounded", max_staleness_s=0.6)


def now() -> float:
    return asyncio.get_running_loop().time()


# Messages.


def test_an_answer_is_what_was_sent_or_refused() -> None:
    index = ReadIndex(1 << 40, 7, LSN(1 << 33, 5), LSN(-1, -1))
    sent = index.encode(LOG_ID)
    assert ReadIndex.decode(sent, LOG_ID) == index
    assert is_read_index(sent)
    damaged = [sent[:-1], sent + b"\0", b"\xff"]
    damaged += [sent[:at] + bytes([sent[at] ^ 1]) + sent[at + 1 :] for at in range(len(sent))]
    for data, log_id in [*((one, LOG_ID) for one in damaged), (sent, "2" * 32)]:
        with pytest.raises(RemoteError, match="damaged, or of another log"):
            ReadIndex.decode(data, log_id)


def test_a_question_is_a_number() -> None:
    assert question_number(encode_question(1 << 40)) == 1 << 40
    assert question_number(b"") is question_number(bytes(9)) is None


# A leader answers.


class Log:
    """A log that is led."""

    def __init__(self) -> None:
        self.lac, self.end = LSN(1, 1), LSN(1, 2)
        self.failure: LogError | None = None


class Proof:
    """A node that leads as long as ``basis`` is there; what waits for a proof gets ``proved``."""

    def __init__(self, basis: Basis | None) -> None:
        self.basis = basis
        self.proved = asyncio.Event()
        self.confirming = 0

    async def confirm(self, level: ReadLevel, basis: Basis | None, /) -> None:
        assert level == ReadLevel()
        self.confirming += 1
        await self.proved.wait()
        if basis is not self.basis:
            raise SqlError("40001", "the leader changed")


def lease(*, is_valid: bool) -> Lease:
    found = Lease(10.0, 1, now)
    found.open()
    if is_valid:
        found.prove(now(), 1)
    return found


def test_a_leader_answers_at_once_while_its_lease_is_valid_and_the_lease_is_kept() -> None:
    async def program() -> None:
        answered: list[ReadIndex] = []
        basis = lease(is_valid=True)
        answers = LeaderAnswers(Log(), 7, Proof(basis))
        await asyncio.sleep(2.0)
        answers.answer(3, answered.append)
        assert answered == [(3, 7, LSN(1, 1), LSN(1, 2))]
        assert basis.asked_s == now()

    run(program)


def test_questions_that_wait_for_a_proof_share_it_and_later_ones_have_another() -> None:
    async def program() -> None:
        log, proof, answered = Log(), Proof(lease(is_valid=False)), []
        answers = LeaderAnswers(log, 7, proof)

        def record(index: ReadIndex) -> None:
            answered.append(index)

        answers.answer(1, record)
        answers.answer(2, record)
        await asyncio.sleep(0.1)
        log.lac = log.end = LSN(1, 9)
        answers.answer(3, record)  # it was acknowledged before this one came
        await asyncio.sleep(0.1)
        assert (proof.confirming, answered) == (1, [])
        proof.proved.set()
        await asyncio.sleep(0.1)
        assert proof.confirming == 2
        assert [(one.number, one.confirmed) for one in answered] == [
            (1, LSN(1, 1)),
            (2, LSN(1, 1)),
            (3, LSN(1, 9)),
        ]

    run(program)


@pytest.mark.parametrize("ends", ["the log is lost", "the term is over", "it leads again", "it is closed"])
def test_a_term_that_is_over_answers_nothing(ends: str) -> None:
    async def program() -> None:
        log, proof, answered = Log(), Proof(lease(is_valid=False)), []
        answers = LeaderAnswers(log, 7, proof)
        answers.answer(1, answered.append)
        await asyncio.sleep(0.1)
        if ends == "the log is lost":
            log.failure = LogClosedError("lost")
        elif ends == "it is closed":
            answers.close()
        else:
            proof.basis = lease(is_valid=True) if ends == "it leads again" else None
        proof.proved.set()
        answers.answer(2, answered.append)
        await asyncio.sleep(0.1)
        assert answered == ([] if ends != "it is closed" else answered)
        assert all(one.number != 1 for one in answered)

    run(program)


# A follower asks.


class Leader:
    """The other end of a connection: the numbers that were sent to it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def send(self, number: int) -> None:
        self.numbers.append(number)


def index(number: int, confirmed: int = 1, end: int | None = None, epoch: int = 7) -> ReadIndex:
    return ReadIndex(number, epoch, LSN(1, confirmed), LSN(1, confirmed if end is None else end))


def asking(script: Callable[[LeaderQuestions, Leader, list[Any]], Any]) -> None:
    """Run a script with questions and a leader to which they are not connected yet."""

    async def program() -> None:
        learned: list[Any] = []
        questions = LeaderQuestions(now, learned.append)
        questions.is_possible = True
        await script(questions, Leader(), learned)

    run(program)


def test_all_that_wait_share_a_question_and_what_comes_later_has_the_next() -> None:
    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        questions.connected(leader.send)
        first = [asyncio.ensure_future(questions.next(5.0)) for _ in range(3)]
        await asyncio.sleep(0.1)
        later = asyncio.ensure_future(questions.next(5.0))
        await asyncio.sleep(0.1)
        assert leader.numbers == [1]
        questions.answered(index(1))
        assert [one.asked_s for one in learned] == pytest.approx([now() - 0.2])
        assert [await one for one in first] == learned * 3
        assert leader.numbers == [1, 2]
        assert not later.done()
        questions.answered(index(2, 5))
        found = await later
        assert found is not None
        assert found.read_index == index(2, 5)

    asking(script)


@pytest.mark.parametrize("number", [0, 1, 3, 99])
def test_only_the_answer_to_the_question_under_way_counts(number: int) -> None:
    """Late, doubled, damaged, and to a question that is not sent yet."""

    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        questions.connected(leader.send)
        first = asyncio.ensure_future(questions.next(5.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        questions.answered(index(1))
        await first
        waiting = asyncio.ensure_future(questions.next(5.0))
        await asyncio.sleep(0.1)
        assert leader.numbers == [1, 2]
        questions.answered(index(number))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert len(learned) == 1
        questions.answered(index(2))
        questions.answered(index(2))
        await waiting
        assert len(learned) == 2

    asking(script)


def test_what_an_earlier_leader_has_not_answered_is_asked_of_the_next_under_another_number() -> None:
    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        waiting = asyncio.ensure_future(questions.next(50.0))
        await asyncio.sleep(0.1)
        questions.connected(leader.send)
        await asyncio.sleep(0.1)
        assert leader.numbers == [1]
        questions.disconnected()
        questions.answered(index(1))
        await asyncio.sleep(1.0)
        other = Leader()
        questions.connected(other.send)
        questions.answered(index(1))
        await asyncio.sleep(0.1)
        assert (other.numbers, waiting.done(), learned) == ([2], False, [])
        questions.answered(index(2))
        assert await waiting == learned[0]
        assert learned[0].asked_s == pytest.approx(now() - 0.1)

    asking(script)


def test_a_question_that_is_not_answered_does_not_hold_up_the_next() -> None:
    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        questions.connected(leader.send)
        assert await questions.next(0.7) is None
        waiting = asyncio.ensure_future(questions.next(5.0))
        await asyncio.sleep(0.1)
        assert leader.numbers == [1, 2]
        questions.answered(index(2))
        assert await waiting is not None

    asking(script)


def test_a_leader_of_an_older_version_is_waited_for_no_longer() -> None:
    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        waiting = asyncio.ensure_future(questions.next(5.0))
        await asyncio.sleep(0.1)
        assert questions.may_come
        questions.connected(None)
        assert await waiting is None
        assert not questions.may_come
        questions.disconnected()
        assert questions.may_come

    asking(script)


def test_questions_are_called_for_while_reads_wait_for_a_leader() -> None:
    async def script(questions: LeaderQuestions, leader: Leader, learned: list[Any]) -> None:
        wanted = asyncio.ensure_future(questions.called_for())
        await asyncio.sleep(0.1)
        assert not wanted.done()
        reading = asyncio.ensure_future(questions.next(5.0))
        await asyncio.wait_for(wanted, 1.0)
        await asyncio.wait_for(questions.called_for(), 1.0)  # it still waits
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(questions.called_for(), 1.0)
        questions.connected(leader.send)
        await asyncio.sleep(0.1)
        assert leader.numbers == []

    asking(script)


# What a follower's reads rest on.


class Follower:
    """A follower whose leader answers what a test has it answer."""

    def __init__(self) -> None:
        self.applied = LSN(1, 1)
        self.epoch = 7
        self.log_ends = 0
        self.guard = ReplicaGuard("t", lambda: self.applied, self._log_end, now)
        self.guard.applied_epoch = lambda: self.epoch
        self.guard.state = ReplicaState.FOLLOWING
        self.questions = self.guard.questions
        self.questions.is_possible = True
        self.leader = Leader()
        self.questions.connected(self.leader.send)

    async def _log_end(self) -> LSN:
        self.log_ends += 1
        return self.applied

    def answer(self, confirmed: int, end: int | None = None, epoch: int = 7) -> None:
        self.questions.answered(index(self.leader.numbers[-1], confirmed, end, epoch))

    def apply(self, entry: int, epoch: int = 7) -> None:
        self.applied, self.epoch = LSN(1, entry), epoch
        self.guard.advanced()

    async def reading(self, wanted: ReadLevel = ReadLevel()) -> asyncio.Task[Basis | None]:  # noqa: B008
        """A read that has sent its question."""
        task = asyncio.ensure_future(self.guard.admit(wanted))
        await asyncio.sleep(0.01)
        return task


def following(script: Callable[[Follower], Any]) -> None:
    async def program() -> None:
        follower = Follower()
        await script(follower)
        follower.guard.close()

    run(program)


def test_a_linearizable_read_waits_for_all_that_anybody_may_have_read() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading()
        one.answer(1, end=3)
        one.apply(2)
        await asyncio.sleep(0.1)
        assert not reading.done()
        one.apply(3)
        basis = await reading
        assert one.guard.holds(ReadLevel(), basis)
        assert not one.guard.is_open(ReadLevel())  # the next one asks for itself
        assert one.log_ends == 0

    following(script)


def test_a_read_does_not_outlive_the_state_that_it_was_admitted_to() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading()
        one.answer(1)
        basis = await reading
        one.guard.replaced()
        assert not one.guard.holds(ReadLevel(), basis)
        with pytest.raises(SqlError) as refused:
            await one.guard.confirm(ReadLevel(), basis)
        assert refused.value.sqlstate == "HP003"

    following(script)


def test_a_state_that_is_replaced_while_a_read_waits_for_it_is_asked_about_anew() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading()
        one.answer(3)
        await asyncio.sleep(0.01)
        one.guard.replaced()
        one.apply(3)
        await asyncio.sleep(0.01)
        assert not reading.done()
        assert one.leader.numbers == [1, 2]
        one.answer(3)
        assert one.guard.holds(ReadLevel(), await reading)

    following(script)


def test_freshness_is_of_the_state_that_had_it() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading(BOUNDED)
        one.answer(2)
        one.guard.replaced()
        one.apply(1)
        await asyncio.sleep(0.01)
        assert not one.guard.is_open(BOUNDED)
        one.apply(2)
        await asyncio.sleep(0.01)
        one.answer(2)
        await reading

    following(script)


def test_what_a_later_term_has_written_is_shown_once_its_leader_has_answered() -> None:
    """Until then the old leader may answer others without it."""

    async def script(one: Follower) -> None:
        reading = await one.reading()
        one.answer(1)
        basis = await reading
        one.apply(5, epoch=8)
        assert not one.guard.holds(ReadLevel(), basis)
        confirming = asyncio.ensure_future(one.guard.confirm(ReadLevel(), basis))
        await asyncio.sleep(0.01)
        one.answer(1)  # the old leader still can
        await asyncio.sleep(0.01)
        assert not confirming.done()
        one.answer(5, epoch=8)
        await confirming
        assert one.guard.holds(ReadLevel(), basis)

    following(script)


def test_a_follower_that_comes_to_lead_answers_by_its_lease() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading()
        one.answer(1)
        basis = await reading
        one.guard.state = ReplicaState.TAKING_OVER
        confirming = asyncio.ensure_future(one.guard.confirm(ReadLevel(), basis))
        await asyncio.sleep(0.1)
        one.guard.basis = own = lease(is_valid=False)
        one.guard.state = ReplicaState.LEADING
        one.guard.changed()
        await asyncio.sleep(0.1)
        assert not confirming.done()
        own.prove(now(), 1)
        await confirming

    following(script)


@pytest.mark.parametrize("is_possible", [False, True])
def test_without_an_answer_it_names_the_leader(*, is_possible: bool) -> None:
    async def script(one: Follower) -> None:
        one.questions.is_possible = is_possible
        began_s = now()
        with pytest.raises(SqlError) as refused:
            await one.guard.admit(ReadLevel())
        assert refused.value.sqlstate == "HP003"
        assert now() - began_s == pytest.approx(5.0 if is_possible else 0.0, abs=0.1)

    following(script)


def test_a_bounded_read_is_answered_in_place_and_the_leader_is_asked_ahead_of_time() -> None:
    async def script(one: Follower) -> None:
        reading = await one.reading(BOUNDED)
        asked_s = now() - 0.01
        await asyncio.sleep(0.1)
        one.answer(1)
        await reading
        while now() < asked_s + 0.199:
            await asyncio.sleep(0.01)
            assert one.guard.is_open(BOUNDED)
        assert one.leader.numbers == [1]
        await asyncio.sleep(0.02)
        assert one.guard.is_open(BOUNDED)
        await asyncio.sleep(0.01)
        assert one.leader.numbers == [1, 2]
        while now() < asked_s + 0.58:
            await asyncio.sleep(0.01)
            assert one.guard.is_open(BOUNDED)
        assert one.leader.numbers == [1, 2]
        await asyncio.sleep(0.04)
        assert not one.guard.is_open(BOUNDED)  # it counts from the question
        one.answer(2)  # not applied
        assert not one.guard.is_open(BOUNDED)
        one.apply(2)
        assert one.guard.is_open(BOUNDED)
        await asyncio.sleep(100)
        assert len(one.leader.numbers) <= 3
        assert one.log_ends == 0

    following(script)


def test_a_bounded_read_asks_the_bookies_where_the_leader_does_not_answer() -> None:
    async def script(one: Follower) -> None:
        began_s = now()
        await one.guard.admit(BOUNDED)
        assert one.log_ends == 1
        assert now() - began_s == pytest.approx(0.5, abs=0.05)
        one.questions.disconnected()
        await asyncio.sleep(10)
        began_s = now()
        await one.guard.admit(BOUNDED)
        assert one.log_ends == 2
        assert now() - began_s < 0.05

    following(script)


def test_a_read_of_everything_up_to_now_takes_no_earlier_answer() -> None:
    async def script(one: Follower) -> None:
        exact = ReadLevel("bounded", max_staleness_s=0.0)
        first = await one.reading(exact)
        second = await one.reading(exact)
        one.answer(1)
        await asyncio.sleep(0.01)
        assert (first.done(), second.done()) == (True, False)
        one.answer(2)
        await asyncio.sleep(0.01)
        assert not second.done()
        one.apply(2)
        await second
        assert one.applied > START

    following(script)


# The short way: reads of one turn that wait outside of a coroutine.


def test_reads_of_one_turn_share_a_question_and_each_begins_once() -> None:
    async def script(one: Follower) -> None:
        admissions = [one.guard.ask_leader() for _ in range(3)]
        first = admissions[0]
        assert first is not None
        assert admissions == [first] * 3
        await asyncio.sleep(0.01)
        later = one.guard.ask_leader()
        assert later is not None
        assert later is not first
        one.answer(1, end=2)
        assert not first.wait.done()
        one.apply(2)
        assert first.wait.done()
        assert one.guard.holds(ReadLevel(), first.basis())
        await asyncio.sleep(0.01)
        assert one.leader.numbers == [1, 2]
        assert not later.wait.done()
        one.answer(2)
        assert later.wait.done()

    following(script)


@pytest.mark.parametrize("what", ["silence", "no connection", "not applied", "an older state"])
def test_a_read_that_may_not_begin_soon_goes_the_way_of_others(what: str) -> None:
    async def script(one: Follower) -> None:
        admission = one.guard.ask_leader()
        assert admission is not None
        await asyncio.sleep(0.01)
        if what == "no connection":
            one.questions.disconnected()
            assert one.guard.ask_leader() is None
        elif what != "silence":
            one.answer(2)
        if what == "an older state":
            one.apply(2)
            one.guard.replaced()
            one.applied = LSN(1, 1)
        await asyncio.sleep(0.6)
        assert admission.wait.done()
        assert admission.basis() is None

    following(script)


def test_a_leader_and_a_replica_that_is_seeded_have_no_short_way() -> None:
    async def script(one: Follower) -> None:
        for state in (ReplicaState.LEADING, ReplicaState.SEEDING, ReplicaState.TAKING_OVER):
            one.guard.state = state
            assert one.guard.ask_leader() is None

    following(script)
