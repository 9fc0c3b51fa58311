"""What the prompt shows on request: who leads, how new what is read is, and how far behind the server is.

Asked once for each prompt, by a query outside of any transaction; within one, what was known before it is
shown. In a directory there is nobody else to lead, and nothing to be behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import database_error

if TYPE_CHECKING:
    from herdpy.cli.shell import Shell

STYLES = ("plain", "status")
_HERE = """
SELECT t.leader, n.node, r.lag_entries
FROM herdpy.tablespaces t
LEFT JOIN herdpy.nodes n ON n.is_here
LEFT JOIN herdpy.replicas r ON r.tablespace = t.name AND r.node = n.node
WHERE t.name = current_database()
"""
_LEVEL = "SHOW herdpy.read_level"


class StatusLine:
    """The status in a shell's prompt."""

    def __init__(self) -> None:
        self.shown = ""

    def renew(self, shell: Shell) -> None:
        """Ask again, unless the shell is in a transaction, or the prompt does not show it."""
        if shell.prompt != "status":
            self.shown = ""
        elif shell.transaction == "IDLE":
            self.shown = f" [{shell.interruptibly(lambda: _status(shell))}]"


def _status(shell: Shell) -> str:
    try:
        ((level,),) = _rows(shell, _LEVEL)
        if not shell.target.is_remote:
            return f"in this process, {level}"
        found = _rows(shell, _HERE)
    except Exception as error:
        if database_error(error) is None:
            raise
        return f"no status: {getattr(error, 'sqlstate', None) or type(error).__name__}"
    if not found or found[0][1] is None:
        return f"a server alone, {level}"
    leader, node, lag = found[0]
    here = "" if node == leader else f", here {node}"
    return f"leader {leader or 'none'}{here}, {level}, lag {'?' if lag is None else lag}"


def _rows(shell: Shell, sql: str) -> list[Any]:
    with shell.connection.execute(sql) as cursor:
        return list(cursor.fetchall())
