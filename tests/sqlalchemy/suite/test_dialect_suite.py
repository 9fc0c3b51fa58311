"""SQLAlchemy's dialect suite, all of it but for what ``SKIPPED`` in requirements.py has a reason for."""

from requirements import SKIPPED
from sqlalchemy.testing import config
from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import ArrayTest as _ArrayTest
from sqlalchemy.testing.suite import ServerSideCursorsTest as _ServerSideCursorsTest


class ArrayTest(_ArrayTest):
    """As the suite's, without arrays of several dimensions."""

    def test_array_roundtrip(self):
        config.skip_test(SKIPPED["ArrayTest.test_array_roundtrip"])

    def test_literal_complex(self):
        config.skip_test(SKIPPED["ArrayTest.test_literal_complex"])


class ServerSideCursorsTest(_ServerSideCursorsTest):
    """As the suite's, which knows the cursors of drivers that it names alone."""

    def _is_server_side(self, cursor):
        return getattr(cursor, "name", None) is not None
