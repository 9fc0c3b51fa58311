"""What is known of one ledger: quorums, ensembles, state, digest; the value of its znode, decoded.

The layer above bytes (``serde``) and below every change of a ledger: writers, readers and recoverers take a
``LedgerMetadata``, make another from it (``closed``, ``in_recovery``, ``with_segment``) and hand that to
``LedgerStore.write`` with the version they read. Instances are immutable and valid: a value that could not be
a ledger raises ``MetadataError`` when it is made, so nothing behind the decoder checks again.

Meaning of the fields: BookKeeper's proto/DataFormats.proto and client/LedgerMetadataImpl.java.
"""

from __future__ import annotations

import bisect
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import MetadataError

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
