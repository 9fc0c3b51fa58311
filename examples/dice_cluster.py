"""A cluster to play with, until Ctrl-C: ``python examples/dice_cluster.py`` prints its URI."""

from __future__ import annotations

import argparse
import signal
import sys

from herdpy.testing import BookKeeperCluster, KitError


def main() -> int:
    """Start the cluster, say where it is, wait; the exit code."""
    parser = argparse.ArgumentParser(
        description="Start a real ZooKeeper and real bookies on this machine; all is gone after Ctrl-C.",
    )
    parser.add_argument("--bookies", type=int, default=3, metavar="N", help="how many (3)")
    bookies = parser.parse_args().bookies
    if bookies < 1:
        parser.error("--bookies must be at least 1")
    # SIGTERM ends it as Ctrl-C does, so that the servers are stopped and their files removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with BookKeeperCluster(bookies=bookies) as cluster:
            print(cluster.uri, flush=True)
            print("Ctrl-C stops it and removes its data.", file=sys.stderr, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
