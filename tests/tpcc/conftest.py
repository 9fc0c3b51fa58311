"""Servers as processes of their own, on free ports, ended with the test."""

from __future__ import annotations

from tests.server.conftest import start

__all__ = ["start"]
