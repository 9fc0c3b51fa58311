"""The secret of a cluster: nodes that have it believe each other, and nobody else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.secret import GOOD_FOR_S, NodeSecret
from tests.support.znode_worlds import World


async def learnt(znodes: Znodes, path: str) -> NodeSecret:
    """A node that has started."""
    secret = NodeSecret()
    await secret.learn(znodes, path)
    return secret


def test_the_first_node_makes_one_and_the_others_find_it(world: World) -> None:
    async def program() -> None:
        path = Layout(world.root).secret
        one = await learnt(await world.client(), path)
        other = await learnt(await world.client(), path)
        stranger = await learnt(await world.client(), f"{path}-of-another-cluster")
        proof = one.proof("server-1")
        assert proof is not None
        assert other.proved(proof) == "server-1"
        assert stranger.proved(proof) is None

    world.run(program)


def with_secret(tmp_path: Path, text: str = "correct horse battery staple") -> NodeSecret:
    """Of a file."""
    file = tmp_path / "secret"
    file.write_text(f"{text}\nand a note\n")
    return NodeSecret(file)


def test_before_there_is_a_secret_nothing_is_proved() -> None:
    secret = NodeSecret()
    assert secret.proof("server-1") is None
    assert secret.proved("HerdPy-Node server-1 0 ") is None


def test_a_proof_is_of_one_node_and_of_a_few_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, now_s = with_secret(tmp_path), time.time()
    proof = secret.proof("server-1")
    assert proof is not None
    assert "horse" not in proof
    scheme, node, told_s, digest = proof.split(" ")
    for false in (
        f"{scheme} server-2 {told_s} {digest}",
        f"{scheme} {node} {int(told_s) + 1} {digest}",
        f"{scheme} {node} {told_s} {digest[:-1]}",
        f"{scheme} {node} {told_s} {digest[:-1]}é",
        f"{scheme} {node} {told_s}",
        f"Basic {node} {told_s} {digest}",
        "",
    ):
        assert secret.proved(false) is None
    for shift_s, right in ((GOOD_FOR_S - 2, True), (GOOD_FOR_S + 2, False), (-GOOD_FOR_S - 2, False)):
        monkeypatch.setattr(time, "time", lambda shift_s=shift_s: now_s + shift_s)
        assert (secret.proved(proof) == "server-1") is right


def test_a_file_is_read_whenever_it_is_used(tmp_path: Path) -> None:
    secret = with_secret(tmp_path)
    proof = secret.proof("server-1") or ""
    assert secret.proved(proof) == "server-1"
    with_secret(tmp_path, "another secret of the same file")
    assert secret.proved(proof) is None
    with_secret(tmp_path, "too short")
    with pytest.raises(OSError, match="16 characters"):
        secret.proof("server-1")
    (tmp_path / "secret").unlink()
    with pytest.raises(FileNotFoundError):
        secret.proved(proof)
