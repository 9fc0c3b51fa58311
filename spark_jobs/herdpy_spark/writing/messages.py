"""What tasks tell the driver, and where staged rows are. Pickled between processes; nothing else here."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.datasource import WriterCommitMessage

from herdpy.log.load_records import StagedPart


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Rows in a file that a server keeps, or in one of a database's directory.

    Attributes:
        id: the server's name for it, or its path.
        size_bytes, crc, rows: as of ``StagedPart``.
    """

    id: str
    size_bytes: int
    crc: int
    rows: int


Staged: TypeAlias = StagedPart | StagedFile


@dataclass
class TaskRows(WriterCommitMessage):
    """What one attempt at a partition has staged.

    Attributes:
        partition: its number, which is the order in which rows count.
        task_attempt: which attempt of all the job's: unlike an attempt's number it is never used again.
        parts: where its rows are, in order; none where it has no rows, or the load was published before.
    """

    partition: int
    task_attempt: int
    parts: tuple[Staged, ...] = ()


def staged_in_order(messages: list[TaskRows]) -> list[TaskRows]:
    """What counts, in the order of partitions.

    Raises:
        ValueError: a partition has two winners. Its rows would be there twice.
    """
    ordered = sorted(messages, key=lambda one: one.partition)
    for one, other in itertools.pairwise(ordered):
        if one.partition == other.partition:
            raise ValueError(
                f"partition {one.partition} has two winners: {one.task_attempt} and {other.task_attempt}"
            )
    return [one for one in ordered if one.parts]
