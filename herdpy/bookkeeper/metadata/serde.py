"""The value of a ledger's znode: bytes to ``LedgerMetadata`` and back.

Pure. Written is format 3; read are 3, 2 and 1, so that old ledgers open. Whatever the bytes are, the answer
is metadata or ``MetadataError``, never another exception: znodes are written by strangers.

Format: BookKeeper's meta/LedgerMetadataSerDe.java. A header line "BookieMetadataFormatVersion\\t<version>",
then in format 3 a varint length and a LedgerMetadataFormat message, in format 2 the message as protobuf text,
in format 1 lines: write quorum, ensemble size, length, one line for each segment (first entry and bookies,
separated by tabs), and when it is not open "<last entry>\\tCLOSED"; the last entry -102 means in recovery.
"""

from __future__ import annotations

import re

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.metadata.ledger_metadata import (
    FORMAT_VERSION,
    NO_ENTRY,
    LedgerMetadata,
    LedgerState,
    Segment,
)
from herdpy.bookkeeper.wire.proto.data_formats_pb2 import LedgerMetadataFormat

MAX_METADATA_BYTES = 16 * 1024 * 1024
"""More than this is not parsed (ZooKeeper's own limit is 1 MiB unless it was raised)."""

_HEADER = b"BookieMetadataFormatVersion\t"
_VERSION_DIGITS = 10
_MAX_VARINT_BYTES = 5
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_CLOSED_TAG = "CLOSED"
_IN_RECOVERY_ENTRY = -102
_MAX_INT32 = 2**31 - 1


def encode(metadata: LedgerMetadata) -> bytes:
    """The bytes to store, in format 3 whatever format the metadata came from.

    Raises:
        MetadataError: a number does not fit the format.
    """
    message = LedgerMetadataFormat()
    try:
        message.quorumSize = metadata.write_quorum
        message.ensembleSize = metadata.ensemble_size
        message.ackQuorumSize = metadata.ack_quorum
        message.length = metadata.length_bytes
        message.lastEntryId = metadata.last_entry_id
        message.state = LedgerMetadataFormat.State.ValueType(metadata.state.value)
        for segment in metadata.segments:
            message.segment.add(firstEntryId=segment.first_entry_id, ensembleMember=segment.members)
        if metadata.has_password:
            message.digestType = LedgerMetadataFormat.DigestType.ValueType(metadata.digest.value)
            message.password = metadata.password
        if metadata.stores_ctime and metadata.ctime_ms is not None:
            message.ctime = metadata.ctime_ms
        for key, value in metadata.custom_metadata.items():
            message.customMetadata.add(key=key, value=value)
        if metadata.c_token is not None:
            message.cToken = metadata.c_token
        body = message.SerializeToString(deterministic=True)
    except (TypeError, ValueError) as wrong:
        raise MetadataError(f"the metadata cannot be stored: {wrong}") from wrong
    return b"%s%d\n%s%s" % (_HEADER, FORMAT_VERSION, _varint(len(body)), body)


def decode(data: bytes, ctime_ms: int | None = None) -> LedgerMetadata:
    """Read a stored value.

    Args:
        data: the znode's data.
        ctime_ms: the znode's creation time, for ledgers that do not store theirs.

    Raises:
        MetadataError: it is garbled, contradicts itself, or has a format version that is not known.
    """
    if len(data) > MAX_METADATA_BYTES:
        raise MetadataError(f"{len(data)} bytes of metadata: at most {MAX_METADATA_BYTES} are read")
    if not data.startswith(_HEADER):
        raise MetadataError(f"ledger metadata does not begin with its format version: {data[:40]!r}")
    line, newline, body = data[len(_HEADER) :].partition(b"\n")
    if not newline or not line.isdigit() or len(line) > _VERSION_DIGITS:
        raise MetadataError(f"ledger metadata has a garbled format version: {line[:40]!r}")
    match int(line):
        case 3:
            return _from_message(_parse_binary(body), 3, ctime_ms)
        case 2:
            return _from_message(_parse_text(body), 2, ctime_ms)
        case 1:
            return _from_lines(body, ctime_ms)
        case version:
            raise MetadataError(f"ledger metadata of format version {version}; known: 1, 2, 3")


def _parse_binary(body: bytes) -> LedgerMetadataFormat:
    size, start = _read_varint(body)
    if len(body) - start != size:
        raise MetadataError(f"ledger metadata says it has {size} bytes, there are {len(body) - start}")
    message = LedgerMetadataFormat()
    try:
        message.ParseFromString(body[start:])
    except DecodeError as garbled:
        raise MetadataError(f"ledger metadata is garbled: {garbled}") from garbled
    return message


def _parse_text(body: bytes) -> LedgerMetadataFormat:
    message = LedgerMetadataFormat()
    try:
        text_format.Parse(body.decode("utf-8"), message)
    except (text_format.ParseError, ValueError, OverflowError) as garbled:
        # The text holds the password: say where it is wrong, not what it says.
        line = getattr(garbled, "GetLine", lambda: None)()
        raise MetadataError(f"ledger metadata (protobuf text) is garbled at line {line}") from None
    return message


def _from_message(message: LedgerMetadataFormat, version: int, ctime_ms: int | None) -> LedgerMetadata:
    if not message.IsInitialized():
        raise MetadataError("ledger metadata lacks a required field, or has a state that is not known")
    has_password = message.HasField("password")
    if has_password and not message.HasField("digestType"):
        raise MetadataError("ledger metadata lacks a known digest type")
    state = LedgerState(message.state)
    closed = state is LedgerState.CLOSED
    stores_ctime = message.HasField("ctime")
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        segments=tuple(
            Segment(one.firstEntryId, tuple(map(_text, one.ensembleMember))) for one in message.segment
        ),
        state=state,
        digest=DigestType(message.digestType) if has_password else DigestType.CRC32,
        password=message.password,
        custom_metadata={_text(pair.key): pair.value for pair in message.customMetadata},
        last_entry_id=message.lastEntryId if closed else NO_ENTRY,
        length_bytes=message.length if closed else 0,
        ctime_ms=message.ctime if stores_ctime else ctime_ms,
        c_token=message.cToken if message.HasField("cToken") else None,
        format_version=version,
        has_password=has_password,
        stores_ctime=stores_ctime,
    )


def _from_lines(body: bytes, ctime_ms: int | None) -> LedgerMetadata:
    try:
        lines = [line.rstrip("\r") for line in body.decode("utf-8").split("\n")]
    except UnicodeDecodeError as garbled:
        raise MetadataError(f"ledger metadata (text) is garbled: {garbled}") from garbled
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < 4:
        raise MetadataError("ledger metadata (text) ends before its first segment")
    write_quorum, ensemble_size, length_bytes = (_integer(line) for line in lines[:3])
    if max(write_quorum, ensemble_size) > _MAX_INT32:
        raise MetadataError(f"ledger metadata (text) has quorums of {write_quorum} of {ensemble_size}")
    state, last_entry_id = LedgerState.OPEN, NO_ENTRY
    segments = []
    for number, line in enumerate(lines[3:], start=4):
        first, *members = line.split("\t")
        if members[:1] == [_CLOSED_TAG]:
            if number != len(lines):
                raise MetadataError(f"ledger metadata (text) goes on after its end in line {number}")
            last_entry_id = _integer(first)
            state = LedgerState.CLOSED
            break
        segments.append(Segment(_integer(first), tuple(members)))
    if last_entry_id == _IN_RECOVERY_ENTRY:
        state, last_entry_id = LedgerState.IN_RECOVERY, NO_ENTRY
    return LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        segments=tuple(segments),
        state=state,
        digest=DigestType.CRC32,
        last_entry_id=last_entry_id,
        length_bytes=length_bytes if state is LedgerState.CLOSED else 0,
        ctime_ms=ctime_ms,
        format_version=1,
        has_password=False,
        stores_ctime=False,
    )


def _text(value: object) -> str:
    """A string of a message. Protobuf hands out bytes where a proto2 string is not UTF-8."""
    if not isinstance(value, str):
        raise MetadataError(f"ledger metadata has {value!r:.80} where text belongs")
    return value


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise MetadataError(f"ledger metadata (text) has {text[:40]!r} where a number belongs")
    return int(text)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """The number at the beginning, and where what follows it starts."""
    number = 0
    for index, byte in enumerate(data[:_MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, index + 1
    raise MetadataError("ledger metadata has a garbled length")
