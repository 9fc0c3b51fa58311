"""BookKeeper's own Java client as tests talk to it (java/LedgerPeer.java)."""

from __future__ import annotations

import base64
from pathlib import Path

from herdpy.bookkeeper import DigestType
from herdpy.testing import JavaProgram

SOURCE = Path(__file__).parent / "java" / "LedgerPeer.java"


def java_digest(digest: DigestType) -> str:
    """Java's name of a digest type."""
    return "MAC" if digest is DigestType.HMAC else digest.name


class JavaPeer:
    """The Java client with ledgers as bytes; requests wait for their answers. A context manager."""

    def __init__(self, metadata_service_uri: str, **settings: object) -> None:
        words = [f"{name}={value}" for name, value in settings.items()]
        self._program = JavaProgram(SOURCE, metadata_service_uri, *words)

    def __enter__(self) -> JavaPeer:
        self._program.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop()

    def create(self, quorums, digest, password=b"", custom_metadata=None, *, deferred_sync=False) -> int:
        answer = self._program.request(
            "create",
            ensemble_size=quorums[0],
            write_quorum=quorums[1],
            ack_quorum=quorums[2],
            digest=java_digest(digest),
            password=text(password),
            custom_metadata={name: text(value) for name, value in (custom_metadata or {}).items()},
            deferred_sync=deferred_sync,
        )
        return answer["ledger_id"]

    def append(self, ledger_id: int, *entries: bytes) -> list[int]:
        answer = self._program.request("append", ledger_id=ledger_id, entries=[text(one) for one in entries])
        return answer["entry_ids"]

    def open(
        self, ledger_id: int, digest: DigestType, password: bytes = b"", *, recover: bool = False
    ) -> dict:
        return self._program.request(
            "open",
            ledger_id=ledger_id,
            digest=java_digest(digest),
            password=text(password),
            recover=recover,
        )

    def read(self, ledger_id: int, first: int, last: int) -> list[tuple[int, bytes, int]]:
        """Each entry's id, data, and the ledger's length with it."""
        answer = self._program.request("read", ledger_id=ledger_id, first=first, last=last)
        data = [base64.b64decode(one) for one in answer["entries"]]
        return list(zip(answer["entry_ids"], data, answer["lengths"], strict=True))

    def wait_entry(self, ledger_id: int, entry_id: int, timeout_ms: int = 20_000) -> tuple[int, bytes | None]:
        """Long poll: the last add confirmed, and the entry when it came along."""
        answer = self._program.request(
            "wait_entry", ledger_id=ledger_id, entry_id=entry_id, timeout_ms=timeout_ms
        )
        entry = answer.get("entry")
        return answer["last_add_confirmed"], None if entry is None else base64.b64decode(entry)

    def metadata(self, ledger_id: int) -> dict:
        found = self._program.request("metadata", ledger_id=ledger_id)
        custom = found["custom_metadata"]
        return {**found, "custom_metadata": {name: base64.b64decode(value) for name, value in custom.items()}}

    def ask(self, operation: str, **fields: object) -> dict:
        """Any other request: close, force, read_lac, delete, list."""
        return self._program.request(operation, **fields)


def text(data: bytes) -> str:
    """Bytes as they travel in JSON."""
    return base64.b64encode(data).decode()
