"""The configuration of a server: what its own check says, and the files that it names.

Above ``findings``. The server's packages are needed (extra ``server``).
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from herdpy import machine
from herdpy.doctor.findings import DoctorFinding, advice, failure, ok, warning

SOON_DAYS = 30
_DESCRIPTORS_OF_A_WORKER, _OTHER_DESCRIPTORS = 6, 256


def load(path: Path | None, environment: Mapping[str, str]) -> tuple[Any, list[DoctorFinding]]:
    """The configuration, None where it cannot be used, and a finding for each problem and warning."""
    from herdpy_server.config import ConfigError, load

    try:
        loaded = load(path, environment=environment)
    except ConfigError as error:
        what = "Correct it: conf/server.toml lists every setting."
        return None, [failure("configuration.settings", one, what) for one in error.problems]
    found = [
        warning("configuration.settings", one, "See docs/server.md#configuration.") for one in loaded.warnings
    ]
    return loaded.config, found or [ok("configuration.settings", f"{len(loaded.origins)} are set, all right")]


def needs(config: Any) -> tuple[int, int]:
    """How many files a full server has open, and bytes of memory that all its processes may take."""
    workers = config.workers.maximum
    files = config.postgres.max_connections + workers * _DESCRIPTORS_OF_A_WORKER + _OTHER_DESCRIPTORS
    return files, config.storage.memtable_limit_bytes + workers * config.workers.memory_bytes


def check(config: Any, path: Path | None, now: datetime.datetime | None = None) -> Iterator[DoctorFinding]:
    """What is right in itself, and may go wrong: secrets that others read, certificates that end."""
    yield from secrets(config, path)
    if config.cluster.zookeeper:
        yield supervisor(config.cluster.supervisor)
    if config.tls.certificate:
        names = [config.cluster.advertise] if config.cluster.zookeeper and config.cluster.advertise else []
        yield from certificate(
            Path(config.tls.certificate), names, now or datetime.datetime.now(datetime.UTC)
        )


def secrets(config: Any, path: Path | None) -> Iterator[DoctorFinding]:
    """Files with secrets, and who may read or write them."""
    files = {
        "tls.key": config.tls.key,
        "cluster.password_file": config.cluster.password_file,
        "cluster.secret_file": config.cluster.secret_file,
        "zookeeper.key": config.zookeeper.key,
        "backup.key_file": getattr(config.backup, "key_file", ""),
    }
    wrong = False
    for name, file in files.items():
        if file and (mode := _mode(Path(file))) is not None and mode & 0o077:
            wrong = True
            yield failure(
                "configuration.secrets", f"{name}: others may use {file} ({mode:04o})", f"chmod 600 {file}"
            )
    if path is not None and (mode := _mode(path)) is not None and mode & 0o022:
        wrong = True
        yield failure("configuration.secrets", f"others may write {path} ({mode:04o})", f"chmod go-w {path}")
    if not wrong:
        yield ok("configuration.secrets", "their owner alone reads them")


def supervisor(is_wanted: bool) -> DoctorFinding:
    """Whether the end of this machine's server would be attested at once."""
    name, costs = "configuration.supervisor", "A failover waits for the session and the lease: "
    if not is_wanted:
        return advice(name, "cluster.supervisor is off", costs + "switch it on.")
    try:
        end = machine.end_of_process(os.getpid())
    except OSError as error:
        return advice(name, f"pidfd_open: {error.strerror}", costs + "permit this system call to the server.")
    if end is None:
        return advice(name, "there is no pidfd_open on this system", costs + "use Linux 5.3 or newer.")
    os.close(end)
    return ok(name, "the kernel tells of the end of a process")


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:  # the server's own check has said so
        return None


def certificate(file: Path, names: list[str], now: datetime.datetime) -> Iterator[DoctorFinding]:
    """Until when a certificate is valid, and whether it has the names by which clients come."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as error:
        yield failure("configuration.certificate", f"{file}: {error}", "Name a PEM file as tls.certificate.")
        return
    ends = found.not_valid_after_utc
    days = (ends - now).days
    shown = f"{file} is valid until {ends:%Y-%m-%d}"
    renew = "Renew it, and reload the server (SIGHUP): it needs no restart."
    if ends <= now or found.not_valid_before_utc > now:
        yield failure("configuration.certificate", f"{shown}, not now", renew)
    elif days < SOON_DAYS:
        yield warning("configuration.certificate", f"{shown}: {days} days", renew)
    else:
        yield ok("configuration.certificate", shown)
    lacking = [one for one in names if not _has_name(found, one)]
    if lacking:
        yield warning(
            "configuration.certificate",
            f"{file} is not for {lacking[0]}",
            "Clients that check names refuse it: have the name among its subjectAltNames.",
        )


def _has_name(found: Any, name: str) -> bool:
    from cryptography import x509

    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(name) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        dns = names.get_values_for_type(x509.DNSName)
        return name in dns or f"*.{name.partition('.')[2]}" in dns
