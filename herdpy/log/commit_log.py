"""The commit log of one tablespace: what the state machine asks of any kind of log.

Transactions go in by ``append``, which never blocks: the append takes its place in the log's order
and is a :class:`~herdpy.log.wait.Wait` for its position. Whole entries come out by ``read`` (what
is there) and ``tail`` (what comes). File ledgers are one implementation; ledgers in BookKeeper are
another: nothing here assumes that writing is local, that it is synchronous, or that nobody fences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mypy_extensions import mypyc_attr

from herdpy.log.lsn import LSN
from herdpy.log.wait import Wait

if TYPE_CHECKING:
    from herdpy.log.entry import LogEntry, LoggedTransaction
    from herdpy.log.errors import LogError
    from herdpy.log.ledger_list import LedgerInfo


@mypyc_attr(allow_interpreted_subclasses=True)
class Append(Wait[LSN]):
    """A transaction on its way into the log; the wait's value is the position it took effect at.

    Attributes:
        transaction: what was appended.
        lsn: its position, set before the acknowledging hook sees the append; None until then.
    """

    __slots__ = ("lsn", "transaction")

    def __init__(self, transaction: LoggedTransaction) -> None:
        super().__init__()
        self.transaction = transaction
        self.lsn: LSN | None = None


class LastWait(Wait[object]):
    """A commit of its own that a statement waits for with nothing left to do but to answer.

    Whoever drives the statement may take it up again without the engine's turn.
    """

    __slots__ = ("_append",)

    def __init__(self, append: Append) -> None:
        super().__init__()
        self._append = append

    def done(self) -> bool:
        return self._append.done()

    def result(self) -> object:
        return self._append.result()

    def when_done(self, callback: Callable[[], object]) -> None:
        self._append.when_done(callback)

    def block(self, timeout_s: float | None = None) -> bool:
        return self._append.block(timeout_s)

    def __await__(self) -> Generator[Any, None, object]:
        if not self._append.done():
            self._asyncio_future_blocking = True
            yield self
        return self._append.result()


class EntryWatch(Protocol):
    """Of one entry on its way to bookies, in the order of these methods."""

    def sent(self, lsn: LSN, size_bytes: int) -> None:
        """It goes out now, with so many bytes."""

    def answered(self, bookie_id: str, status: int) -> None:
        """A bookie has answered; status 0: it has the entry. Once for each bookie, in any order."""

    def confirmed(self) -> None:
        """Enough bookies have it, and all before it: it is applied now."""

    def applied(self) -> None:
        """It is applied, and its commits are answered next."""


class LogWatch(Protocol):
    """Looks on while entries of a log are written: for traces, which no log needs.

    A log has no watch unless it is given one (``CommitLog.look_on``), and then calls it once an entry. A call
    is over when it returns: it raises nothing, and it does not keep a log waiting.
    """

    def entry(self, appends: Sequence[Append]) -> EntryWatch | None:
        """These take effect with an entry that is about to be sent; None: nobody looks. On the loop."""

    def writing(self, appends: Sequence[Append]) -> None:
        """A group is about to be written to a file and synced; in whichever thread writes."""

    def written(self, appends: Sequence[Append]) -> None:
        """It is durable; in the same thread."""

    def applied(self, appends: Sequence[Append]) -> None:
        """It is applied; where the log acknowledges."""

    def failed(self, appends: Sequence[Append]) -> None:
        """A group was not written; where the log acknowledges."""


#: Called with appends in log order, before they are resolved. The error is None when they are
#: durable. It runs in whichever thread flushes; it must not block on an append of the same log.
Acknowledge = Callable[[Sequence[Append], "LogError | None"], None]


@dataclass(slots=True, frozen=True)
class LogSettings:
    """How a log is cut into entries and ledgers.

    Attributes:
        max_entry_bytes: a transaction that does not fit an entry of this size is written in parts.
        max_group_bytes: about how much is written between two syncs at most.
        max_ledger_bytes, max_ledger_age_s: a ledger past either is closed and a new one begun.
        preallocate_bytes: how far space is reserved ahead of the writing (file ledgers).
    """

    max_entry_bytes: int = 1 << 20
    max_group_bytes: int = 16 << 20
    max_ledger_bytes: int = 64 << 20
    max_ledger_age_s: float = 3600.0
    preallocate_bytes: int = 4 << 20


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitLog(ABC):
    """One tablespace's log. All methods may be called from any thread, but for ``look_on``."""

    def look_on(self, watch: LogWatch) -> None:  # noqa: B027 - most logs write nothing
        """From now on ``watch`` is called for what is written, before anything is appended that it is for."""

    @abstractmethod
    def append(self, transaction: LoggedTransaction) -> Append:
        """Give the transaction its place in the log, without blocking.

        Several appends may be in flight; they are acknowledged strictly in order.

        Raises:
            LogClosedError: the log is closed or has failed.
            RecordError: the transaction cannot be encoded.
        The append itself fails with a LogError that says by ``outcome`` what became of it.
        """

    @property
    def is_full(self) -> bool:
        """Whether as much is queued as the log may hold in memory: who appends is to wait for room."""
        return False

    def when_roomy(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once the log is not full, or takes no more appends."""
        callback()

    def hurry(self) -> None:  # noqa: B027 - most logs have nothing to hurry
        """Somebody waits for what was appended, and appends nothing meanwhile: it is not to wait for more."""

    @abstractmethod
    def flush(self) -> None:
        """Block until everything appended so far is acknowledged; raises what the last one got."""

    @property
    @abstractmethod
    def lac(self) -> LSN:
        """The last entry known durable (last add confirmed), START in an empty log."""

    @property
    @abstractmethod
    def end(self) -> LSN:
        """The last entry written, durable or not yet."""

    @abstractmethod
    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """The entries after ``after``, to ``upto`` (default: the LAC when the reading begins).

        Raises:
            LogTrimmedError: entries after ``after`` are gone.
            CorruptLedgerError: an entry is damaged or out of the chain.
        """

    @abstractmethod
    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """As ``read``, then each entry as it is confirmed; ends when the log is closed."""

    @abstractmethod
    def roll(self) -> None:
        """Close the ledger that is written to; the next append begins another."""

    @abstractmethod
    def roll_if_due(self) -> bool:
        """Roll when the ledger is past its size or age; True when it was. For a cadence."""

    @abstractmethod
    def note_lac(self) -> None:
        """Tell readers, and a later recovery, the LAC without writing an entry. For a cadence."""

    @abstractmethod
    def trim(self, before: LSN) -> list[int]:
        """Remove the closed ledgers all of whose entries are at or before ``before``; their ids."""

    @abstractmethod
    def ledgers(self) -> Sequence[LedgerInfo]:
        """The ledger list."""

    @abstractmethod
    def close(self) -> None:
        """Flush, close the ledger and refuse further appends. A second call does nothing."""
