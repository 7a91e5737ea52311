#!/usr/bin/env bash
# Packs what a GPU machine without network lacks into .deps/ (some 40 MB):
#   .deps/debs             the Debian packages a build there needs besides the CUDA toolkit, g++, cmake and ninja
#   .deps/program.tar.xz   the release build as it is here, with every library that is neither CUDA's nor the C and C++
#                          runtime's
# scripts/gpu-run.sh uses the program if it starts there, else it builds one. Never unpack the packages over /.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
cd "$(dirname "$0")/.."
deps=.deps

packages=(libtomlplusplus-dev libtomlplusplus3 libcli11-dev nlohmann-json3-dev libfmt-dev libfmt9 libboost1.74-dev
    libgnuplot-iostream-dev libboost-{iostreams,filesystem,system}1.74{-dev,.0} catch2)

rm -rf "$deps/debs" "$deps/program" "$deps/program.tar.xz"
mkdir -p "$deps/debs" "$deps/program/lib"
(cd "$deps/debs" && apt-get download -qq "${packages[@]}")

binaries=(build/release/stepcast)
for extra in build/release/libexec_cuda.so build/release/tests/gpu_ops; do
    [ ! -f "$extra" ] || binaries+=("$extra")
done
if [ -x "${binaries[0]}" ]; then
    cp "${binaries[@]}" "$deps/program/"
    gnuplot=$(command -v gnuplot || true)
    [ -z "$gnuplot" ] || cp -L "$gnuplot" "$deps/program/gnuplot"
    # Leaves out the libraries of CUDA and of the C and C++ runtime, with glibc's minor ones: the machine has its own, and parts
    # of two glibc versions do not work together.
    for file in "$deps"/program/*; do
        [ ! -f "$file" ] || ldd "$file" 2>/dev/null || true
    done | awk '$3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|stdc\+\+|gcc_s)|ld-linux[^/]*)\.so' |
        grep -vE '/lib(cuda|cudart|cublas|cublasLt|nvidia-[^/]*|nvrtc|nvJitLink|nccl)\.so' |
        xargs -r cp -L -t "$deps/program/lib"
    # Without a font gnuplot draws pictures without a word.
    font=$(fc-match -f '%{file}' sans 2>/dev/null || true)
    [ ! -f "$font" ] || { mkdir "$deps/program/fonts" && cp -L "$font" "$deps/program/fonts/"; }
    cat >"$deps/program/fonts.conf" <<'FONTS'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir prefix="relative">fonts</dir><cachedir>/tmp/stepcast-fonts</cachedir></fontconfig>
FONTS
    # The program finds libraries in its own folder, and CUDA's where this machine has them.
    cat >"$deps/program/run" <<'RUN'
#!/usr/bin/env bash
# run PROGRAM [ARGUMENT...]: one of the programs here, with the libraries next to it.
here=$(cd "$(dirname "$0")" && pwd)
program=$1
shift
export FONTCONFIG_FILE=$here/fonts.conf LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PATH=$here:$PATH
exec "$here/$program" "$@"
RUN
    chmod +x "$deps/program/run"
    strip --strip-unneeded "$deps"/program/{stepcast,*.so,gpu_ops,lib/*} 2>/dev/null || true
    tar -C "$deps" -cf - program | xz -T2 -3 >"$deps/program.tar.xz"
else
    echo "pack-offline: no build/release/stepcast; only packages were gathered (scripts/build.sh release makes it)" >&2
fi
rm -rf "$deps/program"
du -sh "$deps"/* >&2
