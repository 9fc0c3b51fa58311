"""What a gRPC door is made with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a gRPC door.

    Attributes:
        address, port: where it listens; port 0 takes a free one.
        max_message_bytes: the longest request.
        max_calls: calls at a time, streams among them; more are refused.
        max_streams: of one connection, at a time; more wait.
        max_snapshots, max_plans: how many there may be at a time.
        tls_certificate, tls_key: files in PEM form; with them every connection is TLS.
        tls_client_ca: certificates of clients must be signed by one of these; None asks for none.
        tls_required: refuse calls without TLS.
    """

    address: str = "127.0.0.1"
    port: int = 8481
    max_message_bytes: int = 4 << 20
    max_calls: int = 200
    max_streams: int = 100
    max_snapshots: int = 4
    max_plans: int = 16
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_required: bool = False

    def certificates(self) -> grpc.ServerCertificateConfiguration | None:
        """What TLS connections are made with; None without TLS. OSError when a file cannot be read."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        ca = None if self.tls_client_ca is None else self.tls_client_ca.read_bytes()
        pair = (self.tls_key.read_bytes(), self.tls_certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)
