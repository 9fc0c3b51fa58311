"""What a job is: its name and help, its arguments, and what it does with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class JobRun:
    """One run of a job.

    Attributes:
        arguments: as the job's parser gave them.
        report: what the report will say; the job adds to it as it learns.
        tell: shows a line of progress.
    """

    arguments: argparse.Namespace
    report: dict[str, Any]
    tell: Callable[[str], None]
    session: Callable[[], SparkSession]
    _spark: SparkSession | None = field(default=None, repr=False)

    @property
    def spark(self) -> SparkSession:
        """The session; made when it is first needed."""
        if self._spark is None:
            self._spark = self.session()
        return self._spark

    @property
    def dry(self) -> bool:
        """Whether only to say what would be done."""
        return bool(self.arguments.dry_run)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A program.

    Attributes:
        name: as the command line has it.
        says: what it does; the first paragraph is its summary.
        examples: command lines, without what starts them.
        add_arguments: adds its own arguments to the parser.
        run: does it. JobError and other exceptions end it.
    """

    name: str
    says: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[JobRun], None]
