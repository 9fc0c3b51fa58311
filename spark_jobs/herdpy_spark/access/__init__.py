"""From a URL to a database: its servers, its log, its tables' definitions.

============================================  ======================================================
``herdpy://host:port,host2:port2/tablespace``  servers; any one of them leads to all
``herdpy+zk://zk1,zk2/root?tablespace=name``   the cluster's ZooKeeper: works with every server stopped
``herdpy:///directory``, ``/directory``        the embedded database in a directory of this machine
============================================  ======================================================

Data passes through so: ``servers`` and ``zookeeper`` find and ask; ``errors`` is what they raise. Above
``herdpy_spark.log``, below all that reads or writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from herdpy_spark.access.errors import AccessError, told
from herdpy_spark.access.servers import Description, Node, TablespaceServers, servers_of_url
from herdpy_spark.access.zookeeper import SCHEME as _ZOOKEEPER
from herdpy_spark.access.zookeeper import find as _find_in_zookeeper
from herdpy_spark.log import LogAddress
from herdpy_spark.options import OptionError, Options
from herdpy_sql.catalog import Table

__all__ = ["AccessError", "Description", "Node", "SparkDatabase", "TablespaceServers", "find", "told"]


@dataclass(frozen=True)
class SparkDatabase:
    """A tablespace, as far as the URL alone tells; it can be pickled.

    Attributes:
        servers: that have it; None: a directory, or every server of the cluster is stopped.
        directory: of an embedded database; None: it is not one.
        log: where the log is; None: the servers are to be asked.
    """

    servers: TablespaceServers | None
    directory: str | None = None
    log: LogAddress | None = None

    def address(self) -> LogAddress:
        """Where the log is. With the ledgers' password, if the role may know it. Raises AccessError."""
        if self.log is not None:
            return self.log
        assert self.servers is not None
        return self.servers.describe().log

    def table(self, name: str) -> Table | None:
        """The definition of a table, as a server has it now; None: there is no server to ask.

        Raises:
            AccessError: there is no such table, no server answers.
        """
        if self.servers is None:
            return None
        found = self.servers.describe(name).table
        if found is None:
            raise AccessError(f'relation "{name}" does not exist', sqlstate="42P01", is_gone=True)
        return found


def find(options: Options) -> SparkDatabase:
    """The database of the option url.

    Raises:
        OptionError: the URL makes no sense.
        AccessError: nobody answers there.
    """
    if options.url.lower().startswith(_ZOOKEEPER):
        log, servers = _find_in_zookeeper(options.url, options.user, options.password)
        return SparkDatabase(servers, log=log)
    from herdpy.dbapi.errors import InterfaceError
    from herdpy.dbapi.url import DirectoryUrl, parse

    try:
        target = parse(options.url)
        if not isinstance(target, DirectoryUrl):
            return SparkDatabase(servers_of_url(options.url, options.user, options.password, options.doors))
    except InterfaceError as error:
        raise OptionError(f"the option url: {error}") from error
    return SparkDatabase(None, target.path, LogAddress.of_database(target.path))
