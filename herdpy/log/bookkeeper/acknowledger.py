"""Who appended is answered: the hook is told first, then the appends are resolved or failed.

Below ``leader_log``, which decides what is done and what is lost, and in which order. The state machine's
hook may fail; then nothing more can be acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.log.commit_log import Acknowledge, Append
from herdpy.log.errors import LogClosedError, LogError, Outcome
from herdpy.log.lsn import LSN


class Acknowledger:
    """That of one log.

    Args:
        hook: as ``LeaderLog``'s ``acknowledge``.
    """

    def __init__(self, hook: Acknowledge | None) -> None:
        self._hook = hook

    def tell(self, appends: Sequence[Append], lsn: LSN) -> None:
        """Have the hook know that these took effect at ``lsn``; raises what it raises."""
        for append in appends:
            append.lsn = lsn
        if self._hook is not None:
            self._hook(appends, None)

    def fail(self, appends: Sequence[Append], error: LogError, cause: LogError) -> None:
        """The log can write no more, because of ``cause``: ``error`` says what that means for these."""
        if not appends:
            return
        error.__cause__ = cause
        try:
            if self._hook is not None:
                self._hook(appends, error)
        finally:
            for append in appends:
                append.fail(error)

    def break_down(self, appends: Sequence[Append], error: BaseException) -> LogError:
        """The hook failed with ``error`` at these: it is asked no more. Returns why the log is lost."""
        failure = LogError(f"the log failed while it acknowledged: {error!r}", outcome="unknown")
        failure.__cause__ = error
        self._hook = None
        for append in appends:
            append.fail(failure)
        return failure


def outcome_of(error: LogError, outcome: Outcome, note: str = "") -> LogError:
    """The error of appends when the log was lost by ``error``, of its class where one can be made of a
    message."""
    kind = type(error)
    fits = kind.__init__ is LogError.__init__ and kind is not LogClosedError
    return (kind if fits else LogError)(f"{error}{note}", outcome=outcome)
