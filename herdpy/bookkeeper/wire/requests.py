"""What a client asks, except plain adds and reads, through protobuf.

Down from a bookie's handle: each function returns a whole frame, length prefix included, for the connection
to write. ``adds.AddEncoder`` and ``reads.encode_read`` make the two requests that come most often.

All raise ValueError for numbers that do not fit their fields. ``txn`` is unique on its connection.

Format: Request of proto/protocol.proto.
"""

from __future__ import annotations

from herdpy.bookkeeper.digest import LAC_HEADER_BYTES
from herdpy.bookkeeper.wire.proto.protocol_pb2 import (
    AuthMessage,
    ForceRequest,
    Header,
    InfoRequest,
    ListRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    StartTlsRequest,
    WriteLacRequest,
)
from herdpy.bookkeeper.wire.status import LAST_ENTRY, PROTOCOL_VERSION, InfoField, Operation, ReadFlag
from herdpy.bookkeeper.wire.varint import frame


def _header(operation: Operation, txn: int) -> Header:
    return Header(version=PROTOCOL_VERSION, operation=operation, txn=txn)


def _frame(request: Request) -> bytes:
    return frame(request.SerializeToString())


def fence_read(txn: int, ledger_id: int, master_key: bytes, entry_id: int = LAST_ENTRY) -> bytes:
    """Fence the ledger at this bookie, then read an entry (-1: the last one it has)."""
    read = ReadRequest(
        ledger_id=ledger_id, entry_id=entry_id, master_key=master_key, flag=ReadFlag.FENCE_LEDGER
    )
    return _frame(Request(header=_header(Operation.READ_ENTRY, txn), read=read))


def long_poll(txn: int, ledger_id: int, previous_lac: int, timeout_ms: int) -> bytes:
    """Answer when the last add confirmed passes ``previous_lac``, or after ``timeout_ms``."""
    read = ReadRequest(
        ledger_id=ledger_id,
        entry_id=LAST_ENTRY,
        previous_lac=previous_lac,
        timeout_ms=timeout_ms,
        flag=ReadFlag.ENTRY_PIGGYBACK,
    )
    return _frame(Request(header=_header(Operation.READ_ENTRY, txn), read=read))


def read_lac(txn: int, ledger_id: int) -> bytes:
    """Read the explicit last add confirmed and the last entry stored."""
    request = ReadLacRequest(ledger_id=ledger_id)
    return _frame(Request(header=_header(Operation.READ_LAC, txn), read_lac=request))


def write_lac(txn: int, ledger_id: int, master_key: bytes, body: bytes) -> bytes:
    """Tell the bookie the last add confirmed; ``body`` is what ``Digest.seal_lac`` made of it."""
    if len(body) < LAC_HEADER_BYTES:
        raise ValueError(f"{len(body)} bytes are no sealed last add confirmed")
    lac = int.from_bytes(body[8:LAC_HEADER_BYTES], "big", signed=True)
    request = WriteLacRequest(ledger_id=ledger_id, lac=lac, master_key=master_key, body=body)
    return _frame(Request(header=_header(Operation.WRITE_LAC, txn), write_lac=request))


def force(txn: int, ledger_id: int) -> bytes:
    """Put the ledger's entries that were added with deferred sync on disk."""
    request = ForceRequest(ledger_id=ledger_id)
    return _frame(Request(header=_header(Operation.FORCE_LEDGER, txn), force=request))


def bookie_info(
    txn: int, fields: InfoField = InfoField.TOTAL_DISK_CAPACITY | InfoField.FREE_DISK_SPACE
) -> bytes:
    """Ask for the size of the bookie's disks."""
    request = InfoRequest(fields=fields)
    return _frame(Request(header=_header(Operation.GET_BOOKIE_INFO, txn), info=request))


def list_entries(txn: int, ledger_id: int) -> bytes:
    """Ask which entries of the ledger the bookie has."""
    request = ListRequest(ledger_id=ledger_id)
    return _frame(Request(header=_header(Operation.GET_LIST_OF_ENTRIES, txn), list=request))


def auth(txn: int, plugin: str, payload: bytes) -> bytes:
    """A step of the authentication; must come before anything but START_TLS where bookies ask for it."""
    request = AuthMessage(plugin=plugin, payload=payload)
    return _frame(Request(header=_header(Operation.AUTH, txn), auth=request))


def start_tls(txn: int) -> bytes:
    """Ask to go on in TLS; nothing may follow before the reply."""
    return _frame(Request(header=_header(Operation.START_TLS, txn), start_tls=StartTlsRequest()))
