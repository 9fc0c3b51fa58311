"""gRPC in front of tablespaces, for servers, data pipelines and operators.

server         listens, starts and stops the services
gate           every call passes it: who calls, what he may, limits, errors
caller         who calls
errors         SQLSTATEs as gRPC's codes
health         grpc.health.v1
admin          looking after the server
snapshots      copies of the store, downloaded: ``shelf`` keeps them, ``leases`` says for how long
positions      what callers have seen elsewhere
partitions     a table in parts at one moment: ``plans`` cuts it
logs           where logs are, for those who read them themselves; leases on them; published snapshots
"""

import os

# gRPC's core writes lines of its own to standard error, which are no records of this server's logs; it looks
# at this when it is imported. What concerns an operator is logged by the services.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from herdpy_server.service.node import NodeControl, Reloaded, ShownSetting
from herdpy_server.service.server import GrpcServer
from herdpy_server.service.settings import ServiceSettings

__all__ = ["GrpcServer", "NodeControl", "Reloaded", "ServiceSettings", "ShownSetting"]
