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
cmake -DMANIFEST="$work/none" -P "$sources/cmake/uninstall.cmake" >log 2>&1 && fail "uninstall without a manifest says nothing"
grep -q 'nothing was installed' log || fail "uninstall without a manifest: $(cat log)"
finish
