"""Client certificates: instead of a password, beside one, and those that prove nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.users.conftest import Connect


def shown(files: Path, name: str) -> dict[str, Any]:
    return {"sslmode": "require", "sslcert": files / f"{name}.pem", "sslkey": files / f"{name}.key"}


def test_a_certificate_of_the_users_name_lets_in(connect: Connect, files: Path) -> None:
    assert connect("ann", **shown(files, "ann")).execute("SELECT current_user").fetchone() == ("ann",)


@pytest.mark.parametrize(
    ("user", "options", "said"),
    [
        ("ann", {"sslmode": "require", "sslcert": "/nothing"}, "requires a valid client certificate"),
        ("ann", {"sslmode": "disable"}, "requires a valid client certificate"),
        ("bob", "ann", 'certificate authentication failed for user "bob"'),
        ("ann", "eve", "SSL error|closed"),
        ("cid", {"sslmode": "disable", "password": "right"}, "requires a valid client certificate"),
    ],
    ids=["none", "no TLS", "another's", "a stranger's authority", "a password alone"],
)
def test_what_proves_nothing(
    connect: Connect, files: Path, user: str, options: str | dict[str, Any], said: str
) -> None:
    given = shown(files, options) if isinstance(options, str) else options
    with pytest.raises(psycopg.OperationalError, match=said):
        connect(user, **given)


def test_a_certificate_and_a_password(connect: Connect, files: Path) -> None:
    admin = connect("admin", sslmode="disable")
    admin.execute("CREATE ROLE cid LOGIN PASSWORD 'right'")
    try:
        cid = connect("cid", password="right", **shown(files, "ann"))  # any that is signed will do
        assert cid.execute("SELECT current_user").fetchone() == ("cid",)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect("cid", password="wrong", **shown(files, "ann"))
    finally:
        admin.execute("DROP ROLE cid")
