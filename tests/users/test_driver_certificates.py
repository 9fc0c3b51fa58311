"""The driver's sslcert and sslkey, on a server that asks for client certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

import herdpy
from tests.pgwire.servers import ThreadServer


def url_of(server: ThreadServer, user: str) -> str:
    return f"herdpy://{user}@127.0.0.1:{server.port}/herdpy"


def test_a_certificate_as_options_and_in_the_url(server: ThreadServer, files: Path) -> None:
    cert, key = str(files / "ann.pem"), str(files / "ann.key")
    url = url_of(server, "ann")
    with herdpy.connect(url, sslmode="require", sslcert=cert, sslkey=key) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)
    with herdpy.connect(f"{url}?sslmode=require&sslcert={cert}&sslkey={key}") as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("ann",)


@pytest.mark.parametrize(
    ("user", "options", "said"),
    [
        ("ann", {"sslmode": "require"}, "requires a valid client certificate"),
        ("ann", {"sslmode": "disable", "sslcert": "ann.pem", "sslkey": "ann.key"}, "client certificate"),
        ("bob", {"sslmode": "require", "sslcert": "ann.pem", "sslkey": "ann.key"}, 'failed for user "bob"'),
        ("ann", {"sslmode": "require", "sslcert": "ann.pem", "sslkey": "open.key"}, "private key file"),
    ],
    ids=["none", "no TLS", "another's", "a key that all may read"],
)
def test_the_error_says_what_to_do(
    server: ThreadServer, files: Path, user: str, options: dict[str, str], said: str
) -> None:
    (files / "open.key").write_bytes((files / "ann.key").read_bytes())
    (files / "open.key").chmod(0o644)
    found = {name: str(files / value) if name != "sslmode" else value for name, value in options.items()}
    with pytest.raises(herdpy.OperationalError, match=said) as caught:
        herdpy.connect(url_of(server, user), connect_timeout=20, failover_timeout=5, **found)
    assert caught.value.hint is not None
    assert "sslcert and sslkey name" in caught.value.hint


@pytest.mark.parametrize("option", ["sslcert", "sslkey"])
def test_a_file_that_is_not_there(server: ThreadServer, files: Path, option: str) -> None:
    missing = str(files / "none.pem")
    with pytest.raises(herdpy.InterfaceError, match=f"option {option}: there is no file {missing}"):
        herdpy.connect(url_of(server, "ann"), sslmode="require", **{option: missing})
