"""The ledger list as the bytes of a znode. Above ``ledger_list``; pure.

JSON, so that any tool can show it; the fields are in docs/log-format.md. Beside the list it names
who wrote it, and carries a random tag: after a write whose reply was lost, the writer knows its own.

A znode holds 1 MiB at most. So closed ledgers go, many at a time, into *chunks*: child znodes that never
change, made before the list that names them is written. The list has the rest; it alone is compared and set.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from herdpy.log.errors import CorruptLedgerError
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


def encode_chunk(ledgers: Ledgers) -> bytes:
    """The data of a chunk's znode."""
    body = {"format": FORMAT, "ledgers": [_ledger(ledger) for ledger in ledgers]}
    return json.dumps(body, separators=(",", ":")).encode()


def decode_chunk(data: bytes, path: str) -> Ledgers:
    """A chunk's ledgers; CorruptLedgerError when the znode holds something else."""
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise ValueError(f"format {body['format']!r} is not known here")
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
        if body["format"] not in (FORMAT, CHUNKED):
            raise ValueError(f"format {body['format']!r} is not known here")
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
