"""``herdpy ledgers keep-replica``: an operator's word to a tablespace that nobody can lead.

It is written to ZooKeeper, where the replica that it names looks for it (``herdpy_server.replica.evidence``),
and gone when that replica leads.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from herdpy.cli import target
from herdpy.cli.errors import CliError, tell
from herdpy.cli.ledgers_change import confirm
from herdpy.cli.ledgers_cluster import with_cluster

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper

_LOOK_S = 0.2


def keep_replica(
    uri: str,
    root: str,
    tablespace: str,
    node: str,
    *,
    accept_loss: bool,
    timeout_s: float,
    yes: bool,
    json: bool,
) -> None:
    """Check that it can be done, ask, say it, and wait until it is."""
    word = _Word(root, tablespace, node)
    found = with_cluster(uri, word.look)
    if not json:
        for one in found.values():
            tell(f"{one.node}: {one.state}, up to {one.applied}")
    _refuse_less(found, node, accept_loss=accept_loss)
    position = found[node].applied
    confirm(f"Is what {node} has, up to {position}, the state of tablespace {tablespace}?", yes=yes)
    with_cluster(uri, lambda bk: word.say(bk, accept_loss=accept_loss, timeout_s=timeout_s))
    if json:
        replicas = [
            {"node": one.node, "state": one.state, "applied": str(one.applied)} for one in found.values()
        ]
        done = {"tablespace": tablespace, "leader": node, "position": str(position), "replicas": replicas}
        sys.stdout.write(jsonlib.dumps(done) + "\n")
    else:
        tell(f"{node} leads {tablespace}: its log goes on after {position}.")


def _refuse_less(found: Mapping[str, Any], node: str, *, accept_loss: bool) -> None:
    """CliError when another replica has more, and that is not to be lost."""
    most = max(found.values(), key=lambda one: one.applied)
    if most.applied > found[node].applied and not accept_loss:
        raise CliError(
            f"the replica on {most.node} has more: up to {most.applied}",
            hint=f"Keep that one; or give --accept-loss to go on with what {node} has.",
        )


class _Word:
    """What is asked of ZooKeeper, and told to it, about one replica."""

    def __init__(self, root: str, tablespace: str, node: str) -> None:
        self._layout = target.needed("herdpy_server.cluster.layout")
        self._positions = target.needed("herdpy_server.cluster.positions")
        self._paths = self._layout.Layout(root).tablespace(tablespace)
        self._root, self._tablespace, self._node = root, tablespace, node

    async def look(self, bk: BookKeeper) -> dict[str, Any]:
        """The replicas that are there, by node; CliError when none may be kept, or this one is not there."""
        name = self._tablespace
        if await bk.znodes.exists(self._paths.info) is None:
            raise CliError(f"there is no tablespace {name} under {self._root}")
        leader = await bk.znodes.exists(self._paths.leader)
        needs = await self._positions.read_needs(bk.znodes, self._paths)
        found: dict[str, Any] = dict(sorted(needs.replicas.items()))
        if leader is not None:
            record = self._layout.decode(self._layout.LeaderRecord, self._paths.leader, leader.data)
            leads = found.get(record.node)
            if leads is not None and leads.state == "leading":
                raise CliError(
                    f"{name} is led by {record.node}: nothing has to be given up",
                    hint="docs/runbooks.md says what to do about a replica that is ahead of the log.",
                )
        if self._node not in found:
            raise CliError(
                f"the replica of {name} on {self._node} is not there",
                hint=f"Start its server. These are: {', '.join(found) or 'none'}.",
            )
        return found

    async def say(self, bk: BookKeeper, *, accept_loss: bool, timeout_s: float) -> None:
        """Say it, and wait until it is done; CliError, and it is taken back, when it is not."""
        record = self._layout.KeepRecord(node=self._node, tag=secrets.token_hex(8), accept_loss=accept_loss)
        certain = target.needed("herdpy_server.cluster.certain")
        await certain.put(bk.znodes, self._paths.keep, self._layout.encode(record), within=self._paths.info)
        try:
            async with asyncio.timeout(timeout_s):
                refusal = await self._done(bk, record.tag)
        except TimeoutError:
            refusal = f"it does not lead after {timeout_s:g} s: the log of its server says why"
        except BaseException:
            await self._take_back(bk)
            raise
        if refusal:
            await self._take_back(bk)
            raise CliError(
                f"{self._node} is not kept: {refusal}",
                hint="Nothing was given up. --accept-loss gives up what the log has, or may have, besides.",
            )

    async def _done(self, bk: BookKeeper, tag: str) -> str:
        """Why it is refused; empty once it is done."""
        while True:
            znode = await bk.znodes.exists(self._paths.keep)
            if znode is None:
                return ""
            said = self._layout.decode(self._layout.KeepRecord, self._paths.keep, znode.data)
            if said.tag != tag:
                return "somebody else has said another word"
            if said.refusal:
                return str(said.refusal)
            await asyncio.sleep(_LOOK_S)

    async def _take_back(self, bk: BookKeeper) -> None:
        if await bk.znodes.exists(self._paths.keep) is not None:
            await bk.znodes.delete(self._paths.keep)
