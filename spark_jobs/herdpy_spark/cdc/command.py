"""What ``herdpy changes`` runs: its options checked, the parts made, and the run that joins them.

Above ``follow``. It is imported by the command when it runs, for it needs pyarrow, gRPC and SQL.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from herdpy.distribution import install_line
from herdpy_spark.access import SparkDatabase, find
from herdpy_spark.cdc.debezium import DebeziumJson
from herdpy_spark.cdc.follow import Follower
from herdpy_spark.cdc.json_lines import JsonLines
from herdpy_spark.cdc.messages import ChangeFormat
from herdpy_spark.cdc.registry import SchemaRegistry
from herdpy_spark.cdc.sinks import ChangesFile, ChangesSink, ChangesStream, SinkError
from herdpy_spark.feed.driver import newest_table
from herdpy_spark.options import OptionError, Options

KAFKA = "kafka://"
SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """What is to be followed, and where to.

    Attributes:
        url, user, password: of the database; the two where the URL has none.
        starting: earliest, latest, snapshot (the table's rows first), an LSN or a time, where the target has
            nothing yet.
        form: json, debezium or avro.
        to: a file, ``kafka://...``, or None for standard output.
        to_table: URL of a database whose table is to have the rows; then ``form`` and ``to`` mean nothing.
        into: the table's name there; None: the followed one's.
        registry: of Avro schemas.
        name: what topics and Avro's names begin with; None: the tablespace.
        forever: whether to go on when everything is read.
    """

    url: str
    user: str | None
    password: str | None
    table: str
    starting: str
    form: str
    to: str | None
    registry: str | None
    name: str | None
    on_trimmed: str
    lease: str | None
    forever: bool
    to_table: str | None = None
    into: str | None = None


def follow(request: ChangesRequest, stop: threading.Event, warn: Callable[[str], None]) -> Follower:
    """Carry it out, until ``stop`` is set or all is read. The run, as it ended.

    Raises:
        OptionError, SinkError: what does not fit together, or cannot be used.
        AccessError, LogError, OSError: the database or the target fails.
    """
    if (request.form == "avro") != (request.registry is not None):
        raise OptionError("--registry is for --format avro, which needs it")
    if request.to_table is None and request.into is not None:
        raise OptionError("--into is for --to-table")
    if request.to_table is not None and (request.to is not None or request.form != "json"):
        raise OptionError("--to-table takes no --to and no --format")
    options = _options(request)
    database = find(options)
    assert options.table is not None
    assert options.starting is not None
    table = newest_table(database, options.table)
    address = database.address()
    name = request.name or address.tablespace
    topic = f"{name}.{options.table if table is None else f'{table.schema}.{table.name}'}"
    identity = {"table": options.table, "tablespace": address.tablespace, "format": request.form}
    if request.to_table is not None:
        from herdpy_spark.cdc.table_sink import ChangesTable

        own = identity | {"log": address.log_id}
        form: ChangeFormat = JsonLines()
        sink: ChangesSink = ChangesTable(request.to_table, request.into or options.table, table, own)
    else:
        form, sink = _parts(request, name, address.tablespace, topic, identity)
    try:
        if table is None and sink.position() is None and not request.forever:
            raise OptionError(f'there is no table "{options.table}" now; --follow waits for it')
        run = _follower(request, options, database, form, sink, warn)
        run.run(forever=request.forever, stop=stop)
        return run
    finally:
        sink.close()


def _follower(
    request: ChangesRequest,
    options: Options,
    database: SparkDatabase,
    form: ChangeFormat,
    sink: ChangesSink,
    warn: Callable[[str], None],
) -> Follower:
    assert options.table is not None
    assert options.starting is not None
    return Follower(
        database,
        options.table,
        form,
        sink,
        starting=options.starting,
        with_rows=request.starting == SNAPSHOT,
        on_trimmed=options.on_trimmed,
        lease_s=options.lease_s,
        warn=warn,
    )


def _options(request: ChangesRequest) -> Options:
    given = {
        "url": request.url,
        "table": request.table,
        "startingOffsets": "latest" if request.starting == SNAPSHOT else request.starting,
        "onTrimmed": request.on_trimmed,
    }
    if request.user is not None:
        given["user"] = request.user
    if request.password is not None:
        given["password"] = request.password
    if request.lease is not None:
        given["lease"] = request.lease
    return Options.parse(given, "stream")


def _parts(
    request: ChangesRequest, name: str, tablespace: str, topic: str, identity: dict[str, str]
) -> tuple[ChangeFormat, ChangesSink]:
    """The format, and the sink that takes what it makes."""
    if request.to is not None and request.to.startswith(KAFKA):
        try:
            from herdpy_spark.cdc.kafka import ChangesTopic, KafkaPlace
        except ModuleNotFoundError as error:
            raise SinkError(f"Kafka needs {error.name}: {install_line('kafka')}") from error
        try:
            place = KafkaPlace(request.to, topic)
        except ValueError as error:
            raise OptionError(f"--to: {error}") from error
        return _format(request, name, tablespace, place.topic), ChangesTopic(place, identity)
    form = _format(request, name, tablespace, topic)
    if request.to is None:
        return form, ChangesStream(sys.stdout.buffer, form)
    return form, ChangesFile(Path(request.to), form, identity)


def _format(request: ChangesRequest, name: str, tablespace: str, topic: str) -> ChangeFormat:
    if request.form == "json":
        return JsonLines()
    if request.form == "debezium":
        return DebeziumJson(name, tablespace)
    assert request.registry is not None
    try:
        from herdpy_spark.cdc.avro import DebeziumAvro

        registry = SchemaRegistry(request.registry)
    except ModuleNotFoundError as error:
        raise SinkError(f"Avro needs {error.name}: {install_line('kafka')}") from error
    except ValueError as error:
        raise OptionError(f"--registry: {error}") from error
    return DebeziumAvro(name, tablespace, topic, registry)
