"""Small programs that tests of the kit start, and ways to look at processes."""

import os
import select
import sys
from pathlib import Path

# Listens on 127.0.0.1:PORT with SO_REUSEADDR, as Java does, and says so.
LISTENER = """
import socket, sys, signal
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print("listening", flush=True)
signal.pause()
"""
SLEEPER = "import signal; print('sleeping', flush=True); signal.pause()"
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('deaf', flush=True)
while True: signal.pause()
"""


def python(code: str, *arguments: object) -> list[str]:
    """The command that runs `code`."""
    return [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]


def state(pid: int) -> str:
    """The letter of proc(5) for a process: S sleeping, T stopped, Z ended and not yet reaped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def await_end(pids: list[int], timeout_s: float = 30.0) -> list[int]:
    """Those of `pids` that still run after the others ended, or after `timeout_s`."""
    left = []
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except (ProcessLookupError, FileNotFoundError):  # nothing has the id, or a thread
            continue
        try:
            if not select.select([handle], [], [], timeout_s)[0]:
                left.append(pid)
        finally:
            os.close(handle)
    return left
