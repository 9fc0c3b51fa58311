"""Replay: `python -m tests.bookkeeper.simulation SEED` prints the run's trace and what was wrong with it."""

from __future__ import annotations

import argparse
import sys

from tests.bookkeeper.simulation.bugs import BUGS
from tests.bookkeeper.simulation.history import BrokenPromiseError
from tests.bookkeeper.simulation.run import simulate


def main() -> int:
    """Run one seed, maybe with a bug put in; exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.bookkeeper.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--appends", type=int, default=40, help="the most appends of a writer")
    parser.add_argument("--bug", choices=sorted(BUGS), help="put this bug into the client")
    options = parser.parse_args()
    try:
        if options.bug:
            with BUGS[options.bug]():
                world = simulate(options.seed, most_appends=options.appends, keep_trace=True)
        else:
            world = simulate(options.seed, most_appends=options.appends, keep_trace=True)
    except BrokenPromiseError as broken:
        print(broken)
        return 1
    print("\n".join(world.trace or ()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
