"""One question to every bookie of an ensemble, until the answers cover every write set.

Between ``last_confirmed`` and ``fencing``, which ask, and the bookies. An entry is in a write set, and its
ack quorum can be any A of that set's W bookies: so what all of the answers do not show cannot have been
confirmed only when fewer than A bookies of *every* write set are silent
(client/RoundRobinDistributionSchedule.java). Counting answers of the whole ensemble instead is right only
when every entry goes to every bookie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from herdpy.bookkeeper.errors import (
    BookKeeperError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from herdpy.bookkeeper.schedule import Coverage

T = TypeVar("T")


class EnsembleQuestion(Generic[T]):
    """A question that is with every member of an ensemble.

    "No such entry" and "no such ledger" are answers: they say that there is nothing.

    Args:
        members: the ensemble.
        coverage: of that ensemble, fresh.
        ask: puts the question to one bookie.

    Attributes:
        answers: what bookies answered with something, by index.
        problems: what the others said, by bookie id.
    """

    def __init__(
        self, members: tuple[str, ...], coverage: Coverage, ask: Callable[[str], Awaitable[T]]
    ) -> None:
        self.answers: dict[int, T] = {}
        self.problems: dict[str, BookKeeperError] = {}
        self._members = members
        self._coverage = coverage
        self._refusal: BookKeeperError | None = None
        loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks = {loop.create_task(self._put(index, ask)) for index in range(len(members))}

    async def covered(self) -> bool:
        """Wait until the answers cover every write set, or until all have spoken and they do not.

        Raises:
            UnauthorizedError: a bookie refused the ledger's key: the password is wrong.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self._refusal is not None:
                raise self._refusal
            if self._coverage.is_covered():
                return True
            if all(task.done() for task in self._tasks):
                return False
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Wait for nobody any more."""
        for task in self._tasks:
            task.cancel()

    def what_was_said(self) -> str:
        """Who failed to answer, and how, for an error's message."""
        return "; ".join(f"{bookie}: {error.message}" for bookie, error in self.problems.items())

    async def _put(self, index: int, ask: Callable[[str], Awaitable[T]]) -> None:
        bookie = self._members[index]
        try:
            self.answers[index] = await ask(bookie)
        except (NoSuchEntryError, NoSuchLedgerError) as error:
            self.problems[bookie] = error
            self._coverage.answered(index, True)
        except UnauthorizedError as error:
            self._refusal = error
        except BookKeeperError as error:
            self.problems[bookie] = error
            self._coverage.answered(index, False)
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            self._failure = error
        else:
            self._coverage.answered(index, True)
        finally:
            # The task counts as done only after this; whoever waits looks again then.
            asyncio.get_running_loop().call_soon(self._news.set)
