"""Which section of docs/first-errors.md explains an error of a first hour. A leaf, for commands and servers.

Messages stay where they are made; here is only what leads from one to its section. A test
(tests/cli/test_first_errors.py) produces each for real.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PAGE = "docs/first-errors.md"


class FirstError(NamedTuple):
    """One error: its section, what its message has in it, and its SQLSTATE; empty: it has none, or any."""

    section: str
    pattern: str
    sqlstate: str = ""


FIRST_ERRORS = (
    FirstError("port-taken", r"cannot listen on .*: Address already in use"),
    FirstError("zookeeper", r"no session with ZooKeeper|the server has not joined its cluster yet"),
    FirstError("no-database", r"there is no database (at|in) "),
    FirstError("directory-in-use", r"another process has .* open", "55006"),
    FirstError("not-a-database", r"is neither empty nor a HerdPy database", "55000"),
    FirstError("missing-package", r"this needs the Python package "),
    FirstError("wrong-url", r"not a HerdPy URL"),
    FirstError("password", r"password|authentication", "28P01"),
    FirstError("password", r"no rule of authentication|not let in|may not", "28000"),
    FirstError("no-such-database", r"does not exist", "3D000"),
    FirstError("server-not-reached", r"Connection refused|no server was found|no server lets us in", "08001"),
    FirstError("java", r"install Java \d+|is not Java \d+ or newer"),
    FirstError("disk-full", r"", "53100"),
    FirstError("permissions", r"cannot open .*: (Permission denied|Operation not permitted)", "42501"),
    FirstError("encoding", r"not UTF-8"),
    FirstError("newer-version", r"has format \d+|is not known here|is at level \d+", "0A000"),
    FirstError("configuration", r"the configuration has \d+ problem"),
)


def page_of(message: str, sqlstate: str | None = None) -> str | None:
    """Where an error is explained, as ``docs/first-errors.md#port-taken``; None: nowhere."""
    for one in FIRST_ERRORS:
        if one.sqlstate in ("", sqlstate or "") and re.search(one.pattern, message):
            return f"{PAGE}#{one.section}"
    return None
