"""gRPC in front of tablespaces, for servers, data pipelines and operators.

server         listens, starts and stops the services; health
gate           every call passes it: who calls, what he may, limits, errors
calls          what calls have in common: SQLSTATEs as gRPC's codes, positions in requests
admin          looking after the server
snapshots      copies of the store, downloaded from a shelf; ``leases`` says for how long they are kept
partitions     a table in parts at one moment, cut by plans
loads          bulk loads: staged parts, and their publishing
logs           where logs are, for those who read them themselves; leases on them; published snapshots
"""

import os

# gRPC's core writes lines of its own to standard error, which are no records of this server's logs; it looks
# at this when it is imported. What concerns an operator is logged by the services.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from herdpy_server.service.admin import NodeControl, Reloaded, ShownSetting
from herdpy_server.service.server import GrpcServer, ServiceSettings

__all__ = ["GrpcServer", "NodeControl", "Reloaded", "ServiceSettings", "ShownSetting"]
