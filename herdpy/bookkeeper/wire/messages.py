"""What a client asks and what bookies answer, every operation, through protobuf.

Down from a bookie's handle: each request is a function that returns a whole frame, length prefix included; it
raises ValueError for numbers that do not fit their fields; ``txn`` is unique on its connection. Up from
``frames``: a frame becomes a ``Reply`` that carries the dataclass of its operation; whatever a stranger
sends, the only error is ProtocolError. ``entries`` makes and parses what comes most often, and leaves the
rest here.

Format: Request and Response of proto/protocol.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError

from herdpy.bookkeeper.digest import LAC_HEADER_BYTES
from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.availability import NO_ENTRIES, EntryRanges
from herdpy.bookkeeper.wire.proto.protocol_pb2 import (
    AuthMessage,
    ForceRequest,
    Header,
    InfoRequest,
    ListRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    Response,
    StartTlsRequest,
    WriteLacRequest,
)
from herdpy.bookkeeper.wire.protocol import (
    LAST_ENTRY,
    PROTOCOL_VERSION,
    InfoField,
    Operation,
    ReadFlag,
    ReplyStatus,
    frame,
)


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


# Replies.


@dataclass(slots=True)
class AddReply:
    """An entry was taken, or why not."""

    status: int
    ledger_id: int
    entry_id: int


@dataclass(slots=True)
class ReadReply:
    """An entry, still sealed (``Digest.open`` opens ``body``), or why not.

    ``body`` is None when a long poll ended without an entry. ``max_lac``: the highest last add confirmed this
    bookie knows, None in replies to fencing reads. ``lac_updated_ms``: when it learnt it, ms since 1970.
    """

    status: int
    ledger_id: int
    entry_id: int
    body: bytes | None = field(default=None, repr=False)
    max_lac: int | None = None
    lac_updated_ms: int | None = None


@dataclass(slots=True)
class LacReply:
    """What the bookie knows of the last add confirmed: the highest of both bodies counts.

    ``lac_body``: the explicit one (``Digest.open_lac``); ``last_entry_body``: the last entry stored
    (``Digest.open``); either may be None.
    """

    status: int
    ledger_id: int
    lac_body: bytes | None = None
    last_entry_body: bytes | None = field(default=None, repr=False)


@dataclass(slots=True)
class WriteLacReply:
    """An explicit last add confirmed was taken, or why not."""

    status: int
    ledger_id: int


@dataclass(slots=True)
class ForceReply:
    """The ledger's entries are on disk, or why not."""

    status: int
    ledger_id: int


@dataclass(slots=True)
class InfoReply:
    """The bookie's disks; None for what was not asked."""

    status: int
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(slots=True)
class ListReply:
    """Which entries of the ledger the bookie has, ascending."""

    status: int
    ledger_id: int
    entry_ids: EntryRanges = NO_ENTRIES


@dataclass(slots=True)
class AuthReply:
    """A step of the authentication; ``payload`` may be a secret and is not shown."""

    plugin: str
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class StartTlsReply:
    """TLS may start on this connection."""


ReplyBody = (
    AddReply
    | ReadReply
    | LacReply
    | WriteLacReply
    | ForceReply
    | InfoReply
    | ListReply
    | AuthReply
    | StartTlsReply
)


@dataclass(slots=True)
class Reply:
    """One answer of a bookie.

    ``txn`` is that of the request. ``operation`` and ``status`` are Operation and Status numbers, kept as
    ints when unknown; ``status`` is the inner one when the outer one is EOK. ``body`` is None when the bookie
    answered with a status alone, as it does to what it does not understand.
    """

    txn: int
    operation: int
    status: int
    body: ReplyBody | None = None


def text(value: str | bytes) -> str:
    """A protobuf string, which the C implementation gives as bytes when it is not UTF-8.

    Raises ProtocolError then.
    """
    if isinstance(value, bytes):
        raise ProtocolError("a text that is not UTF-8")
    return value


def _read(message: Response) -> ReadReply:
    read = message.read
    return ReadReply(
        read.status,
        read.ledger_id,
        read.entry_id,
        read.body if read.HasField("body") else None,
        read.max_lac if read.HasField("max_lac") else None,
        read.lac_update_timestamp if read.HasField("lac_update_timestamp") else None,
    )


def _add(message: Response) -> AddReply:
    add = message.add
    return AddReply(add.status, add.ledger_id, add.entry_id)


def _auth(message: Response) -> AuthReply:
    auth: Any = message.auth  # its plugin may be bytes, which compiled code refuses of a str
    return AuthReply(text(auth.plugin), auth.payload)


def _write_lac(message: Response) -> WriteLacReply:
    return WriteLacReply(message.write_lac.status, message.write_lac.ledger_id)


def _read_lac(message: Response) -> LacReply:
    lac = message.read_lac
    return LacReply(
        lac.status,
        lac.ledger_id,
        lac.lac_body if lac.HasField("lac_body") else None,
        lac.last_entry_body if lac.HasField("last_entry_body") else None,
    )


def _info(message: Response) -> InfoReply:
    info = message.info
    return InfoReply(
        info.status,
        info.total_bytes if info.HasField("total_bytes") else None,
        info.free_bytes if info.HasField("free_bytes") else None,
    )


def _start_tls(_message: Response) -> StartTlsReply:
    return StartTlsReply()


def _force(message: Response) -> ForceReply:
    return ForceReply(message.force.status, message.force.ledger_id)


def _list(message: Response) -> ListReply:
    found = message.list
    entries = EntryRanges.decode(found.entries) if found.HasField("entries") else NO_ENTRIES
    return ListReply(found.status, found.ledger_id, entries)


_EOK: Final = int(ReplyStatus.EOK)

_Field = tuple[str, Callable[[Response], ReplyBody]]
# The field in which each operation's answer is, and what reads it.
_FIELDS: Final[dict[int, _Field]] = {
    Operation.READ_ENTRY: ("read", _read),
    Operation.ADD_ENTRY: ("add", _add),
    Operation.AUTH: ("auth", _auth),
    Operation.WRITE_LAC: ("write_lac", _write_lac),
    Operation.READ_LAC: ("read_lac", _read_lac),
    Operation.GET_BOOKIE_INFO: ("info", _info),
    Operation.START_TLS: ("start_tls", _start_tls),
    Operation.FORCE_LEDGER: ("force", _force),
    Operation.GET_LIST_OF_ENTRIES: ("list", _list),
}


def parse_reply(frame: bytes) -> Reply:
    """The reply in a frame (without its length prefix).

    Raises ProtocolError when it is not one: garbled, a required field missing, another protocol version, or
    EOK without what the operation has to return.
    """
    message = Response()
    try:
        message.ParseFromString(frame)
        if not message.IsInitialized():
            raise ProtocolError("a reply without a field it must have")
        return _reply(message)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a frame of {len(frame)} bytes that is no reply") from error


def _reply(message: Response) -> Reply:
    header = message.header
    if header.version != PROTOCOL_VERSION:
        raise ProtocolError(f"a reply of protocol version {header.version}")
    status = message.status
    found = _FIELDS.get(header.operation)
    if found is None or not message.HasField(found[0]):  # type: ignore[arg-type]  # a name of _FIELDS
        if status == _EOK and header.operation == Operation.START_TLS:
            return Reply(header.txn, header.operation, status, StartTlsReply())  # nothing could be in it
        if status == _EOK:
            raise ProtocolError(f"a reply without a body to operation {header.operation}")
        return Reply(header.txn, header.operation, status)
    body = found[1](message)
    if status == _EOK and not isinstance(body, AuthReply | StartTlsReply):
        status = body.status
    return Reply(header.txn, header.operation, status, body)
