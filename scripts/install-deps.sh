#!/usr/bin/env bash
# Installs the missing ones of the Debian packages that stepcast needs; prints nothing and is quick if none is missing. Installs a
# browser last, which only the test of pages needs: without one that test is skipped.
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
    libgnuplot-iostream-dev gnuplot-nox fonts-dejavu-core
    node-d3-scale node-d3-selection node-d3-axis
    catch2 libbenchmark-dev mandoc dpkg-dev file
    python3-dev python3-venv pybind11-dev
)

if ! command -v dpkg-query >/dev/null; then
    echo "install-deps: this is no Debian system; install by hand what these packages hold: ${packages[*]}" >&2
    exit 1
fi

browser=(chromium-headless-shell python3-minimal)
formatter=(clang-format-14)

missing=()
find_missing() {
    missing=()
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ]
}
find_missing "${packages[@]}" "${browser[@]}" "${formatter[@]}" || exit 0
find_missing "${packages[@]}" || true

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        [ ${#missing[@]} -gt 0 ] || exit 0
        echo "install-deps: missing ${missing[*]}; run as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }
install() {
    echo "install-deps: installing $*" >&2
    { apt update && apt install -y --no-install-recommends "$@"; } </dev/null >"$log" 2>&1
}
if [ ${#missing[@]} -gt 0 ] && ! install "${missing[@]}"; then
    tail -n 20 "$log" >&2
    echo "install-deps: apt-get could not install ${missing[*]}; the lines above are its last" >&2
    exit 1
fi
if find_missing "${browser[@]}" && ! install "${missing[@]}"; then
    echo "install-deps: no ${missing[*]}: the test of report.html in a browser will be skipped" >&2
fi
if find_missing "${formatter[@]}" && ! install "${missing[@]}"; then
    echo "install-deps: no ${missing[*]}: the test of the sources' format will be skipped" >&2
fi
