#!/usr/bin/env bash
# build_test.sh SOURCE: scripts/build.sh compiles batches of files in a first build of release, and as the build folder says later;
# never in other presets, whose builds show what a file lacks, nor beside a compiler cache. CMake is a stand-in that notes its words.
set -uo pipefail
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir -p "$here/scripts" "$here/tools"
cp "$1/scripts/build.sh" "$here/scripts/"
cat >"$here/tools/cmake" <<CMAKE
#!/usr/bin/env bash
echo "\$*" >>"$here/said"
[ "\$1" != --preset ] || touch "$here/build/\$2/CMakeCache.txt"
CMAKE
chmod +x "$here/tools/cmake"
export PATH=$here/tools:$PATH
unset CMAKE_CXX_COMPILER_LAUNCHER
wrong=0
expect() { # expect WORDS PRESET: how CMake is called first
    : >"$here/said"
    "$here/scripts/build.sh" "$2"
    [ "$(head -n 1 "$here/said")" = "$1" ] || { echo "expected cmake $1, found cmake $(head -n 1 "$here/said")"; wrong=1; }
}

expect '--preset release -DSTEPCAST_UNITY=ON' release
expect '--preset release' release
for preset in dev asan tsan; do expect "--preset $preset" $preset; done
rm -r "$here/build"
CMAKE_CXX_COMPILER_LAUNCHER=ccache expect '--preset release' release
exit $wrong
