#!/bin/bash
# pack.sh BUILD BUNDLE [HEADRACE KERNELS_TEST]: makes BUNDLE.tar.gz (under 60 MiB) of a build with CUDA, and the folder
# BUNDLE with the same in it, for a machine that has an NVIDIA driver and nothing else of ours: no network, Open MPI, HDF5
# or Python. There `bash BUNDLE/run.sh` runs everything that wants a GPU. Works without one. In the bundle:
#   bin/               headrace, the tests of its operators, mpirun and orted: stripped, looking for libraries in lib/ alone
#   lib/               every library that they need, but for the C library's own and what is listed in lib/left_out
#   lib/.../openmpi3/  Open MPI's plugins for ranks of one machine
#   golden/, models/   tiny checkpoints with their tokenizers; shapes of real models, to be filled with random weights
# HEADRACE and KERNELS_TEST take the places of the build's programs: the bundle's own test packs emulated ones.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
[ $# -ge 2 ] || { echo "pack.sh BUILD BUNDLE [HEADRACE KERNELS_TEST]" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/launch/packages.sh"
require_packages patchelf
build=$(cd "$1" && pwd)
bundle=$2
headrace=${3:-$build/launch/headrace}
kernels_test=${4:-$build/tests/kernels/cuda/kernels_gpu_test}
most_bytes=$((60 * 1024 * 1024))
# Larger ones have to be found on the GPU's machine (cuBLASLt: 516 MiB, NCCL: 208 MiB).
most_library_bytes=$((24 * 1024 * 1024))

# What any Linux machine has, and must have of its own: these fit its kernel and its loader.
is_of_the_system() {
  case $1 in
    ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so* | libutil.so* | libcuda.so*) true ;;
    *) false ;;
  esac
}

# Plugins for other machines, networks and schedulers, which would bring libraries of their own.
is_of_a_network() {
  case $1 in
    *_ofi.so | *_ucx.so | *_psm.so | *_psm2.so | *_openib.so | *_flux.so | *_slurm.so | *_gridengine.so | *_jsm.so) true ;;
    mca_memheap_* | mca_scoll_* | mca_spml_* | mca_sshmem_* | *monitoring* | libompi_dbg_msgq.so) true ;;
    *) false ;;
  esac
}

# add_libraries FILE: what it needs, and what that needs, into lib/.
add_libraries() {
  local name path
  while read -r name path; do
    if is_of_the_system "$name" || [ -e "$bundle/lib/$name" ]; then continue; fi
    [ -n "$path" ] || { echo "pack.sh: $1 needs $name, which is not found" >&2; exit 1; }
    if [ "$(stat -Lc %s "$path")" -gt $most_library_bytes ]; then
      grep -qsx "$name" "$bundle/lib/left_out" || echo "$name" >>"$bundle/lib/left_out"
      continue
    fi
    cp -L "$path" "$bundle/lib/$name"
  done < <(ldd "$1" | awk '$2 == "=>" { print $1, ($3 ~ /^\// ? $3 : "") }')
}

# Where Open MPI, moved to a prefix, looks for something: below it.
moved() {
  OPAL_PREFIX=/prefix ompi_info --path "$1" | awk '{ sub("^/prefix/", "", $2); print $2 }'
}

rm -rf "$bundle" "$bundle.tar.gz"
mkdir -p "$bundle/bin" "$bundle/lib"
bundle=$(cd "$bundle" && pwd)
touch "$bundle/lib/left_out"
declare -A programs=([headrace]=$headrace [kernels_gpu_test]=$kernels_test [mpirun]=$(readlink -f "$(command -v orterun)")
  [orted]=$(readlink -f "$(command -v orted)"))
for name in "${!programs[@]}"; do
  [ -x "${programs[$name]}" ] || { echo "pack.sh: no ${programs[$name]}: build it first" >&2; exit 2; }
  cp -L "${programs[$name]}" "$bundle/bin/$name"
  add_libraries "${programs[$name]}"
done

plugins=$(moved pkglibdir)
mkdir -p "$bundle/$plugins" "$bundle/$(moved pkgdatadir)"
for plugin in "$(ompi_info --path pkglibdir | awk '{ print $2 }')"/*.so; do
  is_of_a_network "$(basename "$plugin")" && continue
  cp -L "$plugin" "$bundle/$plugins/"
  add_libraries "$plugin"
done
cp -L "$(ompi_info --path pkgdatadir | awk '{ print $2 }')"/help-*.txt "$bundle/$(moved pkgdatadir)/"

# Libraries that are loaded with their first call, so that no list of needed ones names them.
cuda=$(ldd "$headrace" | awk '$1 ~ /^libcudart/ { sub(".*so.", "", $1); print $1 }')
for name in "libcublasLt.so.$cuda" libnccl.so.2; do
  ! grep -qa "${name%.*}\." "$headrace" || echo "$name" >>"$bundle/lib/left_out"
done

# Stripped first: patchelf leaves an order of sections that strip does not know.
while IFS= read -r -d '' file; do
  chmod u+w "$file"
  strip --strip-unneeded "$file" 2>/dev/null || true
  up=$(realpath -s --relative-to="$(dirname "$file")" "$bundle/lib")
  # The older kind of path, which the libraries of a library follow as well.
  patchelf --force-rpath --set-rpath "\$ORIGIN/$up" "$file"
done < <(find "$bundle/bin" "$bundle/lib" -type f \( -name '*.so*' -o -path '*/bin/*' \) -print0)

# The C library that the machine must have: the newest version that any file asks for.
find "$bundle/bin" "$bundle/lib" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//' >"$bundle/lib/least_glibc"

cp -r "$root/tests/gpu/models" "$root/tests/gpu/requests.jsonl" "$root/tests/gpu/run.sh" "$bundle/"
mkdir "$bundle/golden"
for folder in "$root"/tests/data/golden/*/ "$root"/tests/data/golden_families/*/; do
  cp -r "$folder" "$bundle/golden/"
done
rm -f "$bundle"/golden/*/expected.json

tar -C "$(dirname "$bundle")" --sort=name --owner=0 --group=0 -czf "$bundle.tar.gz" "$(basename "$bundle")"
bytes=$(stat -c %s "$bundle.tar.gz")
echo "$bundle.tar.gz: $((bytes / 1048576)) MiB, $(find "$bundle" -type f | wc -l) files; for glibc $(cat "$bundle/lib/least_glibc") or later;" \
  "to be found on the GPU's machine: $(paste -sd ' ' "$bundle/lib/left_out")"
[ "$bytes" -le $most_bytes ] || { echo "pack.sh: that is more than 60 MiB" >&2; exit 1; }
