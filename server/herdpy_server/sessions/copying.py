"""COPY as a session sees it: where its data goes, and where it comes from.

Beside ``statements``. The formats are ``herdpy_server.copy``'s; here are the table, the transaction and
the count of rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol


class CopySink(Protocol):
    """COPY ... FROM STDIN under way."""

    @property
    def columns(self) -> int:
        """How many columns the data has."""

    @property
    def is_binary(self) -> bool:
        """Whether the data is bytes and not text."""

    async def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere. SqlError as the data or the table refuse them."""

    async def finish(self) -> str:
        """The data is complete: the command tag, once the statement is done as any other."""

    async def fail(self, message: str) -> None:
        """The client gives up: undo all and raise SqlError 57014 with its message."""


class CopySource(Protocol):
    """COPY ... TO STDOUT under way."""

    @property
    def columns(self) -> int:
        """How many columns the data has."""

    @property
    def is_binary(self) -> bool:
        """Whether the data is bytes and not text."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The data; one chunk is one message, of text formats one row or several."""

    async def finish(self) -> str:
        """The command tag, once all chunks were taken and the statement is done."""
