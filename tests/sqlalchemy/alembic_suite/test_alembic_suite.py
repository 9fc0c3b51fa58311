"""Alembic's suite for dialects, all of it."""

from alembic.testing.suite import *  # noqa: F403
