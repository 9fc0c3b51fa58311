"""The command lines of Java programs: flags for a short start and little memory, and the jars on the class
path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from herdpy.testing.jars import classpath, java

_LOGGING = Path(__file__).with_name("logging.xml")

# One collector thread, the quick compiler first, IPv4 only: many small Java processes share one small
# machine.
_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.security.egd=file:/dev/urandom",
    "-Dio.netty.allocator.numDirectArenas=1",
    "-Dio.netty.allocator.numHeapArenas=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Dlog4j2.configurationFile={_LOGGING}",
    "-Dlog4j2.disableJmx=true",
)


def java_command(
    main: str,
    arguments: Sequence[str] = (),
    *,
    options: Sequence[str] = (),
    extra_classpath: Sequence[Path] = (),
    archive: str | None = None,
) -> list[str]:
    """The command that runs class `main` with BookKeeper's jars; `options` go to the virtual machine and win
    over defaults.
    """
    path = ":".join([*map(str, extra_classpath), classpath()])
    return [java(), *_FLAGS, *options, "-cp", path, main, *arguments]
