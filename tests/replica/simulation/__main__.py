"""Replay: `python -m tests.replica.simulation SEED` prints a run's trace and what was wrong."""

from __future__ import annotations

import argparse
import sys

from tests.replica.simulation.history import BrokenPromiseError
from tests.replica.simulation.run import simulate


def main() -> int:
    """Run one seed, maybe with a bug put in; exit status 1 when a promise was broken."""
    from tests.replica.simulation.bugs import BUGS

    parser = argparse.ArgumentParser(prog="python -m tests.replica.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--bug", choices=sorted(BUGS), help="put this bug into the replicas")
    options = parser.parse_args()
    try:
        if options.bug:
            with BUGS[options.bug]():
                world = simulate(options.seed, keep_trace=True)
        else:
            world = simulate(options.seed, keep_trace=True)
    except BrokenPromiseError as broken:
        print(broken)
        return 1
    print("\n".join(world.trace or ()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
