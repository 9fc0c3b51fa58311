"""A REST catalog of Iceberg, which is Java's: the one that Iceberg tests its own clients with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Self

from herdpy.testing.java import JavaCommand, iceberg_jars
from herdpy.testing.process import Child
from herdpy.testing.server import JavaServer

_OPTIONS = ("-Xms32m", "-Xmx256m")


class IcebergRest(JavaServer):
    """The catalog on one port, its list of tables in SQLite. ``with IcebergRest(directory) as rest: ...``."""

    def __init__(self, directory: Path) -> None:
        super().__init__("the REST catalog", directory)
        self.warehouse = (directory / "warehouse").as_uri()

    @property
    def options(self) -> dict[str, str]:
        """What clients are given."""
        return {"type": "rest", "uri": f"http://{self.hostport}"}

    def __enter__(self) -> Self:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        command = JavaCommand(
            "iceberg-rest",
            "org.apache.iceberg.rest.RESTCatalogServer",
            options=_OPTIONS,
            extra_classpath=[Path(spec.origin).parent / "jars/*"],
            jars_at=iceberg_jars(),
        )
        settings = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": self.warehouse,
            "CATALOG_URI": f"jdbc:sqlite:file:{self.directory}/catalog.db",
        }
        words = ["env", *(f"{name}={value}" for name, value in settings.items()), *command.argv()]
        self._command = command
        self._child = Child(self.name, words, self.log_path)
        self._child.start()
        self._await_listening()
        return self
