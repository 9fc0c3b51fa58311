"""The producer of a peer of the broker's benchmark: ``produce.py MODULE CLIENTS``, with the peer's module."""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).produce(int(sys.argv[2]))
