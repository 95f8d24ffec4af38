#!/bin/bash
# without_cuda.sh SOURCES BUILD FOLDER: HEADRACE_CUDA=OFF needs nothing of CUDA. Configures such a build
# in FOLDER and compiles what stands in for the GPU there; everything else that it would compile has
# been compiled in BUILD, so its record of dependencies (Ninja) shows every header that was read.
set -euo pipefail
sources=$1 build=$2 folder=$3
cmake -G Ninja -S "$sources" -B "$folder" -DHEADRACE_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$folder.log" 2>&1 ||
  { cat "$folder.log"; exit 1; }
grep -q 'CUDA off' "$folder.log" || { echo "the summary does not say that CUDA is off"; exit 1; }
object=kernels/CMakeFiles/headrace_kernels_cuda.dir/no_cuda.cpp.o
ninja -C "$folder" "$object" >/dev/null
[ -f "$build/build.ninja" ] || { echo "$build is not Ninja's: its dependencies are not looked at"; exit 1; }

# Objects of the build without CUDA, and what they read.
sed -n 's/^build \([^ ]*\.o\): CXX_COMPILER.*/\1/p' "$folder/build.ninja" | sort >"$folder.objects"
{ ninja -C "$build" -t deps; ninja -C "$folder" -t deps "$object"; } | awk -v list="$folder.objects" -v root="$sources/" '
  BEGIN { while ((getline line < list) > 0) { wanted[line] = 1; ++num_wanted } }
  /^[^ ].*: #deps/ { object = $1; sub(/:$/, "", object); mine = object in wanted; seen += mine; next }
  mine && NF == 1 && index($1, root) != 1 && $1 !~ /^\.\./ {
    name = $1; sub(/.*\//, "", name)
    if ($1 ~ /\/cuda(-[0-9.]+)?\// || name ~ /^(cuda|cublas|nccl|driver_types|vector_types|host_defines)/) {
      print object " reads " $1; ++bad
    }
  }
  END {
    print seen " of " num_wanted " objects looked at, " bad + 0 " headers of CUDA"
    exit bad > 0 || seen < 20
  }'
