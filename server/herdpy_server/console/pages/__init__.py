"""The pages of the console, in the order of the navigation.

A module each, with a ``PAGE``: see ``visit.ConsolePage``. A page that is not listed here is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.console.pages import (
    audit,
    backups,
    cluster,
    drills,
    editor,
    jobs,
    sessions,
    statements,
    tables,
    tablespaces,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_server.console.visit import ConsolePage

PAGES: Sequence[ConsolePage] = (
    cluster.PAGE,
    tablespaces.PAGE,
    sessions.PAGE,
    statements.PAGE,
    backups.PAGE,
    jobs.PAGE,
    drills.PAGE,
    audit.PAGE,
    editor.PAGE,
    tables.PAGE,
)
