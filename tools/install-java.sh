#!/bin/sh
# The tests of the BookKeeper client run real bookies: Java 17 and Maven. Install Debian's as root, or name them.
set -eu
java_version() { "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
if command -v mvn >/dev/null && command -v javac >/dev/null && command -v java >/dev/null; then
    [ "$(java_version java)" -ge 17 ] 2>/dev/null && exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jdk-headless maven iproute2 >/dev/null
else
    echo "the tests run Apache BookKeeper: install Java 17 or newer and Maven (Debian: openjdk-17-jdk-headless maven) and call make again" >&2
    exit 1
fi
