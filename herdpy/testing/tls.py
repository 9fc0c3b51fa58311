"""Certificates for bookies and their clients, as PEM files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from herdpy.testing.errors import MissingSoftwareError


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority's certificate, and a certificate and key (PKCS #8, not encrypted) issued by it."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def issue(cls, directory: Path, *names: str) -> Self:
        """Make an authority and a certificate for host `names` (by default the loopback address) in
        `directory`.

        Needs the package trustme; MissingSoftwareError without it.
        """
        try:
            import trustme
            from cryptography.hazmat.primitives import serialization
        except ImportError as error:
            raise MissingSoftwareError("certificates are made by the package trustme: install it") from error
        authority = trustme.CA()
        issued = authority.issue_cert(*(names or ("127.0.0.1", "localhost")))
        made = cls(directory / "authority.pem", directory / "certificate.pem", directory / "key.pem")
        authority.cert_pem.write_to_path(made.authority)
        made.certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        made.key.touch(mode=0o600)
        made.key.write_bytes(
            key.private_bytes(  # Java reads keys in this format only
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made

    def client_context(self) -> ssl.SSLContext:
        """What a client connects with: trusts the authority, and shows the certificate when it is asked for
        one.
        """
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def bookie_configuration(self, *, client_authentication: bool = True) -> dict[str, object]:
        """Lines of a bookie's configuration: START_TLS is offered, and clients must show a certificate or
        need not.
        """
        return {
            "tlsProvider": "JDK",
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsClientAuthentication": str(client_authentication).lower(),
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": self.key,
            "tlsCertificatePath": self.certificate,
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": self.authority,
        }
