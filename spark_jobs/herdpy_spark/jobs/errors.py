"""What a job ends with when it cannot go on: the failure in words, what to do next, the exit code."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130


class JobError(Exception):
    """The job cannot go on. ``hint`` says what to do next; ``code`` is the exit code."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class UsageError(JobError):
    """The command asks for what cannot be."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, code=USAGE)
