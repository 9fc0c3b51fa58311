#!/bin/sh
# The differential tests run a real PostgreSQL, as reference. Install Debian's as root, or name it.
set -eu
for bin in /usr/lib/postgresql/*/bin/initdb; do [ -x "$bin" ] && exit 0; done
command -v initdb >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null
else
    echo "the tests compare HerdPy with PostgreSQL: install the package postgresql and call make again" >&2
    exit 1
fi
