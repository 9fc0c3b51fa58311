#!/bin/sh
# The tests check dashboards and alerts with a real Prometheus, and promtool. Install Debian's as root, or name it.
set -eu
command -v promtool >/dev/null && command -v prometheus >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Of a runlevel in which the package starts no service of its own.
    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends prometheus >/dev/null
else
    echo "the tests run Prometheus: install the package prometheus and call make again" >&2
    exit 1
fi
