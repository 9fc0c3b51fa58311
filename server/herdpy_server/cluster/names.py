"""What names of a cluster may be; nothing is imported here, so that the configuration can use it."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
"""A tablespace's name: a directory, a part of a path in ZooKeeper and a database's name at once."""

NODE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")
