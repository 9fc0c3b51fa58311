"""SQLAlchemy's dialect suite, all of it; ``CHANGED`` in requirements.py has the reason of what is here."""

from sqlalchemy import text
from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import ServerSideCursorsTest as _ServerSideCursorsTest
from sqlalchemy.testing.suite import WindowFunctionTest as _WindowFunctionTest


class ServerSideCursorsTest(_ServerSideCursorsTest):
    """As the suite's, which knows the cursors of drivers that it names alone."""

    def _is_server_side(self, cursor):
        return getattr(cursor, "name", None) is not None


class InOrder:
    """A connection that sorts the rows of a SELECT by their first column."""

    def __init__(self, connection):
        self._connection = connection

    def execute(self, statement):
        return self._connection.execute(statement.order_by(text("1")))


class WindowFunctionTest(_WindowFunctionTest):
    """As the suite's, which counts on an order of rows that SELECT does not ask for."""

    if hasattr(_WindowFunctionTest, "test_window_range"):  # not in 2.0

        def test_window_range(self, connection):
            super().test_window_range(InOrder(connection))

        def test_window_range_numeric(self, connection):
            super().test_window_range_numeric(InOrder(connection))
