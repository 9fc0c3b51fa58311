#!/bin/sh
# bench/broker.py measures Celery on Redis beside the broker. Install Debian's as root, or name it.
set -eu
command -v redis-server >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Of a runlevel in which the package starts no service of its own.
    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends redis-server >/dev/null
else
    echo "the broker's benchmark runs Redis: install the package redis-server and call it again" >&2
    exit 1
fi
