"""Positions of the log as gRPC carries them: ``common.proto``'s ``Lsn``."""

from __future__ import annotations

from typing import Any

from herdpy.log.lsn import LSN
from herdpy.rpc import common_pb2


def lsn_message(lsn: LSN) -> common_pb2.Lsn:
    """A position as a message."""
    return common_pb2.Lsn(ledger_id=lsn.ledger_id, entry_id=lsn.entry_id)


def lsn_of(message: Any) -> LSN:
    """The position of a message; one that is not set is 0:0."""
    return LSN(message.ledger_id, message.entry_id)
