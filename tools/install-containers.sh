#!/bin/sh
# The soak tests of images run them: podman with runc (which knows every layout of cgroups), networks with names, and
# mmdebstrap, which makes the images' base of Debian's packages. Install Debian's as root, or name them.
set -eu
found=yes
for program in podman runc mmdebstrap lintian; do command -v $program >/dev/null || [ -x /usr/sbin/$program ] || found=no; done
for helper in netavark aardvark-dns; do
    [ -x /usr/lib/podman/$helper ] || [ -x /usr/libexec/podman/$helper ] || found=no
done
[ $found = yes ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        podman runc netavark aardvark-dns iptables mmdebstrap debian-archive-keyring lintian >/dev/null
else
    echo "the tests run containers: install podman, runc, netavark, aardvark-dns, iptables, mmdebstrap and lintian, and call make again" >&2
    exit 1
fi
