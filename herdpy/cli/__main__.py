"""``python -m herdpy.cli`` is the same as ``herdpy``."""

from herdpy.cli import main

if __name__ == "__main__":
    main()
