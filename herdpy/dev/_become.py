"""python _become.py PARENT_PID GATE DIRECTORY [PROGRAM ARGUMENT...]: wait to be let go, and become PROGRAM.

Without a program it goes on to do nothing: it keeps the descriptors that it inherited.

GATE is a descriptor of a pipe: one byte lets the process go on, its end without one means that whoever
started it is gone and has not written down that this process exists, so it ends. With PARENT_PID other than 0
it is killed when that process ends (prctl(2), PR_SET_PDEATHSIG; the setting survives execve).
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, gate, directory, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if parent:
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:  # it ended before the signal was asked for
            sys.exit(1)
    if os.read(gate, 1) != b"!":
        sys.exit(1)
    os.close(gate)
    os.chdir(directory)
    while not program:
        signal.pause()
    os.execvp(program[0], program)
