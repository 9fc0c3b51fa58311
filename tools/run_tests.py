"""Run the parts of `make test`: most tests two at a time, and beside them, one after the other, what runs in
one process or starts processes of its own.

    python tools/run_tests.py

Tests wait, for elections, leases and starts, so two cores have time for one more part. What the main part
prints is seen at once; what the others print comes in one piece, when the main part is done. Every part runs
to its end, whatever becomes of the others; the exit status is 0 when none failed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = (sys.executable, "-m", "pytest", "-q")


@dataclass
class Part:
    """A program, and how it ended: `status` is that of its process, None as long as it has none."""

    name: str
    command: Sequence[str]
    status: int | None = None
    seconds: float = 0.0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def run(self, output: IO[bytes] | None = None) -> None:
        """Run it to its end; it prints to `output`, or to where this program prints."""
        began = time.monotonic()
        self._process = subprocess.Popen(self.command, cwd=ROOT, stdout=output, stderr=output)
        self.status = self._process.wait()
        self.seconds = time.monotonic() - began

    def end(self) -> None:
        """Let it end now (SIGTERM), if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def reap(self) -> None:
        """Wait until its process, if it had one, is over."""
        if self._process is not None:
            self._process.wait()

    @property
    def line(self) -> str:
        """How it ended, to be read."""
        outcome = "passed" if self.status == 0 else f"FAILED with {self.status}"
        return f"{self.name}: {outcome}, {self.seconds:.0f} s"


MAIN = Part("tests", (*_PYTEST, "-n", "2", "--dist", "worksteal", "-m", "not soak and not spark"))
BESIDE = (
    Part("tests in the one Spark session", (*_PYTEST, "-m", "spark and not soak", "tests/spark")),
    Part("suites for dialects", (sys.executable, "tests/sqlalchemy/run.py", "--listed")),
    Part(
        "some of PostgreSQL's regression scripts",
        (sys.executable, "tests/suites/run.py", "regress", "--seed", "340", "--some", "5"),
    ),
)


def run(main: Part, beside: Sequence[Part]) -> int:
    """Run `main`, and `beside` it the others in their order; 0 when none failed, 1 otherwise."""
    over = threading.Event()
    with ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in beside]

        def run_others() -> None:
            for part, output in zip(beside, outputs, strict=True):
                if not over.is_set():
                    part.run(output)

        others = threading.Thread(target=run_others, name="beside")
        others.start()
        try:
            main.run()
            others.join()
        except BaseException:  # Ctrl-C, or asked to end
            over.set()
            main.end()
            while others.is_alive():
                for part in beside:
                    part.end()
                others.join(0.1)
            for part in (main, *beside):  # whoever waited for it may have been interrupted
                part.reap()
            raise
        for part, output in zip(beside, outputs, strict=True):
            output.seek(0)
            print(f"\n{part.name}:", flush=True)
            sys.stdout.write(output.read().decode(errors="replace"))
    print("\n" + "\n".join(part.line for part in (main, *beside)), flush=True)
    return 0 if all(part.status == 0 for part in (main, *beside)) else 1


def _end(_number: int, _frame: object) -> None:
    sys.exit("ended")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(run(MAIN, BESIDE))
