"""What can become of a load besides success. Rows that do not fit raise RowError in their task."""

from __future__ import annotations


class LoadError(Exception):
    """A load was refused or failed, and added nothing.

    Attributes:
        sqlstate: the server's, as docs/errors.md lists them; 08006 when none could be reached.
    """

    def __init__(self, message: str, sqlstate: str = "08006") -> None:
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate


class LoadUnknownError(LoadError):
    """Nobody said whether the load was published. Repeating it under its id tells, and adds nothing twice."""

    def __init__(self, load_id: str, reason: str) -> None:
        super().__init__(
            f'it is not known whether the load "{load_id}" was published: {reason}. Write the same rows'
            f' again with the option loadId set to "{load_id}": what was published is not added again',
            "08007",
        )
