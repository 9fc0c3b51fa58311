"""The ledger list in a znode, changed by compare-and-set on the znode's version.

A list's version is the znode's plus one, so that 0 means "no list yet". A write ends only when it is
known what became of it: the reply to a change may be lost with a connection, then the same change is
asked for again, under the same version. Either it is made now, or the version has moved on: then the
tag of the list that is there says whether it was this very change that moved it.

Chunks of closed ledgers are children of the list's znode (see ``encode_chunk``). One is made before the
list that names it is written; what no list names is deleted by the owner after its next change. A chunk's
name has the epoch of its maker: one of a later epoch is of a node that is about to own the log, and stays.

The bytes are JSON, so that any tool can show them; the fields are in docs/log-format.md. Beside the list it
names who wrote it, and carries a random tag: after a write whose reply was lost, the writer knows its own.
A znode holds 1 MiB at most. So closed ledgers go, many at a time, into *chunks*: child znodes that never
change, made before the list that names them is written. The list has the rest; it alone is compared and
set.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from herdpy.bookkeeper.errors import ClosedClientError, SessionExpiredError, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import (
    NodeExistsError,
    NoNodeError,
    Watch,
    Znode,
    Znodes,
    ZnodeVersionError,
)
from herdpy.log.errors import CorruptLedgerError, LedgerListConflictError, LogFullError, NewerFormatError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN

FORMAT = 1
CHUNKED = 2
"""The format of a list that names chunks; without any it is written as ``FORMAT``."""

Ledgers = tuple[LedgerInfo, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """What the list's own znode holds.

    Attributes:
        state: the list, with the ledgers that are in no chunk.
        chunks: the names of the chunks, whose ledgers come before those, in order.
        tag: of the change that wrote it.
    """

    state: LedgerListState
    chunks: tuple[str, ...]
    tag: str


def whole(head: Head, chunks: Iterable[Ledgers]) -> LedgerListState:
    """The list, of its head and the ledgers of its chunks, without those that were trimmed."""
    base = head.state.base
    kept = tuple(one for chunk in chunks for one in chunk if one.last > base)
    return replace(head.state, ledgers=(*kept, *head.state.ledgers))


def _check_format(found: object, known: tuple[int, ...], path: str) -> None:
    """ValueError unless it is one; NewerFormatError when it is none that is known here."""
    if not isinstance(found, int):
        raise ValueError(f"format {found!r} is none")
    if found not in known:
        raise NewerFormatError(f"znode {path} has format {found}, which is not known here")


def encode_chunk(ledgers: Ledgers) -> bytes:
    """The data of a chunk's znode."""
    body = {"format": FORMAT, "ledgers": [_ledger(ledger) for ledger in ledgers]}
    return json.dumps(body, separators=(",", ":")).encode()


def decode_chunk(data: bytes, path: str) -> Ledgers:
    """A chunk's ledgers; CorruptLedgerError when the znode holds something else."""
    try:
        body = json.loads(data)
        _check_format(body["format"], (FORMAT,), path)
        return tuple(_ledger_info(item) for item in body["ledgers"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLedgerError(None, None, "", f"znode {path}: {error!r}") from error


def encode_list(state: LedgerListState, tag: str, chunks: Sequence[str] = ()) -> bytes:
    """The znode's data; the version is not part of it, the znode has its own.

    Args:
        state: with the ledgers that are in none of the ``chunks``.
    """
    body: dict[str, Any] = {
        "format": CHUNKED if chunks else FORMAT,
        "log": state.log_id,
        "epoch": state.epoch,
        "node": state.node,
        "tag": tag,
        "next_ledger": state.next_ledger_id,
        "base": [*state.base],
        "base_crc": state.base_crc,
        "ledgers": [_ledger(ledger) for ledger in state.ledgers],
    }
    if chunks:
        body["chunks"] = list(chunks)
    return json.dumps(body, separators=(",", ":")).encode()


def _ledger(ledger: LedgerInfo) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": ledger.ledger_id,
        "created_us": ledger.created_us,
        "epoch": ledger.epoch,
        "node": ledger.node,
        "state": "closed" if ledger.closed else "open",
    }
    if ledger.closed:
        entry |= {"last_entry": ledger.last_entry_id, "length": ledger.length, "crc": ledger.crc}
    return entry


def decode_list(data: bytes, version: int, path: str) -> Head:
    """What the znode holds; CorruptLedgerError when it is something else."""
    try:
        body = json.loads(data)
        _check_format(body["format"], (FORMAT, CHUNKED), path)
        ledgers = tuple(_ledger_info(item) for item in body["ledgers"])
        check_order(ledgers)
        state = LedgerListState(
            version=version,
            log_id=body["log"],
            next_ledger_id=body["next_ledger"],
            base=LSN(*body["base"]),
            base_crc=body["base_crc"],
            ledgers=ledgers,
            epoch=body["epoch"],
            node=body["node"],
        )
        chunks = tuple(body["chunks"]) if body["format"] == CHUNKED else ()
        return Head(state, chunks, body["tag"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLedgerError(None, None, "", f"znode {path}: {error!r}") from error


def _ledger_info(item: dict[str, Any]) -> LedgerInfo:
    closed = item["state"] == "closed"
    end = (item["last_entry"], item["length"], item["crc"]) if closed else (-1, 0, 0)
    last_entry_id, length, crc = end
    return LedgerInfo(
        item["id"], item["created_us"], closed, last_entry_id, length, crc, item["epoch"], item["node"]
    )


def check_order(ledgers: Ledgers) -> None:
    """ValueError when they are not the ledgers of a list."""
    for before, after in itertools.pairwise(ledgers):
        if before.ledger_id >= after.ledger_id or (after.closed and not before.closed):
            raise ValueError("the ledgers are out of order")
    if any(ledger.closed and ledger.last_entry_id < 0 for ledger in ledgers):
        raise ValueError("an empty ledger is closed: it should not be in the list")


_log = logging.getLogger("herdpy.log.ledger_list")
_PASSING = (ZooKeeperUnavailableError, SessionExpiredError)
_RETRY_S = 0.1


class ZnodeLedgerList:
    """The ledger list of one tablespace.

    Args:
        znodes: a started session.
        path: of the list; its parents are made with it.
        chunk_ledgers: how many closed ledgers go into a chunk; as many again stay in the list's own znode.
        limit_bytes: what the list's znode may hold; ZooKeeper's own limit is 1 MiB with all around it.

    Attributes:
        size_bytes: of the list's own znode, as this node saw or wrote it last.
    """

    def __init__(
        self, znodes: Znodes, path: str, *, chunk_ledgers: int = 500, limit_bytes: int = 1_000_000
    ) -> None:
        self._znodes = znodes
        self.path = path
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._chunk_ledgers = chunk_ledgers
        self._chunks: dict[str, Ledgers] = {}  # those that the list of ``_version`` names, in order
        self._version = 0

    async def read(self) -> LedgerListState | None:
        """The list as some server of ZooKeeper has it; None when there is none.

        Raises:
            CorruptLedgerError: the znode holds something else.
            ZooKeeperUnavailableError: no server answers.
        """
        found = await self._tagged()
        return None if found is None else found[0]

    async def write(self, state: LedgerListState, expected_version: int) -> LedgerListState:
        """Replace version ``expected_version`` (0: no list) by ``state``; returns it, versioned.

        Goes on until the outcome is known, however long ZooKeeper is away; bound it with
        ``asyncio.timeout``, then the outcome is unknown.

        Raises:
            LedgerListConflictError: the list is at a later version. This change was not made, or, if a
                reply was lost, it was and another one was made on top of it.
            LogFullError: it is larger than ``limit_bytes``. This change was not made.
        """
        tag = os.urandom(8).hex()
        chunks = await self._chunked(state, expected_version, tag)
        rest = replace(state, ledgers=state.ledgers[sum(count for _, _, count in chunks) :])
        data = encode_list(rest, tag, [name for name, _, _ in chunks])
        if len(data) > self.limit_bytes:
            raise LogFullError(f"the ledger list has {len(data)} bytes, and may have {self.limit_bytes}")
        written = await self._written(state, data, expected_version, tag)
        before = self._chunks
        self._chunks = {name: ledgers for name, ledgers, _ in chunks}
        self._version, self.size_bytes = written.version, len(data)
        if before.keys() != self._chunks.keys():
            await self._sweep(written)
        return written

    async def _chunked(
        self, state: LedgerListState, expected_version: int, tag: str
    ) -> list[tuple[str, Ledgers, int]]:
        """Chunks that begin the list: their names, their ledgers, how many of those are still in the list.

        Those that are there are kept; where enough closed ledgers have gathered behind them, more are made.
        """
        while expected_version and self._version != expected_version:
            try:
                await self._tagged()
                break
            except _PASSING as error:
                _log.warning("the ledger list cannot be read", extra=self._extra(error))
                await asyncio.sleep(_RETRY_S)
        chunks = []
        done = 0
        for name, ledgers in self._chunks.items():
            left = tuple(one for one in ledgers if one.last > state.base)
            if left != state.ledgers[done : done + len(left)]:
                break
            if left:
                chunks.append((name, ledgers, len(left)))
                done += len(left)
        size = self._chunk_ledgers
        while all(one.closed for one in state.ledgers[done : done + 2 * size]) and (
            len(state.ledgers) >= done + 2 * size
        ):
            ledgers = state.ledgers[done : done + size]
            name = f"{state.epoch:010d}-{tag}-{done:010d}"
            await self._make_chunk(name, encode_chunk(ledgers))
            chunks.append((name, ledgers, size))
            done += size
        return chunks

    async def _make_chunk(self, name: str, data: bytes) -> None:
        while True:
            try:
                await self._znodes.create(f"{self.path}/{name}", data, make_parents=True)
                return
            except NodeExistsError:
                return  # made by this very call, whose reply was lost
            except _PASSING as error:
                _log.warning("unknown whether a chunk was made", extra=self._extra(error))
                await asyncio.sleep(_RETRY_S)

    async def _sweep(self, state: LedgerListState) -> None:
        """Delete the chunks that no list names any more, of this epoch and of earlier ones."""
        try:
            for name in await self._znodes.children(self.path):
                epoch = name.partition("-")[0]
                if name not in self._chunks and epoch.isdecimal() and int(epoch) <= state.epoch:
                    await self._znodes.delete(f"{self.path}/{name}")
        except NoNodeError:
            pass
        except _PASSING as error:
            _log.warning("old chunks of the ledger list stay for now", extra=self._extra(error))

    async def _written(
        self, state: LedgerListState, data: bytes, expected_version: int, tag: str
    ) -> LedgerListState:
        while True:
            try:
                return replace(state, version=await self._put(data, expected_version) + 1)
            except NoNodeError:
                raise LedgerListConflictError("the ledger list is gone: the log was dropped") from None
            except (ZnodeVersionError, NodeExistsError):
                try:
                    found = await self._tagged()
                except _PASSING as error:
                    _log.warning("the ledger list cannot be read back", extra=self._extra(error))
                else:
                    if found is not None and found[1] == tag:
                        return found[0]
                    if found is not None and found[0].version > expected_version:
                        raise LedgerListConflictError(
                            f"the ledger list is at version {found[0].version}, not {expected_version}:"
                            " another node writes to this log"
                        ) from None
                    # The server that was read lags behind the one that refused.
            except _PASSING as error:
                _log.warning("unknown whether the ledger list was written", extra=self._extra(error))
            await asyncio.sleep(_RETRY_S)

    def watch(self, callback: Callable[[LedgerListState | CorruptLedgerError | None], None]) -> Watch:
        """Call back with the list now (soon), and after every change of it; see ``Znodes.watch_data``.

        A list whose chunks cannot be read now is not delivered: who needs it reads it.
        """
        return _ListWatch(self, self._znodes, callback)

    async def _tagged(self) -> tuple[LedgerListState, str] | None:
        """The list and its tag."""
        while True:
            try:
                znode = await self._znodes.get(self.path)
            except NoNodeError:
                return None
            if not znode.data:
                return None
            found = await self.of(znode)
            if found is not None:
                return found

    async def of(self, znode: Znode) -> tuple[LedgerListState, str] | None:
        """The list that begins in this znode, and its tag; None when it has been changed since.

        Raises:
            CorruptLedgerError: the znode, or a chunk that it names, holds something else.
            ZooKeeperUnavailableError: no server answers.
        """
        head = decode_list(znode.data, znode.version + 1, self.path)
        chunks = {}
        for name in head.chunks:
            try:
                chunks[name] = self._chunks.get(name) or await self._chunk(name)
            except NoNodeError as error:
                now = await self._znodes.exists(self.path)
                if now is not None and now.version == znode.version:
                    raise CorruptLedgerError(
                        None, None, "", f"znode {self.path}: its chunk {name} is gone"
                    ) from error
                return None
        return self._complete(head, chunks, len(znode.data)), head.tag

    def known(self, znode: Znode) -> LedgerListState | None:
        """The list that begins in this znode, if all chunks that it names are known here.

        Raises:
            CorruptLedgerError: the znode holds something else.
        """
        head = decode_list(znode.data, znode.version + 1, self.path)
        chunks = {name: self._chunks[name] for name in head.chunks if name in self._chunks}
        return self._complete(head, chunks, len(znode.data)) if len(chunks) == len(head.chunks) else None

    def _complete(self, head: Head, chunks: dict[str, Ledgers], size_bytes: int) -> LedgerListState:
        state = whole(head, chunks.values())
        try:
            check_order(state.ledgers)
        except ValueError as error:
            raise CorruptLedgerError(None, None, "", f"znode {self.path}: {error}") from error
        if state.version >= self._version:
            self._chunks, self._version, self.size_bytes = chunks, state.version, size_bytes
        return state

    async def _chunk(self, name: str) -> Ledgers:
        path = f"{self.path}/{name}"
        return decode_chunk((await self._znodes.get(path)).data, path)

    async def _put(self, data: bytes, expected_version: int) -> int:
        """The znode's new version."""
        znodes = self._znodes
        if expected_version:
            return await znodes.set(self.path, data, expected_version - 1)
        try:
            await znodes.create(self.path, data, make_parents=True)
        except NodeExistsError:
            znode = await znodes.get(self.path)
            if znode.data:
                raise
            return await znodes.set(self.path, data, znode.version)  # made empty, by whoever laid it out
        return 0

    def _extra(self, error: Exception) -> dict[str, str]:
        return {"path": self.path, "error": str(error)}


class _ListWatch:
    """A watch of the list: what a change tells is completed by the chunks that it names."""

    def __init__(
        self,
        ledger_list: ZnodeLedgerList,
        znodes: Znodes,
        callback: Callable[[LedgerListState | CorruptLedgerError | None], None],
    ) -> None:
        self._list = ledger_list
        self._callback = callback
        self._delivery: asyncio.Task[None] | None = None
        self._watch = znodes.watch_data(ledger_list.path, self._changed)

    def cancel(self) -> None:
        """See ``Watch``."""
        self._watch.cancel()
        if self._delivery is not None:
            self._delivery.cancel()

    def _changed(self, znode: Znode | None) -> None:
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        if znode is None or not znode.data:
            self._callback(None)
            return
        try:
            state = self._list.known(znode)
        except CorruptLedgerError as error:
            self._callback(error)
            return
        if state is not None:
            self._callback(state)
        else:
            self._delivery = asyncio.get_running_loop().create_task(self._deliver(znode), name="ledger list")

    async def _deliver(self, znode: Znode) -> None:
        state: LedgerListState | CorruptLedgerError
        try:
            found = await self._list.of(znode)
            if found is None:
                return
            state = found[0]
        except CorruptLedgerError as error:
            state = error
        except (*_PASSING, ClosedClientError):
            return
        self._callback(state)
