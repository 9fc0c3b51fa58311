"""``herdpy changes``: a table's changes, from its log, to standard output, a file or Kafka, without Spark.

``herdpy_spark.cdc`` does the work, and is imported when the command runs: it needs pyarrow and gRPC.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import Annotated

import typer

from herdpy.cli.errors import USAGE, CliError, handled, print_note, without_package
from herdpy.cli.target import Place, parse, spelled_out
from herdpy.imports import importing


class ChangesFormat(StrEnum):
    """What messages are."""

    JSON = "json"
    DEBEZIUM = "debezium"
    AVRO = "avro"


class OnTrimmed(StrEnum):
    """What becomes of changes that are not in the log any more."""

    ERROR = "error"
    SNAPSHOT = "snapshot"


_TableOption = Annotated[
    str, typer.Option("-t", "--table", help="The table; schema.name where it is not in public.")
]
_FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="earliest|latest|snapshot|LSN|TIME",
        help="Where to begin, if the target has nothing yet; snapshot: with the rows as they are now.",
    ),
]
_FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on as changes are committed.")]
_FormatOption = Annotated[ChangesFormat, typer.Option("--format", help="What a message is.")]
_ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="FILE|kafka://HOST:PORT/TOPIC", help="Standard output, if not given."),
]
_ToTableOption = Annotated[
    str | None,
    typer.Option("--to-table", metavar="URL", help="A database whose table is to follow this one."),
]
_IntoOption = Annotated[
    str | None, typer.Option("--into", metavar="NAME", help="The table's name there; the same, if not given.")
]
_RegistryOption = Annotated[
    str | None, typer.Option("--registry", metavar="URL", help="The schema registry, for avro.")
]
_NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="What the topic's name begins with; the tablespace's."),
]
_OnTrimmedOption = Annotated[
    OnTrimmed,
    typer.Option("--on-trimmed", help="If the log does not reach back: fail, or begin with the rows."),
]
_LeaseOption = Annotated[
    str | None,
    typer.Option(
        "--lease", metavar="DURATION", help="How long servers keep the log for a run that is stopped (10min)."
    ),
]


def changes_command(
    url: Place,
    table: _TableOption,
    begin: _FromOption = "earliest",
    follow: _FollowOption = False,
    form: _FormatOption = ChangesFormat.JSON,
    to: _ToOption = None,
    to_table: _ToTableOption = None,
    into: _IntoOption = None,
    registry: _RegistryOption = None,
    name: _NameOption = None,
    on_trimmed: _OnTrimmedOption = OnTrimmed.ERROR,
    lease: _LeaseOption = None,
) -> None:
    """Follow a table: every change, once, in the order of the log, as messages.

    They are read from the log, so it costs the servers nothing. To a file or a topic, the position is kept
    with the messages, and the next run goes on exactly there, however this one ended. docs/changes.md has the
    formats.

    \b
    Examples:
      herdpy changes ./shop --table orders
      herdpy changes herdpy://db1/shop --table orders --from latest --follow
      herdpy changes herdpy://db1/shop --table app.orders --to orders.jsonl --format debezium
      herdpy changes herdpy://db1/shop --table orders -f --from snapshot --to-table ./copy
      herdpy changes @shop --table orders -f --format debezium --to kafka://kafka1:9092/orders
      herdpy changes herdpy+zk://zk1/herdpy --table orders -f --to kafka://kafka1:9092/orders \\
          --format avro --registry http://registry:8081
    """
    text = spelled_out(url)
    assert text is not None
    target = parse(text, servers=True)
    try:
        with importing():
            from herdpy.log.errors import LogError
            from herdpy_spark.access import AccessError
            from herdpy_spark.cdc import command
            from herdpy_spark.cdc.messages import MessagesError
            from herdpy_spark.options import OptionError
    except ModuleNotFoundError as error:
        raise without_package(error, "changes") or error from error
    request = command.ChangesRequest(
        url=target.url if target.is_remote else f"herdpy://{target.path}",
        user=os.environ.get("HERDPY_USER") or None,
        password=os.environ.get("HERDPY_PASSWORD") or None,
        table=table,
        starting=begin,
        form=form.value,
        to=to,
        to_table=None if to_table is None else _database_of(to_table),
        into=into,
        registry=registry,
        name=name,
        on_trimmed=on_trimmed.value,
        lease=lease,
        forever=follow,
    )
    try:
        with _stopped_by_signals() as stop:
            run = command.follow(request, stop, print_note)
    except OptionError as error:
        raise CliError(str(error), code=USAGE) from error
    except (MessagesError, AccessError, LogError) as error:
        raise CliError(str(error)) from error
    if to is not None or to_table is not None:
        print_note(f"{run.messages:,} messages, up to {run.position}")


def _database_of(text: str) -> str:
    """What the driver connects to; CliError where the text names no database."""
    target = parse(spelled_out(text) or text, servers=True)
    return target.url if target.is_remote else str(target.path)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, so that a batch is finished; a second one interrupts."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with handled(end, signal.SIGTERM, signal.SIGINT):
        yield stop
