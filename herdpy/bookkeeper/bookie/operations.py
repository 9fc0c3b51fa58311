"""What can be asked of a bookie, one method an operation: the typed half of the handle.

Above it are readers, recovery and the client; below it `call`, which sends a frame and awaits the body of
the reply. A status other than EOK is raised as its exception. (Adds take another way, `Bookie.send_add`,
which makes no future and raises nothing.)

All methods raise TimedOutError (no answer in time), BookieUnavailableError (no connection, or it broke),
AuthenticationError (TLS or credentials), ClosedClientError, BackPressureError (too many wait for a
connection), the class of the status that the bookie answered, and ProtocolError when a reply has not the
body it must have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from herdpy.bookkeeper.bookie.pending import ReplySink
from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire import requests
from herdpy.bookkeeper.wire.reads import encode_read
from herdpy.bookkeeper.wire.replies import InfoReply, LacReply, ListReply, ReadReply
from herdpy.bookkeeper.wire.status import LAST_ENTRY, Operation

T = TypeVar("T")

_READ_ENTRY: Final = Operation.READ_ENTRY


class BookieOperations(ABC):
    """The requests that are awaited one by one."""

    id: str
    _settings: ClientSettings
    _next_txn: Callable[[], int]

    @abstractmethod
    async def call(
        self,
        operation: Operation,
        txn: int,
        frame: bytes,
        timeout_s: float,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> object:
        """Send a request and await the body of its reply; ledger and entry are for the errors."""

    @abstractmethod
    def request(
        self,
        operation: Operation,
        txn: int,
        frame: bytes,
        timeout_s: float,
        sink: ReplySink,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> None:
        """Send a request and have `sink` told the outcome, once, later."""

    def send_read(
        self, ledger_id: int, entry_id: int, sink: ReplySink, *, fence_key: bytes | None = None
    ) -> None:
        """Read an entry as `read` does, without a task: `sink` gets the reply, or what `read` raises."""
        txn = self._next_txn()
        if fence_key is None:
            frame = encode_read(txn, ledger_id, entry_id)
        else:
            frame = requests.fence_read(txn, ledger_id, fence_key, entry_id)
        timeout_s = self._settings.request_timeout_s
        self.request(_READ_ENTRY, txn, frame, timeout_s, sink, ledger_id, entry_id)

    async def read(
        self,
        ledger_id: int,
        entry_id: int = LAST_ENTRY,
        *,
        fence_key: bytes | None = None,
        timeout_s: float | None = None,
    ) -> ReadReply:
        """Read an entry (-1: the last one this bookie has).

        With `fence_key`, the ledger's master key, the bookie fences the ledger first: it accepts no further
        adds except a recovery's. Raises NoSuchEntryError, NoSuchLedgerError and what the class says.
        """
        txn = self._next_txn()
        if fence_key is None:
            frame = encode_read(txn, ledger_id, entry_id)
        else:
            frame = requests.fence_read(txn, ledger_id, fence_key, entry_id)
        if timeout_s is None:
            timeout_s = self._settings.request_timeout_s
        body = await self.call(Operation.READ_ENTRY, txn, frame, timeout_s, ledger_id, entry_id)
        return self._expect(body, ReadReply)

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float) -> ReadReply:
        """Wait at the bookie, at most `timeout_s`, until its last add confirmed is above `previous_lac`.

        The reply then carries `max_lac` and, when this bookie has it, the entry after `previous_lac`; when
        the time is over it carries `max_lac` alone. The bookie may take `request_timeout_s` more to answer.
        """
        txn = self._next_txn()
        frame = requests.long_poll(txn, ledger_id, previous_lac, round(timeout_s * 1000))
        patience_s = timeout_s + self._settings.request_timeout_s
        body = await self.call(Operation.READ_ENTRY, txn, frame, patience_s, ledger_id)
        return self._expect(body, ReadReply)

    def send_long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float, sink: ReplySink) -> None:
        """As `long_poll`, without a task: `sink` gets the reply, or what `long_poll` raises."""
        txn = self._next_txn()
        frame = requests.long_poll(txn, ledger_id, previous_lac, round(timeout_s * 1000))
        patience_s = timeout_s + self._settings.request_timeout_s
        self.request(_READ_ENTRY, txn, frame, patience_s, sink, ledger_id)

    def send_read_lac(self, ledger_id: int, sink: ReplySink) -> None:
        """As `read_lac`, without a task: `sink` gets the reply, or what `read_lac` raises."""
        txn = self._next_txn()
        frame = requests.read_lac(txn, ledger_id)
        self.request(Operation.READ_LAC, txn, frame, self._settings.request_timeout_s, sink, ledger_id)

    async def read_lac(self, ledger_id: int) -> LacReply:
        """What the bookie knows of the last add confirmed: the explicit one and the last entry it has."""
        body = await self._ask(Operation.READ_LAC, lambda txn: requests.read_lac(txn, ledger_id), ledger_id)
        return self._expect(body, LacReply)

    async def write_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        """Tell the bookie the last add confirmed; `body` is sealed by `Digest.seal_lac`."""
        await self._ask(
            Operation.WRITE_LAC,
            lambda txn: requests.write_lac(txn, ledger_id, master_key, body),
            ledger_id,
        )

    async def force(self, ledger_id: int) -> None:
        """Have everything added to the ledger at this bookie so far put on its disks."""
        await self._ask(Operation.FORCE_LEDGER, lambda txn: requests.force(txn, ledger_id), ledger_id)

    async def info(self) -> InfoReply:
        """The bookie's disk space, in bytes."""
        return self._expect(await self._ask(Operation.GET_BOOKIE_INFO, requests.bookie_info), InfoReply)

    async def list_entries(self, ledger_id: int) -> list[int]:
        """The ids of the ledger's entries that this bookie has, ascending."""
        body = await self._ask(
            Operation.GET_LIST_OF_ENTRIES, lambda txn: requests.list_entries(txn, ledger_id), ledger_id
        )
        return list(self._expect(body, ListReply).entry_ids)

    async def _ask(
        self, operation: Operation, encode: Callable[[int], bytes], ledger_id: int | None = None
    ) -> object:
        txn = self._next_txn()
        return await self.call(operation, txn, encode(txn), self._settings.request_timeout_s, ledger_id)

    def _expect(self, body: object, kind: type[T]) -> T:
        if not isinstance(body, kind):
            raise ProtocolError(f"a reply without its {kind.__name__}", bookie=self.id)
        return body
