"""Where a cluster's metadata is in ZooKeeper, and what each znode holds.

The lowest layer of the package but for its errors: paths, structs, JSON. Everything above reads and writes
these structs. Unknown fields are passed over, so that a newer version may add some; a ``format`` that is not
known is refused. Times named ``_us`` are microseconds since 1970 by the writer's clock.
"""

from __future__ import annotations

import functools
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Struct

from herdpy.log.lsn import LSN, START
from herdpy_server.cluster.errors import MalformedMetadataError

FORMAT = 1
"""Of every record but a tablespace's, whose format is the cluster's level."""


class Record(Struct, frozen=True, kw_only=True):
    """What every znode's JSON has."""

    NEWEST: ClassVar[int] = FORMAT

    format: int = FORMAT


class Address(Struct, frozen=True):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class NodeRecord(Record, frozen=True, kw_only=True):
    """A node that is there; ``instance`` is new with each start.

    Attributes:
        level: the newest one that it knows (``herdpy.formats``); version 0.1 does not say.
    """

    node: str
    instance: str
    sql: Address | None = None
    grpc: Address | None = None
    http: Address | None = None
    version: str = ""
    started_us: int = 0
    session_timeout_s: float = 0.0
    level: int = 1


class LevelRecord(Record, frozen=True, kw_only=True):
    """The level of the cluster: what its servers may write (``herdpy.formats``).

    Attributes:
        raised_us: when it was raised to that; ``node``: by whom.
    """

    level: int
    node: str = ""
    raised_us: int = 0


class LeaderRecord(Record, frozen=True, kw_only=True):
    """Who won the election; ``tag`` is unlike that of every other znode of this path, before and after."""

    node: str
    epoch: int
    tag: str
    sql: Address | None = None
    grpc: Address | None = None
    position: LSN = START


class TermRecord(Record, frozen=True, kw_only=True):
    """The newest term. ``tag`` is that of its ``leader`` znode.

    Attributes:
        lease_s: the longest lease that this leader, or one before it that has not been waited out, can hold.
        released: nobody holds a lease any more: it was given back.
        instance: of the leader's process (``NodeRecord``); empty: version 0.1 does not say.
        alone: nobody but that process can hold a lease: of this term or of one before it.
    """

    epoch: int
    node: str
    tag: str
    lease_s: float
    released: bool = False
    instance: str = ""
    alone: bool = False


class EndedRecord(Record, frozen=True, kw_only=True):
    """An attestation: the process ``instance`` of this node has ended, and will never do anything again.

    Written only by those that know it from the kernel: the process's supervisor, and a later process of the
    node, which holds the lock of the same data directory. One a node: the newest takes the place of the last.
    """

    node: str
    instance: str


class ReplicaRecord(Record, frozen=True, kw_only=True):
    """What a replica says of itself while it is there.

    Attributes:
        problem: what an operator should see to; empty: nothing.
        unfit: why it should not lead although it follows; empty: it may.
    """

    node: str
    instance: str
    state: str
    applied: LSN = START
    durable: LSN = START
    lag_entries: int = 0
    problem: str = ""
    unfit: str = ""
    updated_us: int = 0


class PositionRecord(Record, frozen=True, kw_only=True):
    """What trimming must keep for a replica that may be away; ``seen_us``: when it was there last.

    Attributes:
        kept: why it is evidence, which nothing but an operator replaces; empty: it is not. What is evidence
            does not go on with the log, so nothing of the log is kept for it.
        floor: the log's entries after it are needed, for what the replica keeps of the past; None: those
            after ``durable``.
    """

    durable: LSN
    seen_us: int
    kept: str = ""
    floor: LSN | None = None


class ReaderRecord(Record, frozen=True, kw_only=True):
    """A leased reader: entries after ``lsn`` are kept for it until ``expires_us``.

    Attributes:
        entries: False: it needs the published snapshot at ``lsn`` alone.
    """

    lsn: LSN
    expires_us: int
    purpose: str
    entries: bool = True


class SnapshotRecord(Struct, frozen=True):
    """A published snapshot: its position, and a moment that nothing in it is later than."""

    lsn: LSN
    time_us: int


class PublishedRecord(Record, frozen=True, kw_only=True):
    """The newest published snapshot, and those that stay beside it.

    Attributes:
        url: where they are.
        created_us: when it was published; ``node``: by whom.
        floor: entries after it are kept, as far as is known to be wanted then.
        snapshots: all that readers may begin from, newest first; this one too.
    """

    lsn: LSN
    url: str
    time_us: int
    created_us: int = 0
    node: str = ""
    floor: LSN = START
    snapshots: tuple[SnapshotRecord, ...] = ()


class PublishingRecord(Record, frozen=True, kw_only=True):
    """Which node is publishing, or makes a backup; ``tag`` is unlike that of every other."""

    node: str
    tag: str


class DroppedRecord(Record, frozen=True, kw_only=True):
    """A tablespace that was dropped, by its uuid: nodes that were away learn of it when they are back."""

    name: str
    dropped_us: int


class KeepRecord(Record, frozen=True, kw_only=True):
    """An operator's word: what the replica on ``node`` has is the truth, and the log goes on after it.

    Attributes:
        tag: unlike that of every other.
        accept_loss: also when the log has, or may have had, more.
        refusal: why the node could not do so; it waits for another word then.
    """

    node: str
    tag: str
    accept_loss: bool = False
    refusal: str = ""


class TrimRecord(Record, frozen=True, kw_only=True):
    """Up to where the log has been, or is about to be, trimmed."""

    before: LSN


class Layout:
    """The paths under a cluster's root."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.nodes = f"{self.root}/nodes"
        self.beats = f"{self.root}/beats"
        self.tablespaces = f"{self.root}/tablespaces"
        self.ended = f"{self.root}/ended"
        self.dropped = f"{self.root}/dropped"
        self.secret = f"{self.root}/secret"
        self.level = f"{self.root}/level"

    def node(self, node: str) -> str:
        """Of a node's registration."""
        return f"{self.nodes}/{node}"

    def ended_of(self, node: str) -> str:
        """Of the attestation that a process of this node has ended."""
        return f"{self.ended}/{node}"

    def tablespace(self, name: str) -> TablespacePaths:
        """Those of a tablespace."""
        return TablespacePaths(f"{self.tablespaces}/{name}")


class TablespacePaths:
    """The paths under a tablespace's znode; ``ledgers`` belongs to the log."""

    def __init__(self, info: str) -> None:
        self.info = info
        self.ledgers = f"{info}/ledgers"
        self.leader = f"{info}/leader"
        self.term = f"{info}/term"
        self.trim = f"{info}/trim"
        self.keep = f"{info}/keep"
        self.replicas = f"{info}/replicas"
        self.positions = f"{info}/positions"
        self.readers = f"{info}/readers"
        self.published = f"{info}/published"
        self.publishing = f"{info}/publishing"
        self.backing_up = f"{info}/backing_up"


R = TypeVar("R", bound=Record)


@functools.cache
def _decoder(kind: type[R]) -> msgspec.json.Decoder[R]:
    return msgspec.json.Decoder(kind)


def encode(record: Record) -> bytes:
    """A znode's data."""
    return msgspec.json.encode(record)


def decode(kind: type[R], path: str, data: bytes) -> R:
    """The record in a znode. Raises MalformedMetadataError."""
    try:
        typed: R = _decoder(kind).decode(data)
    except msgspec.DecodeError as error:
        raise MalformedMetadataError(path, str(error)) from None
    if not FORMAT <= typed.format <= kind.NEWEST:
        raise MalformedMetadataError(path, f"it has format {typed.format}, this version knows {kind.NEWEST}")
    return typed
