#!/bin/sh
# The tests of the console look at its pages in a real Chromium. Install Debian's as root, or name it.
set -eu
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null && command -v chromedriver >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        chromium chromium-driver fonts-dejavu-core >/dev/null
else
    echo "the tests look at the console in a browser: install chromium and its chromedriver and call make again" >&2
    exit 1
fi
