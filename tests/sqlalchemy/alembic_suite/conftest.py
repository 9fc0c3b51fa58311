"""Hands the run over to SQLAlchemy's pytest plugin, for Alembic's suite. Only ``run.py`` starts it here."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("sqlalchemy.testing.assertions", "alembic.testing.assertions")

from sqlalchemy.testing.plugin import pytestplugin  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403

_SCRATCH = tempfile.mkdtemp(prefix="herdpy-alembic-")


def pytest_sessionstart(session):
    """As the plugin's, in a database that has the schema, and a directory that may be written to."""
    import herdpy
    from tests.sqlalchemy.databases import drivers_url

    (url,) = session.config.option.dburi
    with herdpy.connect(drivers_url(url), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS test_schema")
    os.chdir(_SCRATCH)
    pytestplugin.pytest_sessionstart(session)


def pytest_unconfigure(config):
    """Leave nothing behind."""
    os.chdir(Path(__file__).parent)
    shutil.rmtree(_SCRATCH, ignore_errors=True)
