"""A server for the tests of types, as those of the wire have it."""

from tests.pgwire.conftest import server  # noqa: F401
