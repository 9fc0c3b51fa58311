"""Roles and rights that change all the while, and somebody who tries whether what was taken away is back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

CHANGES = [
    "CREATE ROLE n{}",
    "GRANT INSERT, UPDATE ON told TO n{}",
    "GRANT SELECT ON told TO ann",
    "GRANT crew TO ann",
    "REVOKE crew FROM ann",
    "REVOKE SELECT ON told FROM ann",
    "REVOKE ALL ON told FROM n{}",
    "DROP ROLE n{}",
]
HELD = """
    SELECT has_table_privilege('ann', 'told', 'SELECT'), pg_has_role('ann', 'crew', 'MEMBER'),
        (SELECT array_agg(rolname ORDER BY rolname) FROM pg_roles WHERE rolname ~ '^n[0-9]+$'),
        (SELECT count(*) FROM information_schema.table_privileges
         WHERE table_name = 'told' AND grantee ~ '^n[0-9]+$')
"""


def held_after(done: int) -> tuple[Any, ...]:
    """What HELD says once so many of the CHANGES, over and over, were made."""
    turn, step = divmod(done, len(CHANGES))
    is_there = 1 <= step < 8
    return (3 <= step < 6, step == 4, [f"n{turn}"] if is_there else None, 2 if 2 <= step < 7 else 0)


class Churn(threading.Thread):
    """Changes roles and rights until its node fails.

    Attributes:
        done: how many changes were acknowledged.
        going: set after some turns.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__()
        self.done = 0
        self.going = threading.Event()
        self._connection = connection

    def run(self) -> None:
        """Until the connection is lost."""
        with self._connection as connection:
            while True:
                turn, step = divmod(self.done, len(CHANGES))
                try:
                    connection.execute(CHANGES[step].format(turn))
                except psycopg.OperationalError:
                    return
                self.done += 1
                if self.done == 2 * len(CHANGES):
                    self.going.set()


class Watch(threading.Thread):
    """Asks every node again and again for the rows of "closed".

    Attributes:
        rows: how often there was an answer; ``refused``: how often there was none, for want of rights.
        others: errors that are neither that nor of a node that is down.
    """

    def __init__(self, connect: Callable[[str], psycopg.Connection[Any]], nodes: Sequence[str]) -> None:
        super().__init__()
        self.rows = self.refused = 0
        self.others: list[BaseException] = []
        self._connect = connect
        self._nodes = nodes
        self._over = threading.Event()

    def run(self) -> None:
        """Until the end."""
        while not self._over.wait(0.1):
            for node in self._nodes:
                try:
                    self._ask(node)
                except psycopg.OperationalError:
                    continue  # it is down, or does not know its roles yet
                except BaseException as error:  # noqa: BLE001 - judged by the test
                    self.others.append(error)
                    return

    def _ask(self, node: str) -> None:
        with self._connect(node) as connection:
            try:
                connection.execute("SELECT a FROM closed")
            except psycopg.errors.InsufficientPrivilege:
                self.refused += 1
            else:
                self.rows += 1

    def end(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join()
