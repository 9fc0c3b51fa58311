"""A real broker of Apache Kafka, alone: controller and broker in one process (KRaft).

Its directory is written by hand rather than by `kafka-storage format`, which costs the start of a Java
machine. Format: Kafka's metadata/properties/MetaProperties.java.
"""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Self

from herdpy.testing.java import JavaCommand, kafka_jars, write_configuration
from herdpy.testing.network import LOOPBACK
from herdpy.testing.process import PortReservation
from herdpy.testing.server import JavaServer

_OPTIONS = ("-Xms32m", "-Xmx256m")
_NODE = 1


class KafkaBroker(JavaServer):
    """Kafka on one port. `with KafkaBroker(directory) as kafka: ...` starts and stops it."""

    def __init__(self, directory: Path) -> None:
        super().__init__("Kafka", directory)
        self._controller = PortReservation(LOOPBACK.address)
        data = directory / "data"
        data.mkdir(exist_ok=True)
        marks = data / "meta.properties"
        if not marks.exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            write_configuration(marks, {"version": 1, "cluster.id": cluster, "node.id": _NODE})
        self._configuration = directory / "server.properties"
        write_configuration(self._configuration, self._settings(data))

    def _settings(self, data: Path) -> dict[str, object]:
        controller = f"{self.address}:{self._controller.port}"
        return {
            "process.roles": "broker,controller",
            "node.id": _NODE,
            "controller.quorum.voters": f"{_NODE}@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.hostport},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.hostport}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": data,
            # One broker has one replica of everything.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }

    def start(self) -> None:
        """Start the broker and wait until it accepts connections; does nothing when it runs. Raises
        StartError.
        """
        self._launch(
            JavaCommand(
                "kafka", "kafka.Kafka", [str(self._configuration)], options=_OPTIONS, jars_at=kafka_jars()
            )
        )
        self._await_listening()

    def __enter__(self) -> Self:
        self.start()
        return self

    def close(self) -> None:
        """Stop the broker and give its ports back. May be called twice."""
        try:
            super().close()
        finally:
            self._controller.close()
