#!/usr/bin/env bash
# Installs the Debian packages that stepcast needs and that are missing; says nothing and is quick when none is.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail

packages=(
    g++ cmake ninja-build git
    libyaml-cpp-dev libpugixml-dev
    libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libfmt-dev
    libboost-graph-dev
    libopenblas-dev libopenmpi-dev openmpi-bin
    libeigen3-dev libceres-dev
    libsimdjson-dev libsqlite3-dev zlib1g-dev
    gnuplot-nox fonts-dejavu-core
    catch2 libbenchmark-dev mandoc
    python3-dev python3-venv pybind11-dev
)

if ! command -v dpkg-query >/dev/null; then
    echo "install-deps: this is no Debian system; install by hand what these packages hold: ${packages[*]}" >&2
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install-deps: missing ${missing[*]}; run as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

echo "install-deps: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install-deps: apt-get could not install ${missing[*]}; the lines above are its last" >&2
    exit 1
fi
