"""The bookies that are there: which take writes, which only reads, and where each listens.

Between ``Znodes`` and placement, the pool of connections and the tools: the children of ``available`` and of
``available/readonly`` are watched, and the data of each, so that what is lost or moves is seen at once. What
a bookie publishes is a stranger's: where it cannot be understood, the bookie's id is taken as its address.

Format: BookKeeper's discover/ZKRegistrationManager.java and ZKRegistrationClient.java, and
BookieServiceInfoFormat in proto/DataFormats.proto.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf.message import DecodeError

from herdpy.bookkeeper.errors import BookieUnavailableError, Outcome, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.ledger_metadata import is_bookie_id
from herdpy.bookkeeper.metadata.znodes import Listeners, Watch, WatchedChildren, Znodes
from herdpy.bookkeeper.wire.proto.data_formats_pb2 import BookieServiceInfoFormat

_log = logging.getLogger("herdpy.bookkeeper.registry")

_READONLY = "readonly"
_PROTOCOL = "bookie-rpc"
_MAX_INFO_BYTES = 64 * 1024
_MAX_LAST_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class BookieAddress:
    """Where a bookie listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Registry:
    """The bookies registered in ZooKeeper; call ``start``, then read ``available`` and ``readonly``."""

    def __init__(self, znodes: Znodes, root: str) -> None:
        """Args:
        znodes: a started session.
        root: the absolute path of the ledgers.
        """
        self._registered: Listeners[[str]] = Listeners()
        available = f"{root.rstrip('/')}/available"
        self._available = self._watched(znodes, available)
        self._readonly = self._watched(znodes, f"{available}/{_READONLY}")
        self._last_known: dict[str, BookieAddress] = {}
        self._listeners: Listeners[[]] = Listeners()

    def _watched(self, znodes: Znodes, path: str) -> WatchedChildren[BookieAddress]:
        return WatchedChildren(
            znodes,
            path,
            parse_service_info,
            self._changed,
            counts=is_bookie_id,
            made=self._registered.notify_now,
        )

    async def start(self, timeout_s: float = 30.0) -> None:
        """Begin to watch; returns once all bookies of this moment are known.

        Raises:
            ZooKeeperUnavailableError: that took longer than ``timeout_s``.
        """
        try:
            async with asyncio.timeout(timeout_s):
                for group in (self._available, self._readonly):
                    group.start()
                for group in (self._available, self._readonly):
                    await group.complete.wait()
        except TimeoutError:
            self.close()
            raise ZooKeeperUnavailableError(
                f"the bookies could not be read in {timeout_s} s", outcome=Outcome.NOT_DONE
            ) from None

    def close(self) -> None:
        """Watch no more and call nobody back; what is known stays readable."""
        self._listeners.clear()
        self._registered.clear()
        self._available.close()
        self._readonly.close()

    @property
    def available(self) -> Mapping[str, BookieAddress]:
        """The bookies that take writes, by id."""
        return MappingProxyType(self._available.records)

    @property
    def readonly(self) -> Mapping[str, BookieAddress]:
        """The bookies that only take reads, by id."""
        return MappingProxyType(self._readonly.records)

    def address(self, bookie_id: str) -> tuple[str, int]:
        """Where to reach a bookie: as registered, else as last registered, else as its id says.

        Raises:
            BookieUnavailableError: nobody knows.
        """
        found = (
            self._available.records.get(bookie_id)
            or self._readonly.records.get(bookie_id)
            or self._last_known.get(bookie_id)
            or address_in_id(bookie_id)
        )
        if found is None:
            raise BookieUnavailableError(
                "not registered, and its id is not an address", outcome=Outcome.NOT_DONE, bookie=bookie_id
            )
        return found.host, found.port

    def on_change(self, callback: Callable[[], None]) -> Watch:
        """Call back on the loop after every change of ``available`` or ``readonly`` from now on."""
        return self._listeners.add(callback)

    def on_registration(self, callback: Callable[[str], None]) -> Watch:
        """Call back on the loop with the id of each bookie that registers from now on.

        A bookie registers when it has started and takes requests. One that registers again before it was
        seen to be gone is among them.
        """
        return self._registered.add(callback)

    def _changed(self, bookie_id: str, address: BookieAddress | None) -> None:
        if address is not None:
            self._last_known.pop(bookie_id, None)
            self._last_known[bookie_id] = address
            if len(self._last_known) > _MAX_LAST_KNOWN:
                del self._last_known[next(iter(self._last_known))]
        self._listeners.notify()


def parse_service_info(bookie_id: str, data: bytes) -> BookieAddress | None:
    """Where a bookie listens, from what it registered; None (logged) when nothing of it makes an address."""
    address = None
    if data:
        address = _endpoint(data)
        if address is None:
            _log.warning("bookie registered no usable endpoint", extra={"bookie": bookie_id})
    address = address or address_in_id(bookie_id)
    if address is None:
        _log.error("bookie has no address", extra={"bookie": bookie_id})
    return address


def _endpoint(data: bytes) -> BookieAddress | None:
    if len(data) > _MAX_INFO_BYTES:
        return None
    message = BookieServiceInfoFormat()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    for endpoint in message.endpoints:
        if endpoint.protocol == _PROTOCOL and _is_text(endpoint.host) and 0 < endpoint.port < 65536:
            return BookieAddress(endpoint.host, endpoint.port)
    return None


def _is_text(value: object) -> bool:
    """Whether there is a string. Protobuf hands out bytes where a proto2 string is not UTF-8."""
    return isinstance(value, str) and value != ""


def address_in_id(bookie_id: str) -> BookieAddress | None:
    """The address of a bookie whose id is "host:port"; None when it is something else."""
    host, _, port = bookie_id.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
        return None
    return BookieAddress(host.removeprefix("[").removesuffix("]"), int(port))
