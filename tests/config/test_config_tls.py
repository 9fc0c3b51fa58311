"""What is said of certificates and keys that a server cannot use."""

from __future__ import annotations

from herdpy_server.config import load
from tests.config.kit import DATA, problems


def test_a_certificate_and_its_key_are_taken(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\nkey = '{pem['own_key']}'\nrequired = true\n")
    assert load(path, flags=[DATA]).config.tls.required


def test_a_key_without_a_certificate_is_told(written, pem):
    path = written(f"[tls]\nkey = '{pem['own_key']}'\n")
    assert problems(path) == [
        f"{path}:2: tls.key is given without tls.certificate: TLS needs both, or neither"
    ]


def test_a_certificate_without_a_key_is_told(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\n")
    assert problems(path) == [
        f"{path}:2: tls.certificate is given without tls.key: TLS needs both, or neither"
    ]


def test_a_key_of_another_certificate_is_told(written, pem):
    path = written(f"[tls]\ncertificate = '{pem['own']}'\nkey = '{pem['other_key']}'\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}:2: tls.certificate {pem['own']} and tls.key {pem['other_key']} cannot")


def test_files_that_cannot_be_read_are_told(written, pem):
    path = written("[tls]\ncertificate = '/none.pem'\nkey = '/none.key'\n")
    assert problems(path) == [
        f"{path}:2: tls.certificate: /none.pem cannot be read: No such file or directory",
        f"{path}:3: tls.key: /none.key cannot be read: No such file or directory",
    ]


def test_what_needs_tls_is_told_without_it(written):
    path = written("[tls]\nrequired = true\nclient_ca = '/x'\n")
    assert problems(path) == [
        f"{path}:2: tls.required needs tls.certificate and tls.key",
        f"{path}:3: tls.client_ca needs tls.certificate and tls.key",
    ]


def test_https_needs_a_certificate(written, pem):
    path = written("[http]\ntls = true\n")
    assert problems(path) == [f"{path}:2: http.tls needs tls.certificate and tls.key"]
    path = written(f"[tls]\ncertificate = '{pem['own']}'\nkey = '{pem['own_key']}'\n[http]\ntls = true\n")
    assert load(path, flags=[DATA]).config.http.tls
