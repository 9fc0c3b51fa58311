"""The ledger list as the bytes of a znode. Above ``ledger_list``; pure.

JSON, so that any tool can show it; the fields are in docs/log-format.md. Beside the list it names
who wrote it, and carries a random tag: after a write whose reply was lost, the writer knows its own.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from herdpy.log.errors import CorruptLedgerError
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN

FORMAT = 1


def encode_list(state: LedgerListState, tag: str) -> bytes:
    """The znode's data; the version is not part of it, the znode has its own."""
    body = {
        "format": FORMAT,
        "log": state.log_id,
        "epoch": state.epoch,
        "node": state.node,
        "tag": tag,
        "next_ledger": state.next_ledger_id,
        "base": [*state.base],
        "base_crc": state.base_crc,
        "ledgers": [_ledger(ledger) for ledger in state.ledgers],
    }
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


def decode_list(data: bytes, version: int, path: str) -> tuple[LedgerListState, str]:
    """The list and its tag; CorruptLedgerError when the znode holds something else."""
    try:
        body = json.loads(data)
        if body["format"] != FORMAT:
            raise ValueError(f"format {body['format']!r} is not known here")
        ledgers = tuple(_ledger_info(item) for item in body["ledgers"])
        _check_order(ledgers)
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
        return state, body["tag"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLedgerError(None, None, "", f"znode {path}: {error!r}") from error


def _ledger_info(item: dict[str, Any]) -> LedgerInfo:
    closed = item["state"] == "closed"
    end = (item["last_entry"], item["length"], item["crc"]) if closed else (-1, 0, 0)
    last_entry_id, length, crc = end
    return LedgerInfo(
        item["id"], item["created_us"], closed, last_entry_id, length, crc, item["epoch"], item["node"]
    )


def _check_order(ledgers: tuple[LedgerInfo, ...]) -> None:
    for before, after in itertools.pairwise(ledgers):
        if before.ledger_id >= after.ledger_id or (after.closed and not before.closed):
            raise ValueError("the ledgers are out of order")
    if any(ledger.closed and ledger.last_entry_id < 0 for ledger in ledgers):
        raise ValueError("an empty ledger is closed: it should not be in the list")
