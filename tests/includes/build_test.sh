#!/usr/bin/env bash
# build_test.sh SOURCE: scripts/build.sh compiles batches of files in a first build of release, and as the build folder says later;
# never in other presets, whose builds show what a file lacks, nor beside a compiler cache. CMake is a stand-in that notes its words.
# And which files a Debug build compiles without a precompiled header.
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

# Behind a precompiled header no file that includes Eigen compiles without optimisation (cmake/build_time.cmake).
cd "$1" || exit 1
with_eigen=$(grep -rlE '^#include <Eigen/' --include='*.cpp' model measured sim import exec calibrate reports cli)
[ -n "$with_eigen" ] || { echo 'expected files that include Eigen'; wrong=1; }
for file in $with_eigen; do
    grep -qE "^compile_eigen\(.*${file#*/}" "${file%%/*}/CMakeLists.txt" && continue
    echo "$file includes Eigen; expected it in compile_eigen() of ${file%%/*}/CMakeLists.txt, or a Debug build fails"
    wrong=1
done
exit $wrong
