"""Word to systemd: ready, reloading, stopping. Source: sd_notify(3), whose protocol is a datagram of lines.

Without systemd (no NOTIFY_SOCKET in the environment) nothing happens.
"""

from __future__ import annotations

import logging
import os
import socket
import time

logger = logging.getLogger("herdpy.server")


def notify(state: str, status: str = "") -> bool:
    """Tell systemd a state, such as "READY=1", and a line for ``systemctl status``; True when it was sent."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    lines = [state]
    if state == "RELOADING=1":
        lines.append(f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
    if status:
        lines.append(f"STATUS={status}")
    target = "\0" + address[1:] if address.startswith("@") else address  # @ is an abstract name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(target)
            sender.sendall("\n".join(lines).encode())
        except OSError as error:
            logger.warning("systemd could not be notified of %s: %s", state, error)
            return False
    return True
