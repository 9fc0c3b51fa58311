"""Changes whose outcome gets known: what ZooKeeper leaves in doubt is looked at, and repeated where needed.

Between ``Znodes``, which never repeats a change, and the modules that make them. A change in doubt may still
be on its way when the connection is back, so that "it is not there" proves nothing; repeating the very same
change does: of two with one version or one path only the first takes effect, and the tag or the data says
whose it was.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from herdpy.bookkeeper.errors import BookKeeperError, Outcome
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    UNANSWERED,
    NodeExistsError,
    NoNodeError,
    Znode,
    Znodes,
    ZnodeVersionError,
    ZooKeeperBackoff,
)

_PAUSE_S = 0.05

Check = Callable[[], bool]


def token() -> str:
    """A name that nobody else has, and nobody had."""
    return secrets.token_hex(8)


class GivenUpError(Exception):
    """What was asked for is no longer wanted, and its outcome unknown."""


async def create_own(
    znodes: Znodes,
    path: str,
    data: bytes,
    is_own: Callable[[bytes], bool],
    *,
    ephemeral: bool = False,
    within: str | None = None,
    wanted: Check = lambda: True,
    patience: ZooKeeperBackoff | None = None,
) -> Znode | None:
    """Make a znode, with its parents; None when it is made, else another's, which stands there instead.

    Args:
        within: a znode above it that must be there and is never made: NoNodeError when it is gone.
        is_own: whether data is what this very call wrote: recognises a create that was in doubt.
        wanted: looked at before each repetition; when False GivenUpError is raised.
        patience: for how long an unanswered create is repeated; None: for as long as it is wanted.
    """
    repeats = _Repeats(patience)
    while True:
        try:
            await _create(znodes, path, data, ephemeral=ephemeral, within=within)
            return None
        except NodeExistsError:
            found = await znodes.exists(path)
            if found is not None:
                return None if is_own(found.data) else found
        except UNANSWERED as error:
            await repeats.pause(error)
        if not wanted():
            raise GivenUpError(path)


async def delete_own(
    znodes: Znodes,
    path: str,
    is_own: Callable[[bytes], bool],
    *,
    wanted: Check = lambda: True,
    patience: ZooKeeperBackoff | None = None,
) -> None:
    """Remove a znode if it is one's own; GivenUpError as above."""
    repeats = _Repeats(patience)
    while True:
        try:
            found = await znodes.exists(path)
            if found is None or not is_own(found.data):
                return
            await znodes.delete(path, found.version)
            return
        except NoNodeError:
            return
        except ZnodeVersionError:
            pass
        except UNANSWERED as error:
            await repeats.pause(error)
        if not wanted():
            raise GivenUpError(path)


async def set_from(
    znodes: Znodes,
    path: str,
    data: bytes,
    version: int,
    *,
    wanted: Check = lambda: True,
    patience: ZooKeeperBackoff | None = None,
) -> int | None:
    """Compare-and-set (version -1: create, without parents); the new version, or None when another was first.

    The data must differ from what anybody else would write: that is how a change in doubt is recognised.
    """
    repeats = _Repeats(patience)
    while True:
        try:
            if version == ANY_VERSION:
                await znodes.create(path, data)
                return 0
            return await znodes.set(path, data, version)
        except (ZnodeVersionError, NodeExistsError):
            found = await znodes.exists(path)
            return found.version if found is not None and found.data == data else None
        except UNANSWERED as error:
            await repeats.pause(error)
        if not wanted():
            raise GivenUpError(path)


async def change(
    znodes: Znodes, path: str, function: Callable[[bytes], bytes], patience: ZooKeeperBackoff | None = None
) -> bytes:
    """Replace data by what ``function`` makes of it, by compare-and-set; the new data.

    The function is applied again whenever another was first, so it must depend on its argument alone, and
    applying it to its own result must change nothing. NoNodeError when there is no such znode.
    """
    repeats = _Repeats(patience)
    while True:
        try:
            found = await znodes.get(path)
            data = function(found.data)
            if data != found.data:
                await znodes.set(path, data, found.version)
            return data
        except ZnodeVersionError:
            continue
        except UNANSWERED as error:
            await repeats.pause(error)


async def put(
    znodes: Znodes, path: str, data: bytes, *, within: str, patience: ZooKeeperBackoff | None = None
) -> None:
    """Make or overwrite a persistent znode that only this process writes; ``within`` as in ``create_own``."""
    repeats = _Repeats(patience)
    while True:
        try:
            await znodes.set(path, data, ANY_VERSION)
            return
        except NoNodeError:
            try:
                await _create(znodes, path, data, within=within)
                return
            except NodeExistsError:
                pass
            except UNANSWERED as error:
                await repeats.pause(error)
        except UNANSWERED as error:
            await repeats.pause(error)


async def _create(
    znodes: Znodes, path: str, data: bytes, *, ephemeral: bool = False, within: str | None = None
) -> None:
    """Create with parents, but not ``within`` or above: a dropped tablespace must not come back."""
    if within is None:
        await znodes.create(path, data, ephemeral=ephemeral, make_parents=True)
        return
    try:
        await znodes.create(path, data, ephemeral=ephemeral)
    except NoNodeError:
        parent = path.rpartition("/")[0]
        if parent == within:
            raise
        try:
            await _create(znodes, parent, b"", within=within)
        except NodeExistsError:
            pass
        await znodes.create(path, data, ephemeral=ephemeral)


class _Repeats:
    """The repetitions of one change: what is raised at their end says whether any of them is in doubt."""

    def __init__(self, patience: ZooKeeperBackoff | None) -> None:
        self._patience = patience
        self._in_doubt = False

    async def pause(self, error: BookKeeperError) -> None:
        """Wait before another one; raises the error when the patience is at its end."""
        self._in_doubt = self._in_doubt or error.outcome is Outcome.UNKNOWN
        if self._patience is None:
            await asyncio.sleep(_PAUSE_S)
        elif not await self._patience.pause():
            if self._in_doubt:
                error.outcome = Outcome.UNKNOWN
            raise error
