"""Declarative partitions as the catalog has them: how rows are spread, and which rows a partition takes.

Values only, as ``foreign_keys``; ``partition_map`` finds the partition of a row. A partitioned table has a
:class:`PartitionKey` and no rows; each partition is a table of its own with a :class:`PartitionBound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy.codec.rows import RowCodec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herdpy.codec.kinds import Datum, Field

RANGE, LIST, HASH = "range", "list", "hash"
MINVALUE, MAXVALUE = -1, 1


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """What the rows of a partitioned table are spread by.

    Attributes:
        strategy: RANGE, LIST or HASH.
        positions: of the columns, in the order written.
    """

    strategy: str
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoundLimit:
    """One column's end of a range; ``side``: MINVALUE, MAXVALUE, or 0 for ``value``."""

    value: Datum = None
    side: int = 0


@dataclass(frozen=True, slots=True)
class PartitionBound:
    """Which rows of its parent a partition takes.

    Attributes:
        parent: the id of the partitioned table.
        key: the partitioned table's, whose columns stand at the same positions here.
        low, high: of RANGE: from (inclusive) and to (exclusive), a limit for each column of the key.
        values: of LIST, NULL among them.
        modulus, remainder: of HASH.
        is_default: it takes what no other partition does.
    """

    parent: int
    key: PartitionKey
    low: tuple[BoundLimit, ...] = ()
    high: tuple[BoundLimit, ...] = ()
    values: tuple[Datum, ...] = ()
    modulus: int = 0
    remainder: int = 0
    is_default: bool = False


def encode_key(key: PartitionKey) -> dict[str, object]:
    """As JSON."""
    return {"strategy": key.strategy, "positions": list(key.positions)}


def decode_key(raw: Mapping[str, Any]) -> PartitionKey:
    """The inverse of :func:`encode_key`."""
    return PartitionKey(raw["strategy"], tuple(raw["positions"]))


def encode_bound(bound: PartitionBound, row: Sequence[Field]) -> dict[str, object]:
    """As JSON; what is as it is by default is left out.

    Args:
        row: the fields of the partition's row images.
    """
    fields = [row[position] for position in bound.key.positions]
    raw: dict[str, object] = {"parent": bound.parent, "key": encode_key(bound.key)}
    for name, limits in (("low", bound.low), ("high", bound.high)):
        if limits:
            raw[name] = [
                one.side or _encode_value(one.value, field) for one, field in zip(limits, fields, strict=True)
            ]
    if bound.values:
        raw["values"] = [_encode_value(one, fields[0]) for one in bound.values]
    if bound.modulus:
        raw["hash"] = [bound.modulus, bound.remainder]
    if bound.is_default:
        raw["default"] = True
    return raw


def decode_bound(raw: Mapping[str, Any], row: Sequence[Field]) -> PartitionBound:
    """The inverse of :func:`encode_bound`."""
    key = decode_key(raw["key"])
    fields = [row[position] for position in key.positions]

    def limits(name: str) -> tuple[BoundLimit, ...]:
        given = raw.get(name, ())
        return tuple(
            BoundLimit(side=one) if isinstance(one, int) else BoundLimit(_decode_value(one, field))
            for one, field in zip(given, fields, strict=bool(given))
        )

    modulus, remainder = raw.get("hash", (0, 0))
    return PartitionBound(
        raw["parent"],
        key,
        limits("low"),
        limits("high"),
        tuple(_decode_value(one, fields[0]) for one in raw.get("values", ())),
        modulus,
        remainder,
        is_default=raw.get("default", False),
    )


def _encode_value(value: Datum, field: Field) -> str:
    return RowCodec([field]).encode([value]).hex()


def _decode_value(text: str, field: Field) -> Datum:
    return RowCodec([field]).decode(bytes.fromhex(text))[0]
