"""What must hold between settings, and of the files and addresses that they name."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from herdpy.backup.errors import RepositoryError
from herdpy.backup.repository import read_key
from herdpy_server.cluster.names import NAME, NODE_ID
from herdpy_server.cluster.secret import read_secret
from herdpy_server.config.sections import HostRule, ServerConfig

_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^\s,/:\[\]]+):\d{1,5}")
_PATH = re.compile(r"(/[^/\s\0]+)+")
_EVERYWHERE = frozenset({"*", "0.0.0.0", "::"})


def check(config: ServerConfig, where: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Problems and warnings of a configuration whose single values are right.

    Args:
        where: where a setting (by its full name) was given, for the messages.
    """
    problems = [
        *_data(config, where),
        *_tls(config, where),
        *_console(config, where),
        *_rules(config, where),
        *_places(config, where),
        *_log_file(config, where),
        *_audit(config, where),
        *_backup(config, where),
        *_tracing(config, where),
        *_cluster(config, where),
        *_zookeeper(config, where),
    ]
    return problems, list(_warnings(config, where))


def _data(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    directory = config.data.directory
    if not directory:
        yield "there is no data directory: give --data DIR, data.directory or HERDPY_DATA_DIRECTORY"
    elif "\0" in directory:
        yield f"{where('data.directory')}: data.directory has a NUL in it"


def _cluster(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    cluster = config.cluster
    if cluster.zookeeper and not all(_HOST_PORT.fullmatch(one) for one in cluster.zookeeper.split(",")):
        yield (
            f"{where('cluster.zookeeper')}: cluster.zookeeper = {cluster.zookeeper!r} is not of the form "
            '"host:port,host:port"'
        )
    for name in ("root", "ledgers_root"):
        path = getattr(cluster, name)
        if not _PATH.fullmatch(path):
            yield f'{where(f"cluster.{name}")}: cluster.{name} = {path!r} is no path such as "/herdpy"'
    if cluster.node and not NODE_ID.fullmatch(cluster.node):
        yield (
            f"{where('cluster.node')}: cluster.node = {cluster.node!r}: an id has letters, digits, "
            "and _ . : - after the first character, 128 at most"
        )
    if not NAME.fullmatch(cluster.tablespace):
        yield (
            f"{where('cluster.tablespace')}: cluster.tablespace = {cluster.tablespace!r}: a name has "
            "letters, digits, _ and -, 63 at most, and begins with a letter or _"
        )
    if cluster.secret_file:
        try:
            read_secret(Path(cluster.secret_file))
        except OSError as error:
            yield f"{where('cluster.secret_file')}: cluster.secret_file: {error}"
    if not cluster.ack_quorum <= cluster.write_quorum <= cluster.ensemble:
        yield (
            f"{where('cluster.ack_quorum')}: cluster.ack_quorum = {cluster.ack_quorum} <= "
            f"cluster.write_quorum = {cluster.write_quorum} <= "
            f"cluster.ensemble = {cluster.ensemble} must hold"
        )
    if cluster.lease_s > cluster.session_timeout_s:
        yield (
            f"{where('cluster.lease_s')}: cluster.lease_s = {cluster.lease_s} is longer than "
            f"cluster.session_timeout_s = {cluster.session_timeout_s}: a new leader would wait longer"
            f" than necessary"
        )


def _zookeeper(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    zookeeper = config.zookeeper
    files = {name: getattr(zookeeper, name) for name in ("ca", "certificate", "key")}
    if not zookeeper.tls:
        for name in filter(files.get, files):
            yield f"{where(f'zookeeper.{name}')}: zookeeper.{name} needs zookeeper.tls = true"
        return
    if bool(zookeeper.certificate) != bool(zookeeper.key):
        has, lacks = ("certificate", "key") if zookeeper.certificate else ("key", "certificate")
        yield (
            f"{where(f'zookeeper.{has}')}: zookeeper.{has} is given without zookeeper.{lacks}: "
            "a certificate is shown with its key, or none is"
        )
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def no_password() -> str:
        raise ValueError("the key has a password")

    name = "ca"
    try:
        if zookeeper.ca:
            context.load_verify_locations(zookeeper.ca)
        name = "certificate"
        if zookeeper.certificate:
            context.load_cert_chain(zookeeper.certificate, zookeeper.key, no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        cause = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        yield f"{where(f'zookeeper.{name}')}: zookeeper.{name} {files[name]} cannot be used: {cause}"


def _tls(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    tls = config.tls
    if bool(tls.certificate) != bool(tls.key):
        has, lacks = ("certificate", "key") if tls.certificate else ("key", "certificate")
        yield f"{where(f'tls.{has}')}: tls.{has} is given without tls.{lacks}: TLS needs both, or neither"
        return
    if not tls.certificate:
        for name in ("required", "client_ca"):
            if getattr(tls, name):
                yield f"{where(f'tls.{name}')}: tls.{name} needs tls.certificate and tls.key"
        return
    unreadable = False
    for name in ("certificate", "key", "client_ca"):
        path = getattr(tls, name)
        if not path:
            continue
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            unreadable = True
            yield f"{where(f'tls.{name}')}: tls.{name}: {path} cannot be read: {error.strerror}"
    if unreadable:
        return
    try:
        _try_tls(config)
    except (ssl.SSLError, OSError, ValueError) as error:
        yield (
            f"{where('tls.certificate')}: tls.certificate {tls.certificate} and tls.key {tls.key} "
            f"cannot be used as a certificate and its key: {getattr(error, 'reason', None) or error}"
        )


def _try_tls(config: ServerConfig) -> None:
    """Use the files as a server will.

    Raises:
        OSError: (ssl.SSLError is one) they cannot be read or do not belong together; ValueError when the
            key has a password.
    """

    def no_password() -> str:
        raise ValueError("the key has a password, and the server cannot prompt for it")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.tls.certificate, config.tls.key, password=no_password)
    if config.tls.client_ca:
        context.load_verify_locations(config.tls.client_ca)


def _console(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    if config.http.tls and not config.tls.certificate:
        yield f"{where('http.tls')}: http.tls needs tls.certificate and tls.key"
    console = config.console
    for name, other in (("directory", "commands"), ("commands", "directory"), ("url", "directory")):
        if getattr(console, f"drill_{name}") and not getattr(console, f"drill_{other}"):
            yield f"{where(f'console.drill_{name}')}: console.drill_{name} needs console.drill_{other}"
    if console.drill_commands and not os.access(console.drill_commands, os.R_OK):
        yield (
            f"{where('console.drill_commands')}: console.drill_commands: {console.drill_commands} cannot be"
            " read"
        )
    if not console.oidc_issuer:
        for name in ("client_id", "client_secret_file", "ca"):
            if getattr(console, f"oidc_{name}"):
                yield f"{where(f'console.oidc_{name}')}: console.oidc_{name} needs console.oidc_issuer"
        return
    issuer = urlsplit(console.oidc_issuer)
    is_safe = issuer.scheme == "https" or (issuer.scheme == "http" and is_loopback(issuer.hostname or ""))
    if not is_safe or not issuer.hostname or issuer.query or issuer.fragment:
        yield (
            f"{where('console.oidc_issuer')}: console.oidc_issuer = {console.oidc_issuer!r} is no https URL"
            " (http is for this machine)"
        )
    if not console.oidc_client_id:
        yield f"{where('console.oidc_issuer')}: console.oidc_issuer needs console.oidc_client_id"
    if "openid" not in console.oidc_scopes:
        yield f"{where('console.oidc_scopes')}: console.oidc_scopes lacks openid"
    for name in ("oidc_client_secret_file", "oidc_ca"):
        path = getattr(console, name)
        if path and not os.access(path, os.R_OK):
            yield f"{where(f'console.{name}')}: console.{name}: {path} cannot be read"


def _rules(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    place = where("authentication.rules")
    if not config.authentication.rules:
        yield f"{place}: authentication.rules is empty: no client could connect"
    for number, rule in enumerate(config.authentication.rules, 1):
        try:
            networks_of(rule)
        except ValueError as error:
            yield (
                f"{place}: authentication.rules, rule {number}: network = {rule.network!r}: {error}; "
                'allowed: "loopback", "all", or a network such as "10.0.0.0/8"'
            )
        if not rule.user:
            yield f'{place}: authentication.rules, rule {number}: user is empty; "all" is everybody'
        if (rule.method == "cert" or rule.clientcert) and not config.tls.client_ca:
            yield f"{place}: authentication.rules, rule {number}: client certificates need tls.client_ca"
        if _is_open(rule) and not config.authentication.trust_other_machines:
            yield (
                f"{place}: authentication.rules, rule {number}: clients from other machines would be"
                f" trusted without a password: set authentication.trust_other_machines = true if that"
                f" is intended"
            )


def _is_open(rule: HostRule) -> bool:
    """Whether it lets strangers of other machines in."""
    trusts = rule.method == "trust" and not rule.clientcert
    return trusts and not all(network.is_loopback for network in networks_or_none(rule))


def _audit(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    audit = config.audit
    if not audit.classes or not audit.file:
        return
    path = Path(audit.file)
    target = path if path.exists() else path.parent
    if not target.exists() or not os.access(target, os.W_OK) or path.is_dir():
        yield f"{where('audit.file')}: audit.file: {path} cannot be written"
    if config.logging.file and path == Path(config.logging.file):
        yield f"{where('audit.file')}: audit.file is logging.file as well"


def _backup(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    backup = config.backup
    if not backup.key_file:
        return
    if not backup.url:
        yield f"{where('backup.key_file')}: backup.key_file needs backup.url"
    try:
        read_key(Path(backup.key_file))
    except (OSError, RepositoryError) as error:
        yield f"{where('backup.key_file')}: backup.key_file: {error}"


def networks_of(rule: HostRule) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks that a rule is about; ValueError when they cannot be read."""
    match rule.network:
        case "all":
            return ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
        case "loopback":
            return ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")
        case text:
            return (ipaddress.ip_network(text),)


def _places(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    """Two listeners at one address and port, or one without an address."""
    taken: dict[int, list[tuple[str, str]]] = {}
    if not config.postgres.addresses:
        yield f"{where('postgres.addresses')}: postgres.addresses is empty: no client could connect"
    for name, address, port in listeners(config):
        if not address:
            key = "postgres.addresses" if name == "postgres" else f"{name}.address"
            yield f'{where(key)}: {key}: "" is no address'
        for other, at in taken.get(port, ()) if port else ():
            if at == address or not _EVERYWHERE.isdisjoint({at, address}):
                yield f"{where(f'{name}.port')}: {name}.port = {port} is {other}.port as well, on {address}"
        taken.setdefault(port, []).append((name, address))
    directory = config.postgres.unix_directory
    if directory and not Path(directory).is_dir():
        yield f"{where('postgres.unix_directory')}: postgres.unix_directory: {directory} is no directory"


def listeners(config: ServerConfig) -> list[tuple[str, str, int]]:
    """(section, address, port) of everything that listens."""
    found = [("postgres", address, config.postgres.port) for address in config.postgres.addresses]
    if config.http.enabled:
        found.append(("http", config.http.address, config.http.port))
    if config.grpc.enabled:
        found.append(("grpc", config.grpc.address, config.grpc.port))
    return found


def _tracing(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    tracing = config.tracing
    if not tracing.endpoint:
        return
    key = "tracing.endpoint"
    try:
        found = urlsplit(tracing.endpoint)
        is_address = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        yield f"{where(key)}: {key}: {tracing.endpoint} is no URL with http:// or https://"
    elif tracing.protocol == "http/protobuf" and found.path in ("", "/"):
        complete = f"{tracing.endpoint.rstrip('/')}/v1/traces"
        yield f"{where(key)}: {key}: of http/protobuf it has a path, as {complete}"
    path = tracing.headers_file
    if path and not os.access(path, os.R_OK):
        yield f"{where('tracing.headers_file')}: tracing.headers_file: {path} cannot be read"


def _log_file(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    if not config.logging.file:
        return
    path = Path(config.logging.file)
    target = path if path.exists() else path.parent
    if not target.exists() or not os.access(target, os.W_OK) or path.is_dir():
        yield f"{where('logging.file')}: logging.file: {path} cannot be written"


def _warnings(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    if any(map(_is_open, config.authentication.rules)):
        yield (f"{where('authentication.rules')}: clients from other machines are trusted without a password")
    remote = [address for address in config.postgres.addresses if not is_loopback(address)]
    if remote and not config.tls.certificate:
        yield f"{where('postgres.addresses')}: other machines can connect to {remote[0]}, and there is no TLS"
    http = config.http
    if http.enabled and config.console.enabled and not is_loopback(http.address) and not http.tls:
        yield (
            f"{where('http.address')}: other machines can reach the console at {http.address}, without"
            " TLS: they cannot log in by a password unless console.allow_plain_password is set"
        )
    needed = config.storage.query_memory_bytes + config.storage.column_cache_bytes
    if config.workers.memory_bytes < needed:
        yield (
            f"{where('workers.memory_bytes')}: workers.memory_bytes is less than storage.query_memory_bytes "
            "and storage.column_cache_bytes together: queries may run out of memory below these limits"
        )
    grpc = config.grpc
    if grpc.enabled and not is_loopback(grpc.address) and not config.tls.certificate:
        yield (
            f"{where('grpc.address')}: other machines can connect to {grpc.address}, and there is no TLS: "
            "they cannot send passwords"
        )


def networks_or_none(rule: HostRule) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """As :func:`networks_of`; nothing for a rule that is reported as a problem anyway."""
    try:
        return networks_of(rule)
    except ValueError:
        return ()


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address in _LOOPBACK_NAMES
