"""What must hold between settings, and of the files and addresses that they name."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

from herdpy_server.config.sections import Rule, ServerConfig

_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})


def check(config: ServerConfig, where: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Problems and warnings of a configuration whose single values are right.

    Args:
        where: where a setting (by its full name) was given, for the messages.
    """
    problems = [
        *_data(config, where),
        *_tls(config, where),
        *_rules(config, where),
        *_places(config, where),
        *_log_file(config, where),
    ]
    return problems, list(_warnings(config, where))


def _data(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    directory = config.data.directory
    if not directory:
        yield "there is no data directory: give --data DIR, data.directory or HERDPY_DATA_DIRECTORY"
    elif "\0" in directory:
        yield f"{where('data.directory')}: data.directory has a NUL in it"


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
        tls_context(config)
    except (ssl.SSLError, OSError, ValueError) as error:
        yield (
            f"{where('tls.certificate')}: tls.certificate {tls.certificate} and tls.key {tls.key} "
            f"cannot be used as a certificate and its key: {getattr(error, 'reason', None) or error}"
        )


def tls_context(config: ServerConfig) -> ssl.SSLContext | None:
    """What TLS is spoken with; None when there is none.

    Raises:
        OSError: (ssl.SSLError is one) the files cannot be read or do not belong together.
    """
    tls = config.tls
    if not tls.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, config)
    if tls.client_ca:
        context.load_verify_locations(tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_certificate(context: ssl.SSLContext, config: ServerConfig) -> None:
    """Read certificate and key into a context; connections that begin later use them.

    Raises:
        OSError: (ssl.SSLError is one) the files cannot be read or do not belong together; ValueError
            when the key has a password.
    """

    def no_password() -> str:
        raise ValueError("the key has a password, and there is nobody to ask for it")

    context.load_cert_chain(config.tls.certificate, config.tls.key, password=no_password)


def _rules(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    place = where("authentication.rules")
    if not config.authentication.rules:
        yield f"{place}: authentication.rules is empty: nobody could connect"
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


def networks_of(rule: Rule) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks that a rule is about; ValueError when they cannot be read."""
    match rule.network:
        case "all":
            return ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
        case "loopback":
            return ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")
        case text:
            return (ipaddress.ip_network(text),)


def _places(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    """Two doors at one address and port, or a door nowhere."""
    taken: dict[int, list[tuple[str, str]]] = {}
    for name, enabled, address, port in doors(config):
        if not enabled:
            continue
        if not address:
            yield f"{where(f'{name}.address')}: {name}.address is empty: nobody could connect"
        for other, at in taken.get(port, ()) if port else ():
            if at == address or not _EVERYWHERE.isdisjoint({at, address}):
                yield f"{where(f'{name}.port')}: {name}.port = {port} is {other}.port as well, on {address}"
        taken.setdefault(port, []).append((name, address))
    directory = config.postgres.unix_directory
    if directory and not Path(directory).is_dir():
        yield f"{where('postgres.unix_directory')}: postgres.unix_directory: {directory} is no directory"


def doors(config: ServerConfig) -> list[tuple[str, bool, str, int]]:
    """(section, whether it is served, address, port) of everything that listens."""
    postgres, grpc, http = config.postgres, config.grpc, config.http
    return [
        ("postgres", True, postgres.address, postgres.port),
        ("grpc", grpc.enabled, grpc.address, grpc.port),
        ("http", http.enabled, http.address, http.port),
    ]


def _log_file(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    if not config.logging.file:
        return
    path = Path(config.logging.file)
    target = path if path.exists() else path.parent
    if not target.exists() or not os.access(target, os.W_OK) or path.is_dir():
        yield f"{where('logging.file')}: logging.file: {path} cannot be written"


def _warnings(config: ServerConfig, where: Callable[[str], str]) -> Iterator[str]:
    open_rules = [
        rule
        for rule in config.authentication.rules
        if rule.method == "trust" and not all(network.is_loopback for network in networks_or_none(rule))
    ]
    if open_rules:
        yield (f"{where('authentication.rules')}: clients from other machines are trusted without a password")
    address = config.postgres.address
    if address and not is_loopback(address) and not config.tls.certificate:
        yield f"{where('postgres.address')}: other machines can connect to {address}, and there is no TLS"


def networks_or_none(rule: Rule) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """As :func:`networks_of`; nothing for a rule that is told as a problem anyway."""
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
