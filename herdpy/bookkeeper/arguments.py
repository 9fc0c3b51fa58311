"""What callers hand in, checked before anything is sent: ids, quorums, passwords, custom metadata.

Used by the client only. Everything here is pure; a wrong value is a ValueError and a wrong type a
TypeError, whose message says what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_LEDGER_ID = 2**63 - 1
MAX_CUSTOM_METADATA_BYTES = 512 * 1024
"""All keys and values together: ZooKeeper refuses a znode above 1 MiB (jute.maxbuffer)."""


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """ensemble_size >= write_quorum >= ack_quorum >= 1."""
    named = {"ensemble_size": ensemble_size, "write_quorum": write_quorum, "ack_quorum": ack_quorum}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        given = ", ".join(f"{name}={value}" for name, value in named.items())
        raise ValueError(f"ensemble_size >= write_quorum >= ack_quorum >= 1 must hold, given were {given}")


def check_ledger_id(ledger_id: int) -> None:
    """0 <= ledger_id < 2**63."""
    if isinstance(ledger_id, bool) or not isinstance(ledger_id, int):
        raise TypeError(f"a ledger id must be a whole number, not {type(ledger_id).__name__}")
    if not 0 <= ledger_id <= MAX_LEDGER_ID:
        raise ValueError(f"a ledger id is at least 0 and below 2**63, not {ledger_id}")


def check_password(password: bytes) -> None:
    """Bytes; the value is never part of a message."""
    if not isinstance(password, bytes):
        raise TypeError(f"the password must be bytes, not {type(password).__name__}: b'...' or text.encode()")


def check_custom_metadata(custom: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """A copy of a mapping of str to bytes that fits a znode."""
    if custom is None:
        return {}
    if not isinstance(custom, Mapping):
        raise TypeError(f"custom_metadata must be a mapping of str to bytes, not {type(custom).__name__}")
    total = 0
    for name, value in custom.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            raise TypeError(
                f"custom_metadata maps str to bytes, not {type(name).__name__} to {type(value).__name__}"
            )
        total += len(name.encode()) + len(value)
    if total > MAX_CUSTOM_METADATA_BYTES:
        raise ValueError(f"custom_metadata has {total:,} bytes, at most {MAX_CUSTOM_METADATA_BYTES:,} fit")
    return dict(custom)
