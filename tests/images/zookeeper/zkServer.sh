#!/usr/bin/env bash
# `zkServer.sh start-foreground` of ZooKeeper, with the variables that the image sets.
set -euo pipefail
[ "${1:-}" = start-foreground ] || { echo "this stand-in knows start-foreground" >&2 && exit 2; }
exec java ${SERVER_JVMFLAGS:--Xmx256m} -Djava.net.preferIPv4Stack=true \
    -Dlog4j2.configurationFile=/apache-zookeeper/logging.xml -cp "/apache-zookeeper/lib/*" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "${ZOO_CONF_DIR:-/conf}/zoo.cfg"
