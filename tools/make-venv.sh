#!/bin/sh
# Make VENV with PYTHON and put uv into it. Installs python3-venv as root on Debian, or names it.
set -eu
python=$1 venv=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "HerdPy needs Python 3.11 or newer; $python is $("$python" --version 2>&1). Name another: make PYTHON=python3.12" >&2
    exit 1
}
if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        "$python" -m venv --clear "$venv"
    else
        echo "$python cannot make a virtual environment: install the package python3-venv (Debian, Ubuntu) and call make again" >&2
        exit 1
    fi
fi
"$venv/bin/python" -m pip install --quiet uv==0.13.8
