#!/usr/bin/env bash
# Builds the pretended GPU for the CUDA build of PyTorch in a Python: build.sh PYTHON OUT [CUDA_INCLUDE]
# OUT gets one library under the names of all that PyTorch links (CUDA's runtime and driver, cuBLAS, cuDNN, NCCL ..): what
# device.cpp does not answer returns 0. Run a script on it with LD_LIBRARY_PATH=OUT. PyTorch alone is needed (pip install
# --no-deps torch), none of the nvidia packages.
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$1 out=$2 include=${3:-/usr/local/cuda/include}
mkdir -p "$out"
lib=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')/lib
shopt -s nullglob
extra=("${@:4}")   # further libraries that ask for CUDA, such as bitsandbytes'
files=("$lib"/libtorch_cuda.so "$lib"/libc10_cuda.so "$lib"/libtorch_nvshmem.so "$lib"/libtorch_cuda_linalg.so
       "$lib"/libtorch_python.so "$lib"/libtorch_cpu.so "$lib"/libcaffe2_nvrtc.so "$lib"/libtorch_global_deps.so "${extra[@]}")

# NAME or NAME@VERSION of everything that CUDA's libraries should have
for file in "${files[@]}"; do nm -D --undefined-only "$file"; done | awk '{print $2}' |
    grep -E '@(lib(cu|nv|nccl)|NVSHMEM)|^(cu|nccl|nvshmem|nvrtc|nvml|__cuda)[A-Za-z_]' | sort -u >"$out/asked.txt"
g++ -std=c++20 -O1 -Wall -fPIC -I"$include" -c "$here/device.cpp" -o "$out/device.o"
nm --defined-only "$out/device.o" | awk '$2 == "T" {print $3}' | sort >"$out/answered.txt"
sed 's/@.*//' "$out/asked.txt" | sort -u | comm -23 - "$out/answered.txt" >"$out/silent.txt"
sed 's/.*/int &(void) { return 0; }/' "$out/silent.txt" >"$out/silent.c"
gcc -fPIC -w -fno-builtin -c "$out/silent.c" -o "$out/silent.o"
grep '@' "$out/asked.txt" | awk -F@ '{of[$NF] = of[$NF] " " $1 ";"} END {for (v in of) print v " {" of[v] " };"}' >"$out/versions.map"
grep -v '@' "$out/asked.txt" | awk '{all = all " " $1 ";"} END {print "PRETENDED {" all " };"}' >>"$out/versions.map"
echo "REST { cuda*; __cuda*; cublas*; cu*; };" >> "$out/versions.map"
g++ -shared -o "$out/libpretended.so" "$out/device.o" "$out/silent.o" -Wl,--version-script="$out/versions.map" -lpthread
for file in "${files[@]}"; do readelf -d "$file"; done | sed -n 's/.*NEEDED.*\[\(lib\(cu\|nv\|nccl\)[^]]*\)\]/\1/p' | sort -u |
    while read -r name; do ln -sf libpretended.so "$out/$name"; done
