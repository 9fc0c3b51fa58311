"""Takes from every Python process that finds this first what Linux has and macOS lacks.

``sys.platform`` stays: the standard library and others' packages would look for a macOS that is not there.
"""

import fcntl
import os
import select
import signal
import socket
import time
from pathlib import Path

GONE = {
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ"),
    os: (
        "fdatasync",
        "posix_fallocate",
        "posix_fadvise",
        "pidfd_open",
        "sched_setscheduler",
        "sched_param",
        "SCHED_BATCH",
        "sched_getaffinity",
        "sched_setaffinity",
        "memfd_create",
        "eventfd",
        "splice",
        "copy_file_range",
        "pipe2",
        "O_DIRECT",
        "O_TMPFILE",
    ),
    select: ("epoll",),
    signal: ("pidfd_send_signal",),
    socket: ("SOCK_CLOEXEC", "SOCK_NONBLOCK"),
    time: ("CLOCK_BOOTTIME",),
}

for _module, _names in GONE.items():
    for _name in _names:
        if hasattr(_module, _name):
            delattr(_module, _name)

import herdpy.machine  # noqa: E402 - it looks at what there is when it is imported

herdpy.machine.PROC = Path("/there-is-no-proc")
