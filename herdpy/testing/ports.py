"""Ports for servers: reserved for as long as a server lives, and checked to be listened on by that server.

A reservation is a socket bound with SO_REUSEADDR that never listens. Linux lets a second socket with that
option (Java sets it on every server socket) bind the port and listen, but gives the port to nobody who asks
for a free one, so that a killed server finds its port again. Somebody who insists on the very port can still
take it: `owns_socket` tells who has it. Format of the tables: proc(5), /proc/net/tcp.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_LISTEN = "0A"


class PortReservation:
    """A port of `address` that no other process is given while this object is open: a free one, or `port`.

    Raises OSError when somebody listens on that port, or has bound it without SO_REUSEADDR.
    """

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
        except OSError:
            self._socket.close()
            raise
        self.address = address
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        """The socket's descriptor: a process that inherits it keeps the reservation."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the port back. May be called twice."""
        self._socket.close()


def listener_inodes(address: str, port: int, process: int | str = "self") -> frozenset[str]:
    """The inodes of the sockets that listen on `address`:`port`, or on it at every address, in the network of
    `process`.

    Several when they share the port. A process that has ended has no network: none.
    """
    wanted = {socket.inet_aton(address), b"\0\0\0\0"}
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
        except OSError:  # no IPv6, or the process has just ended
            continue
        for line in lines:
            fields = line.split()
            host, _, port_text = fields[1].partition(":")
            if fields[3] == _LISTEN and int(port_text, 16) == port and _ipv4(host) in wanted:
                inodes.add(fields[9])
    return frozenset(inodes)


def owns_socket(pid: int, inodes: frozenset[str]) -> bool:
    """Whether process `pid` has one of the sockets `inodes` open."""
    names = {f"socket:[{inode}]" for inode in inodes}
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                try:
                    if os.readlink(entry.path) in names:
                        return True
                except FileNotFoundError:  # closed meanwhile
                    continue
    except (FileNotFoundError, PermissionError):
        return False
    return False


def _ipv4(hexadecimal: str) -> bytes | None:
    """The IPv4 address in a table's notation (words in host order), None for an address that is IPv6 only."""
    words = [struct.pack("=I", int(hexadecimal[at : at + 8], 16)) for at in range(0, len(hexadecimal), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return raw
    if raw == bytes(16):
        return bytes(4)
    return raw[12:] if raw[:12] == bytes(10) + b"\xff\xff" else None
