"""Files of configurations, and of certificates that they may name."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme


@pytest.fixture
def written(tmp_path):
    """Writes a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "server.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """Files of a certificate and its key, and of another certificate."""
    directory = tmp_path_factory.mktemp("pem")
    authority = trustme.CA()
    paths = {}
    for name in ("own", "other"):
        issued = authority.issue_cert("localhost")
        paths[name] = directory / f"{name}.pem"
        paths[f"{name}_key"] = directory / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(paths[name])
        issued.private_key_pem.write_to_path(paths[f"{name}_key"])
    return paths
