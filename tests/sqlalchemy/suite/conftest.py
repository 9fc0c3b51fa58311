"""Hands the run over to SQLAlchemy's own pytest plugin. Only ``run.py`` starts pytest here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin import pytestplugin  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


def pytest_sessionstart(session):
    """As the plugin's, in a database that has the schema that the suite counts on."""
    import herdpy
    from tests.sqlalchemy.databases import drivers_url

    (url,) = session.config.option.dburi
    with herdpy.connect(drivers_url(url), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS test_schema")
    pytestplugin.pytest_sessionstart(session)
