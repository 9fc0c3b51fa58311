"""The records of what is no table: objects of the catalog, and how far sequences have come.

Beside ``records``, from which all can be had. An object's definition and a sequence's state are opaque here.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from herdpy.log.record_frame import FRAME, at_least, exactly

_U32 = Struct(">I")
_ID = Struct(">BBII")  # frame, id


@dataclass(slots=True)
class PutObject:
    """A schema, sequence, view, type or the like comes to be, or is another; its id is in the definition."""

    definition: bytes
    type: ClassVar[int] = 23

    def encode(self) -> bytes:
        return FRAME.pack(23, 1, len(self.definition)) + self.definition

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> PutObject:
        return PutObject(data[start:end])


@dataclass(slots=True)
class DropObject:
    """Such a thing ceases to be."""

    object_id: int
    type: ClassVar[int] = 24

    def encode(self) -> bytes:
        return _ID.pack(24, 1, 4, self.object_id)

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> DropObject:
        exactly(start, end, 4)
        return DropObject(_U32.unpack_from(data, start)[0])


@dataclass(slots=True)
class SequenceAdvance:
    """A sequence has come this far: what it gives next follows from ``state``."""

    sequence_id: int
    state: bytes
    type: ClassVar[int] = 25

    def encode(self) -> bytes:
        return _ID.pack(25, 1, 4 + len(self.state), self.sequence_id) + self.state

    @staticmethod
    def decode(data: bytes, start: int, end: int) -> SequenceAdvance:
        at_least(start, end, 4)
        return SequenceAdvance(_U32.unpack_from(data, start)[0], data[start + 4 : end])
