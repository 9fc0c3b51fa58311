"""python _launch.py PARENT_PID PROGRAM ARGUMENT...: become PROGRAM, and be killed when the parent ends.

See prctl(2), PR_SET_PDEATHSIG. The setting survives execve.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before the signal was asked for
        sys.exit(1)
    os.execvp(program[0], program)
