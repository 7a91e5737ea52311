#!/usr/bin/env bash
# What is installed works from anywhere and can be taken away. Arguments: the binary, the source folder, the build folder.
source "$(dirname "$0")/expect.sh"
build=$3

cmake --install "$build" --prefix "$work/it" >log 2>&1 || fail "cmake --install: $(tail -n 3 log)"
mv it moved  # the prefix of the installation means nothing to the program
installed=$work/moved/bin/stepcast
here() { (cd / && env -u STEPCAST_HOME "$installed" "$@"); }
[ "$(here simulate moe_layer_fast_moe --json)" = "$("$stepcast" simulate moe_layer_fast_moe --json)" ] ||
    fail "the installed program predicts something else"
here show dgx-h100 >shown || fail "the installed program finds no preset"
grep -qF "$work/moved/share/stepcast/model/presets/clusters/dgx-h100.toml" shown || fail "presets are not those beside the program"
(cd / && STEPCAST_HOME="$sources/tests/data/home" "$installed" list presets) >listed 2>&1 || fail "STEPCAST_HOME: $(cat listed)"
! grep -q gpt3_175b_a100 listed || fail "STEPCAST_HOME does not override"
for file in man/man1/stepcast.1 bash-completion/completions/stepcast zsh/site-functions/_stepcast; do
    [ -s "moved/share/$file" ] || fail "nothing at share/$file"
done

mv moved it
touch it/bin/other
cmake -DMANIFEST="$build/install_manifest.txt" -P "$sources/cmake/uninstall.cmake" >log 2>&1 || fail "uninstall: $(cat log)"
[ "$(find it -type f)" = it/bin/other ] || fail "after uninstall there is: $(find it -type f | head)"
[ ! -e it/share/stepcast ] || fail "an empty share/stepcast stays"
rm -r it
cmake -DMANIFEST="$work/none" -P "$sources/cmake/uninstall.cmake" >log 2>&1 && fail "uninstall without a manifest says nothing"
grep -q 'nothing was installed' log || fail "uninstall without a manifest: $(cat log)"
# The package: what it depends on is found out, what it holds runs.
if command -v dpkg-shlibdeps >/dev/null; then
    (cd "$build" && cpack -B "$work/package") >log 2>&1 || fail "cpack: $(tail -n 3 log)"
    rm -rf "$work/package/_CPack_Packages"
    package=$(echo package/*.deb)
    dpkg-deb -f "$package" Depends | grep -q 'libc6.*libstdc++6' || fail "$package depends on: $(dpkg-deb -f "$package" Depends)"
    dpkg-deb -x "$package" unpacked
    (cd / && "$work/unpacked/usr/bin/stepcast" simulate moe_layer_fast_moe) >shown 2>&1 || fail "the packaged program: $(cat shown)"
else
    echo "skipped: dpkg-shlibdeps is not here"
fi

# The commit is known in a clone and in an archive of one; a mere copy says that it is not. Nothing is written anew without need.
mkdir -p copy/cmake
cp "$sources/cmake/commit.cmake" copy/cmake
echo '$Format:%h$' >copy/cmake/archived_commit.txt
commit() { cmake -DSOURCE="$work/copy" -DFILE="$work/commit.h" -P copy/cmake/commit.cmake >log 2>&1 && cat commit.h; }
[ "$(commit)" = '#define STEPCAST_COMMIT "unknown"' ] || fail "the commit of a copy: $(cat commit.h log)"
touch -d '2001-01-01' commit.h
before=$(stat -c %Y commit.h)
commit >/dev/null
[ "$(stat -c %Y commit.h)" = "$before" ] || fail "the commit is written anew though it is the same"
echo 3cadfd2 >copy/cmake/archived_commit.txt
[ "$(commit)" = '#define STEPCAST_COMMIT "3cadfd2"' ] || fail "the commit of an archive: $(cat commit.h log)"
finish
