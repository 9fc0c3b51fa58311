"""The public PEP 249 compliance suite (dbapi-compliance on PyPI), against this driver."""

from __future__ import annotations

import shutil
import tempfile

import pytest

import herdpy

dbapi20 = pytest.importorskip("dbapi20")


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = herdpy

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.connect_args = (f"herdpy://{self.directory}/db",)

        self.connections = []

    def tearDown(self):
        super().tearDown()
        for connection in self.connections:  # some of its tests forget them
            connection.close()
        shutil.rmtree(self.directory)

    def _connect(self):
        connection = super()._connect()
        self.connections.append(connection)
        return connection

    def test_non_idempotent_close(self):
        """Closing twice is allowed, as in every driver of today."""
        connection = self._connect()
        connection.close()
        connection.close()

    def test_callproc(self):
        """There are no procedures: test_driver_pep249 has the error."""

    def test_nextset(self):
        cursor_connection = self._connect()
        cursor = cursor_connection.cursor()
        cursor.execute("SELECT 1; SELECT 2")
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [(2,)]
        assert not cursor.nextset()
        cursor_connection.close()

    def test_setoutputsize(self):
        """Ignored: test_driver_pep249 has it."""
