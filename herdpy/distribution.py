"""The names under which HerdPy is installed, and the words that install it. Below every room.

The import name is ``herdpy``; on PyPI that name belongs to another project. Every hint that names a command
of pip comes from here, and tests/house holds pyproject.toml, the docs and the constants together.
"""

from __future__ import annotations

from types import MappingProxyType

NAME = "herdpydb"
"""The whole of HerdPy: it reads directories, and its extras run servers, jobs of Spark and the rest."""
CLIENT_NAME = "herdpydb-client"
"""What programs need that only talk to servers: the driver, ``herdpy.aio``, pools, SQLAlchemy's dialects."""
OURS = frozenset(
    {"herdpy", "herdpy_airflow", "herdpy_server", "herdpy_spark", "herdpy_sql", "pyspark_herdpy"}
)
"""The packages of both."""
EXTRAS = MappingProxyType(
    {
        "asn1crypto": "server",
        "confluent_kafka": "kafka",
        "cryptography": "backup",
        "fastavro": "kafka",
        "fsspec": "backup",
        "google": "bookkeeper",
        "grpc": "server",
        "grpc_health": "server",
        "grpc_reflection": "server",
        "jinja2": "server",
        "jwt": "server",
        "kazoo": "bookkeeper",
        "opentelemetry": "tracing",
        "pandas": "spark",
        "prometheus_client": "bookkeeper",
        "py4j": "spark",
        "pyiceberg": "iceberg",
        "pyspark": "spark",
        "s3fs": "lake",
        "sqlalchemy": "sqlalchemy",
        "starlette": "server",
        "textual": "top",
        "trustme": "testing",
        "uvicorn": "server",
        "uvloop": "server",
        "zstandard": "backup",
    }
)
"""By the first part of a module's name, the extra that brings it; for commands that say none themselves."""


_PACKAGES = MappingProxyType(
    {"google": "protobuf", "grpc": "grpcio", "jwt": "pyjwt", "opentelemetry": "opentelemetry-sdk"}
)


def package_of(module: str) -> str:
    """The name under which PyPI has a module of others', as far as it is another name."""
    return _PACKAGES.get(module.partition(".")[0], module)


def requirement(*extras: str, name: str = NAME) -> str:
    """What pip is given: the distribution, with extras: ``herdpydb[server,spark]``."""
    return f"{name}[{','.join(extras)}]" if extras else name


def install_line(*extras: str, name: str = NAME) -> str:
    """The command that installs the distribution with these extras, as a shell reads it."""
    named = requirement(*extras, name=name)
    return f'pip install "{named}"' if extras else f"pip install {named}"


def driver_line(*extras: str) -> str:
    """:func:`install_line` of the distribution that is here: of the driver alone where it came alone."""
    from importlib.util import find_spec

    return install_line(*extras, name=CLIENT_NAME if find_spec("herdpy_server") is None else NAME)


def missing_package(error: BaseException) -> str | None:
    """The first part of the name of a module of others' that is not installed; None: it is another error."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    return None if error.name.partition(".")[0] in OURS else error.name.partition(".")[0]


def line_for(module: str) -> str:
    """The command that installs what brings a module of others'."""
    top = module.partition(".")[0]
    return install_line(EXTRAS[top]) if top in EXTRAS else install_line()
