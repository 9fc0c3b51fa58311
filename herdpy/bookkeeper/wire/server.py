"""The bookie's half of the conversation: requests parsed, replies encoded. Model bookies are made of it.

The mirror of ``requests`` and ``replies``; nothing in the client uses it. A frame becomes the dataclass of
its operation, a ``Reply`` becomes a frame. Whatever a stranger sends, the only error is ProtocolError.

Format: Request and Response of proto/protocol.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.messages import (
    AddReply,
    AuthReply,
    ForceReply,
    InfoReply,
    LacReply,
    ListReply,
    ReadReply,
    Reply,
    ReplyBody,
    StartTlsReply,
    WriteLacReply,
    text,
)
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import PROTOCOL_VERSION, AddFlag, Operation, ReadFlag, frame


@dataclass(slots=True)
class AddRequest:
    """Store an entry. ``recovery``: even if the ledger is fenced; ``write_flags``: status.WriteFlag bits."""

    txn: int
    ledger_id: int
    entry_id: int
    master_key: bytes = field(repr=False)
    body: bytes = field(repr=False)
    recovery: bool = False
    write_flags: int = 0
    priority: int = 0


@dataclass(slots=True)
class ReadRequest:
    """Return an entry (-1: the last one).

    ``fence``: fence the ledger first; the master key is the client's proof, or None. ``piggyback``: wait at
    most ``timeout_ms`` until the last add confirmed passes ``previous_lac``; both may be None.
    """

    txn: int
    ledger_id: int
    entry_id: int
    master_key: bytes | None = field(default=None, repr=False)
    fence: bool = False
    piggyback: bool = False
    previous_lac: int | None = None
    timeout_ms: int | None = None
    priority: int = 0


@dataclass(slots=True)
class WriteLacRequest:
    """Keep ``body`` as the explicit last add confirmed, whose number is ``lac``."""

    txn: int
    ledger_id: int
    lac: int
    master_key: bytes = field(repr=False)
    body: bytes


@dataclass(slots=True)
class ReadLacRequest:
    """Return the explicit last add confirmed and the last entry."""

    txn: int
    ledger_id: int


@dataclass(slots=True)
class ForceRequest:
    """Put the ledger's entries on disk."""

    txn: int
    ledger_id: int


@dataclass(slots=True)
class InfoRequest:
    """Return the size of the disks; ``fields`` are status.InfoField bits."""

    txn: int
    fields: int = 0


@dataclass(slots=True)
class ListRequest:
    """Return which entries of the ledger are here."""

    txn: int
    ledger_id: int


@dataclass(slots=True)
class AuthRequest:
    """A step of the authentication; ``payload`` may be a secret and is not shown."""

    txn: int
    plugin: str
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class StartTlsRequest:
    """Start TLS after the reply."""

    txn: int


@dataclass(slots=True)
class UnknownRequest:
    """An operation this module does not know, or one without its body: a bookie answers EBADREQ."""

    txn: int
    operation: int


AnyRequest = (
    AddRequest
    | ReadRequest
    | WriteLacRequest
    | ReadLacRequest
    | ForceRequest
    | InfoRequest
    | ListRequest
    | AuthRequest
    | StartTlsRequest
    | UnknownRequest
)


def parse_request(frame: bytes) -> AnyRequest:
    """The request in a frame (without its length prefix).

    Raises ProtocolError when it is not one: garbled, a required field missing, another protocol version.
    """
    message = pb.Request()
    try:
        message.ParseFromString(frame)
        if not message.IsInitialized():
            raise ProtocolError("a request without a field it must have")
        if message.header.version != PROTOCOL_VERSION:
            raise ProtocolError(f"a request of protocol version {message.header.version}")
        return _request(message)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a frame of {len(frame)} bytes that is no request") from error


def _request(message: pb.Request) -> AnyRequest:
    txn = message.header.txn
    priority = message.header.priority
    operation = message.header.operation
    if operation == Operation.ADD_ENTRY and message.HasField("add"):
        add = message.add
        recovery = add.flag == AddFlag.RECOVERY_ADD
        return AddRequest(
            txn, add.ledger_id, add.entry_id, add.master_key, add.body, recovery, add.write_flags, priority
        )
    if operation == Operation.READ_ENTRY and message.HasField("read"):
        return _read(txn, message.read, priority)
    if operation == Operation.WRITE_LAC and message.HasField("write_lac"):
        write = message.write_lac
        return WriteLacRequest(txn, write.ledger_id, write.lac, write.master_key, write.body)
    if operation == Operation.READ_LAC and message.HasField("read_lac"):
        return ReadLacRequest(txn, message.read_lac.ledger_id)
    if operation == Operation.FORCE_LEDGER and message.HasField("force"):
        return ForceRequest(txn, message.force.ledger_id)
    if operation == Operation.GET_BOOKIE_INFO and message.HasField("info"):
        return InfoRequest(txn, message.info.fields)
    if operation == Operation.GET_LIST_OF_ENTRIES and message.HasField("list"):
        return ListRequest(txn, message.list.ledger_id)
    if operation == Operation.AUTH and message.HasField("auth"):
        return AuthRequest(txn, text(message.auth.plugin), message.auth.payload)
    if operation == Operation.START_TLS:
        return StartTlsRequest(txn)
    return UnknownRequest(txn, operation)


def _read(txn: int, read: pb.ReadRequest, priority: int) -> ReadRequest:
    return ReadRequest(
        txn,
        read.ledger_id,
        read.entry_id,
        read.master_key if read.HasField("master_key") else None,
        read.flag == ReadFlag.FENCE_LEDGER,
        read.flag == ReadFlag.ENTRY_PIGGYBACK,
        read.previous_lac if read.HasField("previous_lac") else None,
        read.timeout_ms if read.HasField("timeout_ms") else None,
        priority,
    )


def encode_reply(reply: Reply) -> bytes:
    """The whole frame of a reply, length prefix included.

    ``reply.status`` becomes the outer status, that of the body the inner one; bookies send the same in both.
    Raises ValueError for numbers that do not fit their fields.
    """
    header = pb.Header(version=PROTOCOL_VERSION, operation=reply.operation, txn=reply.txn)
    message = pb.Response(header=header, status=reply.status)
    _put_body(message, reply.body)
    return frame(message.SerializeToString())


def _put_body(message: pb.Response, body: ReplyBody | None) -> None:
    match body:
        case AddReply(status, ledger_id, entry_id):
            message.add.MergeFrom(pb.AddResponse(status=status, ledger_id=ledger_id, entry_id=entry_id))
        case ReadReply():
            message.read.MergeFrom(
                pb.ReadResponse(
                    status=body.status,
                    ledger_id=body.ledger_id,
                    entry_id=body.entry_id,
                    body=body.body,
                    max_lac=body.max_lac,
                    lac_update_timestamp=body.lac_updated_ms,
                )
            )
        case LacReply(status, ledger_id, lac_body, last_entry_body):
            message.read_lac.MergeFrom(
                pb.ReadLacResponse(
                    status=status, ledger_id=ledger_id, lac_body=lac_body, last_entry_body=last_entry_body
                )
            )
        case WriteLacReply(status, ledger_id):
            message.write_lac.MergeFrom(pb.WriteLacResponse(status=status, ledger_id=ledger_id))
        case ForceReply(status, ledger_id):
            message.force.MergeFrom(pb.ForceResponse(status=status, ledger_id=ledger_id))
        case InfoReply(status, total_bytes, free_bytes):
            message.info.MergeFrom(
                pb.InfoResponse(status=status, total_bytes=total_bytes, free_bytes=free_bytes)
            )
        case ListReply(status, ledger_id, entry_ids):
            message.list.MergeFrom(
                pb.ListResponse(status=status, ledger_id=ledger_id, entries=entry_ids.encode())
            )
        case AuthReply(plugin, payload):
            message.auth.MergeFrom(pb.AuthMessage(plugin=plugin, payload=payload))
        case StartTlsReply():
            message.start_tls.SetInParent()
        case None:
            pass
