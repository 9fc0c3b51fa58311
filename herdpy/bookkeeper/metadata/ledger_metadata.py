"""What is known of one ledger: quorums, ensembles, state, digest; and the bytes of its znode.

Pure. Writers, readers and recoverers take a ``LedgerMetadata``, make another from it (``closed``,
``in_recovery``, ``with_segment``) and hand that to ``LedgerStore.write`` with the version they read.
Instances are immutable and valid: a value that could not be a ledger raises ``MetadataError`` when it is
made. Written is format 3; read are 3, 2 and 1. Whatever the bytes are, the answer is metadata or
``MetadataError``, never another exception: znodes are written by strangers.

Format: BookKeeper's proto/DataFormats.proto, client/LedgerMetadataImpl.java, meta/LedgerMetadataSerDe.java. A
header line "BookieMetadataFormatVersion <version>", then in format 3 a varint length and a
LedgerMetadataFormat message, in format 2 the message as protobuf text, in format 1 lines: write quorum,
ensemble size, length, one line for each segment (first entry and bookies, separated by tabs), and when it is
not open "<last entry>        CLOSED"; the last entry -102 means in recovery.
"""

from __future__ import annotations

import bisect
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.wire.proto.data_formats_pb2 import LedgerMetadataFormat

NO_ENTRY = -1
"""The entry id before the first one: the last entry of an empty ledger."""

FORMAT_VERSION = 3
"""The format version that is written (binary protobuf, BookKeeper 4.9 and later)."""

_MAX_INT64 = 2**63 - 1
# The alphabet of a bookie id: net/BookieId.java (its range from ":" to "_" included).
_BOOKIE_ID = re.compile(r"[0-9A-Za-z:-_.\-]{1,255}")


class LedgerState(enum.Enum):
    """Where a ledger is in its life; the values are those of the stored format."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """The bookies that hold the entries from ``first_entry_id`` up to the next segment's first entry."""

    first_entry_id: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class LedgerMetadata:
    """One version of a ledger's metadata.

    Attributes:
        ensemble_size: bookies in each segment (E).
        write_quorum: bookies that get each entry (W).
        ack_quorum: bookies that must have it before it is confirmed (A); E >= W >= A >= 1.
        segments: ensembles by first entry id, ascending, the first one at entry 0.
        state: open, in recovery, or closed.
        digest: how entries are protected.
        password: the ledger's password in clear, never shown.
        custom_metadata: the application's own pairs.
        last_entry_id: the last entry of a closed ledger, -1 when it is empty or not closed.
        length_bytes: data bytes in a closed ledger, 0 while it is not closed.
        ctime_ms: creation time, milliseconds since 1970; None when unknown.
        c_token: the random number by which a creator knows its own znode; None when there is none.
        format_version: the format it was read from (1 to 3); version 3 is what is written.
        has_password: False for ledgers of BookKeeper 4.1 and before, which stored neither digest type nor
            password: whoever opens one has to bring both (``digest`` then says CRC32).
        stores_ctime: False when ``ctime_ms`` came from the znode and is not part of the stored value.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    digest: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict)
    last_entry_id: int = NO_ENTRY
    length_bytes: int = 0
    ctime_ms: int | None = None
    c_token: int | None = None
    format_version: int = FORMAT_VERSION
    has_password: bool = True
    stores_ctime: bool = True

    def __post_init__(self) -> None:
        # A private copy: the mapping handed in may change later.
        object.__setattr__(self, "custom_metadata", MappingProxyType(dict(self.custom_metadata)))
        self._check_quorums()
        self._check_segments()
        self._check_end()

    def _check_quorums(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size:
            raise MetadataError(
                "quorums must satisfy ensemble >= write quorum >= ack quorum >= 1, not "
                f"{self.ensemble_size}, {self.write_quorum}, {self.ack_quorum}"
            )

    def _check_segments(self) -> None:
        if not self.segments:
            raise MetadataError("a ledger has at least one segment")
        if self.segments[0].first_entry_id != 0:
            raise MetadataError(f"the first segment starts at entry {self.segments[0].first_entry_id}, not 0")
        before = NO_ENTRY
        for segment in self.segments:
            if not before < segment.first_entry_id <= _MAX_INT64:
                raise MetadataError(f"segment at entry {segment.first_entry_id} follows one at {before}")
            before = segment.first_entry_id
            if len(segment.members) != self.ensemble_size:
                raise MetadataError(
                    f"the segment at entry {before} has {len(segment.members)} bookies, "
                    f"the ensemble size is {self.ensemble_size}"
                )
            for member in segment.members:
                if not is_bookie_id(member):
                    raise MetadataError(f"{member[:80]!r} is not a bookie id")

    def _check_end(self) -> None:
        if self.state is LedgerState.CLOSED:
            if not (NO_ENTRY <= self.last_entry_id <= _MAX_INT64 and 0 <= self.length_bytes <= _MAX_INT64):
                raise MetadataError(
                    f"closed at entry {self.last_entry_id} with {self.length_bytes} bytes: out of range"
                )
        elif self.last_entry_id != NO_ENTRY or self.length_bytes != 0:
            raise MetadataError("only a closed ledger has a last entry and a length")

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is fixed."""
        return self.state is LedgerState.CLOSED

    @property
    def last_segment(self) -> Segment:
        """The segment that new entries go to."""
        return self.segments[-1]

    def ensemble_at(self, entry_id: int) -> Segment:
        """The segment that holds an entry; the last one for entries not yet written.

        Raises:
            ValueError: for a negative entry id.
        """
        if entry_id < 0:
            raise ValueError(f"no entry has the id {entry_id}")
        found = bisect.bisect_right(self.segments, entry_id, key=lambda segment: segment.first_entry_id)
        return self.segments[found - 1]

    def closed(self, last_entry_id: int, length_bytes: int) -> LedgerMetadata:
        """This ledger, closed at its last entry (-1: empty) with its data bytes."""
        return replace(self, state=LedgerState.CLOSED, last_entry_id=last_entry_id, length_bytes=length_bytes)

    def in_recovery(self) -> LedgerMetadata:
        """This ledger with a recovery under way.

        Raises:
            MetadataError: when it is closed: a closed ledger never opens again.
        """
        if self.is_closed:
            raise MetadataError("a closed ledger cannot go into recovery")
        return replace(self, state=LedgerState.IN_RECOVERY)

    def with_segment(self, first_entry_id: int, members: Sequence[str]) -> LedgerMetadata:
        """This ledger with another ensemble from an entry on; replaces the last one when it starts there.

        Raises:
            MetadataError: when it starts before the last segment, or has not ensemble_size bookies.
        """
        kept = self.segments[:-1] if self.last_segment.first_entry_id == first_entry_id else self.segments
        return replace(self, segments=(*kept, Segment(first_entry_id, tuple(members))))


def is_bookie_id(text: str) -> bool:
    """Whether BookKeeper takes this as a bookie's id: its alphabet, at most 255 long, not "readonly"."""
    return _BOOKIE_ID.fullmatch(text) is not None and text.lower() != "readonly"


@dataclass(frozen=True, slots=True)
class Versioned:
    """Metadata and the version of the znode it is in, for the next compare-and-set."""

    metadata: LedgerMetadata
    version: int


# The bytes of a znode.

MAX_METADATA_BYTES = 16 * 1024 * 1024
"""More than this is not parsed (ZooKeeper's own limit is 1 MiB unless it was raised)."""

_HEADER = b"BookieMetadataFormatVersion\t"
_VERSION_DIGITS = 10
_MAX_VARINT_BYTES = 5
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_CLOSED_TAG = "CLOSED"
_IN_RECOVERY_ENTRY = -102
_MAX_INT32 = 2**31 - 1


def encode_metadata(metadata: LedgerMetadata) -> bytes:
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


def decode_metadata(data: bytes, ctime_ms: int | None = None) -> LedgerMetadata:
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
