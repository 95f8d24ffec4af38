#!/bin/bash
# build_sanitized.sh thread|address FOLDER LIBRARY...: compiles the GPU's kernels for the
# emulator, and their tests, with clang and a sanitizer, and links FOLDER/kernels_cuda with the
# libraries (host code, which needs no sanitizer here). FOLDER also keeps the objects, for mutants.sh.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
sanitizer=$1 folder=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/kernels/cuda/compile.sh"
mkdir -p "$folder"

jobs=()
for kernel in $(kernel_names); do
  echo "#include \"kernels/cuda/$kernel.cu\"" >"$folder/$kernel.cpp"
  jobs+=("$folder/$kernel.cpp" "$folder/kernel_$kernel.o" instrumented)
done
for source in attention_test emulated_machine hosted_ops independence_test leaders_test matmul_test rows_test swap_test; do
  jobs+=("$root/tests/kernels/cuda/$source.cpp" "$folder/$source.o" instrumented)
done
for source in block emulator fiber turns; do
  jobs+=("$root/tests/cuda_emulator/$source.cpp" "$folder/$source.o" emulator)
done
export -f compile
export root sanitizer
printf '%s\n' "${jobs[@]}" | xargs -d '\n' -n 3 -P "$(nproc)" bash -euc 'compile "$@"' compile
link_test "$sanitizer" "$folder/kernels_cuda" "$folder"/*.o "$@"
