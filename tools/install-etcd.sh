#!/bin/sh
# bench/cluster.py failover measures etcd beside HerdPy. Install Debian's as root, or name it.
set -eu
command -v etcd >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Of a runlevel in which the package starts no service of its own.
    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends etcd-server >/dev/null
else
    echo "the benchmark of failover runs etcd: install the package etcd-server and call it again" >&2
    exit 1
fi
