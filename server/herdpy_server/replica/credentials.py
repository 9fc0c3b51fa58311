"""How this node proves to others who it is, when it asks them for a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from herdpy.rpc.place import Place
from herdpy_server.cluster.layout import Address


@dataclass(frozen=True, slots=True)
class Credentials:
    """A role of the other nodes; where none is said, the secret of the cluster.

    Attributes:
        user: the role; None: the secret proves that this is a node.
        password_file: has its password in the first line; read each time, so it may be changed.
        tls: whether the nodes' doors are TLS.
        ca: a PEM file with those that may have signed the nodes' certificates.
    """

    user: str | None = None
    password_file: Path | None = None
    tls: bool = False
    ca: Path | None = None

    def place(self, address: Address, proof: Callable[[], str | None] | None = None) -> Place:
        """Another node's door. OSError when the file of the password cannot be read.

        Args:
            proof: of being a node, used where no role is said.
        """
        if self.user is None:
            return Place(address.host, address.port, tls=self.tls, ca=self.ca, proof=proof)
        password = None
        if self.password_file is not None:
            password = self.password_file.read_text().split("\n", 1)[0].rstrip("\r")
        return Place(address.host, address.port, self.user, password, self.tls, self.ca)
