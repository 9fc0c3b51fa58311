"""The files of a new server, made of answers: its configuration, a certificate, its first role.

Below ``init``. Everything is made beside its place and checked by the server's own check; then each file is
renamed into place, the configuration last. What ends in between leaves files that are whole and used by
nobody, and the same command goes on with ``--force``.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from herdpy.cli.errors import USAGE, CliError, print_note
from herdpy.cli.extras import needed
from herdpy.cli.output import write_document

_VALID_DAYS = 825
_LEAST_MEMORY_BYTES = 1 << 30
_WORKER_BYTES = 512 << 20
_HEAD = """\
The configuration of this HerdPy server. A line that is a comment shows a setting with its default.

The environment (HERDPY_POSTGRES_PORT=5433) overrides this file, and flags override both. Sizes are bytes, or
text with a unit ("64 MiB").
"""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What ``herdpy init`` was answered. ``memory_bytes`` 0, and empty texts: the defaults of the server."""

    directory: str
    zookeeper: str = ""
    node: str = ""
    advertise: str = ""
    bookies: int = 3
    replicas: int = 3
    listen: tuple[str, ...] = ("127.0.0.1",)
    port: int = 5432
    http_port: int = 8480
    grpc_port: int = 8481
    tls: str = "none"
    certificate: Path | None = None
    key: Path | None = None
    superuser: str = ""
    password: str | None = field(default=None, repr=False)
    backup_url: str = ""
    memory_bytes: int = 0


def size(text: str) -> int:
    """Bytes of a size such as "8 GiB"; 0 of an empty text. CliError when it is none, or too small."""
    if not text:
        return 0
    from herdpy.options import size_bytes

    try:
        found = size_bytes(text)
    except ValueError:
        raise CliError(f'--memory takes a size such as "8 GiB", not {text!r}', code=USAGE) from None
    if found < _LEAST_MEMORY_BYTES:
        raise CliError(f"--memory: a server needs 1 GiB at least, not {text}", code=USAGE)
    return found


def settings_of(answers: Answers, output: Path) -> dict[str, object]:
    """The settings that are not left at their default, by full name."""
    here = answers.listen[0] if len(answers.listen) == 1 else "*"
    settings: dict[str, object] = {
        "data.directory": str(Path(answers.directory).expanduser().absolute()),
        "postgres.addresses": list(answers.listen),
        "postgres.port": answers.port,
        "http.port": answers.http_port,
        "grpc.port": answers.grpc_port,
        "grpc.address": here,
    }
    if answers.tls != "files" and (answers.certificate or answers.key):
        raise CliError(f"--certificate and --key are for --tls files, not {answers.tls}", code=USAGE)
    if answers.tls != "none":
        certificate, key = _tls_files(answers, output)
        settings |= {"tls.certificate": str(certificate), "tls.key": str(key)}
    if answers.zookeeper:
        write = min(3, answers.bookies)
        settings |= {
            "cluster.zookeeper": answers.zookeeper,
            "cluster.node": answers.node,
            "cluster.advertise": answers.advertise,
            "cluster.expected_replicas": answers.replicas,
            "cluster.ensemble": write,
            "cluster.write_quorum": write,
            "cluster.ack_quorum": min(2, write),
            "http.address": here if here != "*" else "0.0.0.0",
        }
    if answers.backup_url:
        settings["backup.url"] = answers.backup_url
    if answers.memory_bytes:
        settings |= _memory(answers.memory_bytes)
    return settings


def _memory(total: int) -> dict[str, object]:
    """A quarter for changes that no checkpoint has; most of the rest for as many workers as get enough."""
    workers = max(1, min(4, total * 5 // 8 // (4 * _WORKER_BYTES)))
    each = max(_WORKER_BYTES, total * 5 // 8 // workers)
    return {
        "storage.memtable_limit_bytes": total // 4,
        "storage.query_memory_bytes": each // 2,
        "storage.column_cache_bytes": each // 4,
        "workers.maximum": workers,
        "workers.memory_bytes": each,
    }


def _tls_files(answers: Answers, output: Path) -> tuple[Path, Path]:
    if answers.tls == "files":
        if answers.certificate is None or answers.key is None:
            raise CliError("--tls files needs --certificate and --key", code=USAGE)
        return answers.certificate.expanduser().absolute(), answers.key.expanduser().absolute()
    beside = output.expanduser().absolute()
    return beside.with_suffix(".crt"), beside.with_suffix(".key")


def write_initial(answers: Answers, output: Path, *, force: bool, json: bool) -> None:
    """Make everything, and say what comes next.

    Raises:
        CliError: something is in the way, the configuration is not right, or a file cannot be written.
    """
    output = output.expanduser().absolute()
    config: Any = needed("herdpy_server.config", "server")
    try:
        settings = settings_of(answers, output)
        text = config.documented_with(settings, _HEAD)
    except ValueError as error:
        raise CliError(f"the configuration cannot be written: {error}", code=USAGE) from error
    made = [output]
    if answers.tls == "self-signed":
        made += [Path(str(settings["tls.certificate"])), Path(str(settings["tls.key"]))]
    _check_room(made, answers, force)
    try:
        with contextlib.ExitStack() as undo:
            files = {}
            if answers.tls == "self-signed":
                certificate, key = certificate_and_key(answers)
                files = {made[1]: (certificate, 0o644), made[2]: (key, 0o600)}
            temporary = {
                place: undo.enter_context(_beside(place, *contents)) for place, contents in files.items()
            }
            written = undo.enter_context(_beside(output, text.encode(), 0o600))
            warnings = _check(config, written, output, temporary)
            if answers.password is not None:
                _make_role(answers)
            for place, one in temporary.items():
                os.replace(one, place)
            os.replace(written, output)
    except OSError as error:
        raise CliError(f"{error.filename or output} cannot be written: {error.strerror or error}") from error
    _say(answers, output, made, warnings, json=json)


def _check_room(made: list[Path], answers: Answers, force: bool) -> None:
    for one in made:
        if one.exists() and not force:
            raise CliError(f"{one} is there already", hint="Name another with --output, or give --force.")
        if not one.parent.is_dir():
            raise CliError(f"{one.parent} is no directory", hint="Make it, or name another with --output.")
    roles = Path(answers.directory).expanduser() / "users.json"
    if answers.password is not None and roles.exists():
        raise CliError(
            f"{answers.directory} has roles already",
            hint="Keep them with --no-password; ALTER ROLE ... PASSWORD changes a password.",
        )


@contextlib.contextmanager
def _beside(place: Path, contents: bytes, mode: int) -> Iterator[Path]:
    """A synced file in the same directory, which is gone afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(contents)
            file.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _check(config: Any, written: Path, output: Path, temporary: dict[Path, Path]) -> list[str]:
    """The server's own check; the warnings. CliError."""
    names = [f"tls.{one}" for one in ("certificate", "key")]
    flags = [(f"--set {name}", name, str(one)) for name, one in zip(names, temporary.values(), strict=False)]
    try:
        found = config.load(written, flags=flags).warnings
        return [one.replace(str(written), str(output)) for one in found]
    except config.ConfigError as error:
        for problem in error.problems:
            print_note(problem.replace(str(written), "the configuration"))
        raise CliError("the configuration would not be right: nothing was written", code=USAGE) from error


def _make_role(answers: Answers) -> None:
    """The first role, in the file of roles of the data directory."""
    passwords: Any = needed("herdpy_server.roles.passwords")
    role: Any = needed("herdpy_server.roles.role")
    sql_error: Any = needed("herdpy_sql.errors").SqlError
    place = Path(answers.directory).expanduser()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    first = role.Role(
        answers.superuser,
        verifier=passwords.Verifier.of(answers.password).text(),
        is_superuser=True,
        key=role.new_key(),
    )
    try:
        role.RoleFile(place).change_now(role.created(first))
    except sql_error as error:
        raise CliError(str(error)) from error


def certificate_and_key(answers: Answers) -> tuple[bytes, bytes]:
    """PEM of a certificate that signs itself, for the names of this server, and of its key."""
    x509: Any = needed("cryptography.x509")
    ec: Any = needed("cryptography.hazmat.primitives.asymmetric.ec")
    hashes: Any = needed("cryptography.hazmat.primitives.hashes")
    serialization: Any = needed("cryptography.hazmat.primitives.serialization")
    names = [answers.advertise, *answers.listen, os.uname().nodename, "localhost", "127.0.0.1"]
    shown = list(dict.fromkeys(one for one in names if one and one not in ("*", "0.0.0.0", "::")))
    alternatives = [_name(x509, one) for one in shown]
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, shown[0][:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(pem), key.private_bytes(pem, *plain)


def _name(x509: Any, name: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _say(answers: Answers, output: Path, made: list[Path], warnings: list[str], *, json: bool) -> None:
    steps = next_steps(answers, output)
    if json:
        write_document({"files": list(map(str, made)), "warnings": warnings, "next": steps})
        return
    for warning in warnings:
        print_note(f"warning: {warning}")
    for one in made:
        sys.stdout.write(f"{one} is written.\n")
    sys.stdout.write("Next:\n" + "".join(f"  {step}\n" for step in steps))


def next_steps(answers: Answers, output: Path) -> list[str]:
    """The commands to go on with."""
    config = shlex.quote(str(output))
    port = f"-p {answers.port}" if answers.port else "-p PORT"
    steps = [f"herdpy doctor --config {config}", f"herdpy server --config {config}"]
    user = answers.superuser if answers.password is not None else "admin"
    database = "herdpy" if answers.zookeeper else "postgres"
    psql = f"psql -h 127.0.0.1 {port} -U {shlex.quote(user)} {database}"
    if answers.password is None:
        steps.append(rf"{psql} -c 'CREATE ROLE {user} SUPERUSER LOGIN' -c '\password {user}'")
    else:
        steps.append(psql)
    return steps
