"""An engine on a directory and one on a server. SQLAlchemy's own suites are run by ``run.py`` alone."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.server_process import RunningServer

collect_ignore = ["suite", "alembic_suite"]  # their plugin wants pytest for itself


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    yield running
    running.close()


@pytest.fixture(params=["directory", "server"])
def engine(request, tmp_path):
    if request.param == "directory":
        url = f"herdpy:///{tmp_path}/db"
    else:
        port = request.getfixturevalue("server").port
        url = f"herdpy://127.0.0.1:{port}/herdpy"
    engine = sa.create_engine(url)
    yield engine
    with engine.begin() as connection:
        for (name,) in connection.execute(
            sa.text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ):
            connection.execute(sa.text(f"DROP TABLE {name} CASCADE"))
    engine.dispose()
