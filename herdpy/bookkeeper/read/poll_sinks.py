"""Who takes the answers of bookies that a follower asked for news: one object a request, no task.

Between a bookie's handle, which tells sinks what was answered, and ``polls``, which decides what it means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy.bookkeeper.errors import BookKeeperError

if TYPE_CHECKING:
    from herdpy.bookkeeper.read.polls import Polls


class LongPoll:
    """A long poll under way.

    Attributes:
        bookie_id: where.
        previous_lac: the bookie answers once it knows of more.
        asked_s: when (loop time).
        late_s: when it was first seen that others know of more; 0: not yet.
        is_over: its answer is not wanted any more.
    """

    __slots__ = ("_polls", "asked_s", "bookie_id", "is_over", "late_s", "previous_lac")

    def __init__(self, polls: Polls, bookie_id: str, previous_lac: int, asked_s: float) -> None:
        self.bookie_id = bookie_id
        self.previous_lac = previous_lac
        self.asked_s = asked_s
        self.late_s = 0.0
        self.is_over = False
        self._polls = polls

    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.is_over

    def set_result(self, reply: object, /) -> None:
        """The bookie answered."""
        self.is_over = True
        self._polls.poll_answered(self, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The bookie refused, or could not be reached."""
        self.is_over = True
        if not isinstance(error, BookKeeperError):
            raise error
        self._polls.poll_failed(self, error)


class LacQuestion:
    """A question for the proof of a hint."""

    __slots__ = ("_polls", "bookie_id", "hint")

    def __init__(self, polls: Polls, bookie_id: str, hint: int) -> None:
        self.bookie_id = bookie_id
        self.hint = hint
        self._polls = polls

    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._polls.is_over

    def set_result(self, reply: object, /) -> None:
        """The bookie answered."""
        self._polls.lac_answered(self, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The bookie refused, or could not be reached."""
        if not isinstance(error, BookKeeperError):
            raise error
        self._polls.lac_failed(self, error)
