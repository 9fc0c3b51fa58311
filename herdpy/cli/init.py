"""``herdpy init``: what it takes, and its questions where a person sits before it.

Every answer is an option. A terminal is used for the rest; elsewhere, and with ``--yes``, that has its
default. ``initial`` makes the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.initial import Answers, size, write_initial
from herdpy.cli.target import JsonOption

V = TypeVar("V")

_CLUSTER = "A member of a cluster"
_DOORS = "Where it listens"
_SAFETY = "Passwords, backups, memory"
_SHORTEST_PASSWORD = 8

Zookeeper = Annotated[
    str | None,
    typer.Option("--cluster", metavar="HOST:PORT,...", help="ZooKeeper's servers.", rich_help_panel=_CLUSTER),
]
Node = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="This server among the nodes (server-1).", rich_help_panel=_CLUSTER),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST", help="The name by which others reach this machine.", rich_help_panel=_CLUSTER
    ),
]
Bookies = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=100, help="How many bookies the cluster has (3).", rich_help_panel=_CLUSTER
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=100, help="Replicas of a new tablespace (3).", rich_help_panel=_CLUSTER
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS,...", help='Addresses of this machine, or "*" for all.', rich_help_panel=_DOORS
    ),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="For PostgreSQL's clients (5432).", rich_help_panel=_DOORS),
]
HttpPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="For health, metrics, console (8480).", rich_help_panel=_DOORS),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="For operators and Spark (8481).", rich_help_panel=_DOORS),
]
Tls = Annotated[
    str | None,
    typer.Option(
        metavar="none|self-signed|files",
        help="No TLS, a certificate made now, or --certificate and --key.",
        rich_help_panel=_DOORS,
    ),
]
Certificate = Annotated[
    Path | None, typer.Option(metavar="PEM", help="Of TLS, with its chain.", rich_help_panel=_DOORS)
]
Key = Annotated[
    Path | None, typer.Option(metavar="PEM", help="Its key, without a password.", rich_help_panel=_DOORS)
]
Superuser = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The first role, a superuser (admin).", rich_help_panel=_SAFETY),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its password is the first line.", rich_help_panel=_SAFETY),
]
NoPassword = Annotated[
    bool,
    typer.Option(
        "--no-password",
        help="Make no role: until there is one, only this machine is let in.",
        rich_help_panel=_SAFETY,
    ),
]
BackupUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help='Where backups and the log\'s archive go; "": nowhere.', rich_help_panel=_SAFETY
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help='What all its processes may take, as "8 GiB".', rich_help_panel=_SAFETY
    ),
]


def init_command(
    context: typer.Context,
    directory: Annotated[str | None, typer.Argument(metavar="[DIR]", help="The data directory.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The configuration.")] = Path(
        "server.toml"
    ),
    cluster: Zookeeper = None,
    node: Node = None,
    advertise: Advertise = None,
    bookies: Bookies = None,
    replicas: Replicas = None,
    listen: Listen = None,
    port: Port = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    tls: Tls = None,
    certificate: Certificate = None,
    key: Key = None,
    superuser: Superuser = None,
    password_file: PasswordFile = None,
    no_password: NoPassword = False,
    backup_url: BackupUrl = None,
    memory: Memory = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a commented configuration of a server, checked, and say how to go on.

    On a terminal it asks what it must know. Nothing is overwritten without --force. A password is kept as a
    SCRAM verifier in the data directory, and nowhere else.

    \b
    Examples:
      herdpy init /var/lib/herdpy
      herdpy init ./flights --yes --no-password
      herdpy init /var/lib/herdpy --cluster zk1:2181,zk2:2181,zk3:2181 --node server-1 --advertise db1
      herdpy init /var/lib/herdpy --listen "*" --tls self-signed --password-file admin.txt --yes
    """
    given = dict(context.params)
    output, force, json = (given.pop(name) for name in ("output", "force", "json"))
    write_initial(_answers(given), output, force=force, json=json)


def _answers(given: dict[str, Any]) -> Answers:
    """The answers of the options, by their names, of a terminal, and the defaults. CliError."""
    ask = _Questions(sys.stdin.isatty() and not given["yes"])
    place = ask.text("The data directory", given["directory"], "./herdpy-data", "DIR", must=True)
    question = "ZooKeeper's servers, host:port,...; empty: no cluster"
    zookeeper = ask.text(question, given["cluster"], "", "--cluster")
    member = _member(ask, given) if zookeeper else _alone(given)
    listen = ask.text(
        "Addresses to listen on", given["listen"], "*" if zookeeper else "127.0.0.1", "--listen"
    )
    port = ask.number("The port for PostgreSQL's clients", given["port"], 5432)
    http_port = ask.number("The port for health, metrics and the console", given["http_port"], 8480)
    grpc_port = ask.number("The port for gRPC", given["grpc_port"], 8481)
    certificate, key = given["certificate"], given["key"]
    implied = "files" if certificate or key else "none"
    tls = ask.choice("TLS", given["tls"], implied, ("none", "self-signed", "files"), "--tls")
    superuser, password = _first_role(ask, given, zookeeper, listen)
    question = "Where backups go (a directory or s3://...)"
    return Answers(
        directory=place,
        zookeeper=zookeeper,
        listen=tuple(one.strip() for one in listen.split(",") if one.strip()),
        port=port,
        http_port=http_port,
        grpc_port=grpc_port,
        tls=tls,
        certificate=certificate,
        key=key,
        superuser=superuser,
        password=password,
        backup_url=ask.text(question, given["backup_url"], "", "--backup-url"),
        memory_bytes=size(ask.text("Memory for all its processes", given["memory"], "", "--memory")),
        **member,
    )


def _member(ask: _Questions, given: dict[str, Any]) -> dict[str, Any]:
    host = os.uname().nodename
    return {
        "node": ask.text("The name of this node", given["node"], host.partition(".")[0], "--node"),
        "advertise": ask.text("The name by which others reach it", given["advertise"], host, "--advertise"),
        "bookies": ask.number("How many bookies there are", given["bookies"], 3),
        "replicas": ask.number("Replicas of a new tablespace", given["replicas"], 3),
    }


def _alone(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("node", "advertise", "bookies", "replicas"):
        if given[name] is not None:
            raise CliError(f"--{name} is for a member of a cluster: give --cluster too", code=USAGE)
    return {}


def _first_role(
    ask: _Questions, given: dict[str, Any], zookeeper: str, listen: str
) -> tuple[str, str | None]:
    name, file = given["superuser"], given["password_file"]
    if given["no_password"] and (file or name):
        raise CliError("--no-password makes no role: leave --superuser and --password-file out", code=USAGE)
    if zookeeper and (file or name):
        raise CliError("a cluster's roles are in its log: make the first one after the start", code=USAGE)
    if zookeeper or given["no_password"]:
        return "", None
    return ask.role(name, file, listen)


@dataclass(frozen=True)
class _Questions:
    """Asks on a terminal what no option has answered; elsewhere it takes defaults."""

    may_ask: bool

    def text(self, question: str, given: str | None, default: str, option: str, *, must: bool = False) -> str:
        """An answer; CliError that names the option where there is none and none can be had."""
        if given is not None:
            return given
        if self.may_ask:
            return str(typer.prompt(question, default=default, err=True))
        if must:
            raise CliError(f"{question.lower()} is missing: give {option}", code=USAGE)
        return default

    def number(self, question: str, given: int | None, default: int) -> int:
        """A whole number."""
        if given is None and self.may_ask:
            return int(typer.prompt(question, default=default, type=int, err=True))
        return default if given is None else given

    def choice(
        self, question: str, given: str | None, default: str, choices: tuple[str, ...], option: str
    ) -> str:
        """One of several words."""

        def chosen(text: str) -> str:
            if text not in choices:
                raise typer.BadParameter(f"one of {', '.join(choices)}")
            return text

        if given is None and self.may_ask:
            shown = f"{question} ({', '.join(choices)})"
            return str(typer.prompt(shown, default=default, value_proc=chosen, err=True))
        if given is not None and given not in choices:
            raise CliError(f"{option} takes one of {', '.join(choices)}, not {given!r}", code=USAGE)
        return default if given is None else given

    def role(self, name: str | None, file: Path | None, listen: str) -> tuple[str, str | None]:
        """The first role and its password; without one where only this machine can connect."""
        name = self.text("The first role, a superuser", name, "admin", "--superuser")
        if file is not None:
            return name, password_of(file)
        if self.may_ask:
            ask: Callable[..., Any] = typer.prompt
            return name, _long_enough(str(ask("Its password", hide_input=True, confirmation_prompt=True)))
        if not is_here(listen):
            raise CliError(
                "other machines could connect, and there would be no role with a password",
                hint="Give --password-file FILE, or --no-password and make the role after the start.",
                code=USAGE,
            )
        return "", None


def is_here(listen: str) -> bool:
    """Whether only this machine reaches these addresses."""
    return all(one.strip() in ("127.0.0.1", "::1", "localhost") for one in listen.split(","))


def password_of(file: Path) -> str:
    """The first line of a file. CliError when it cannot be read, or is too short."""
    try:
        with file.expanduser().open(encoding="utf-8") as lines:
            return _long_enough(lines.readline().rstrip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"the password cannot be read: {error}") from error


def _long_enough(password: str) -> str:
    if len(password) < _SHORTEST_PASSWORD:
        raise CliError(f"the password has fewer than {_SHORTEST_PASSWORD} characters", code=USAGE)
    return password
