#!/bin/bash
# run.sh BUILD [SCHEDULES]: all that can be said of the GPU's kernels without a GPU, beyond what every
# commit is tested with: all tests under so many random schedules (20), all of them under both sanitizers,
# all planted mistakes, the gates. BUILD is a folder that is configured with CUDA found.
set -euo pipefail
[ $# -ge 1 ] || { echo "which build folder? run.sh BUILD [SCHEDULES]" >&2; exit 2; }
build=$(cd "$1" && pwd)
export HEADRACE_SEEDS=${2:-20}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cmake --build "$build" --target headrace_cuda_kernels kernels_cuda_test
libraries=("$build/kernels/cuda/libheadrace_cuda_host.a" "$build/tests/fake_cuda/libheadrace_fake_cuda.a"
  "$build/kernels/libheadrace_kernels.a")
"$build/tests/kernels/cuda/kernels_cuda_test" --gtest_brief=1
for sanitizer in address thread; do
  HEADRACE_SEEDS=3 bash "$here/sanitized.sh" $sanitizer "$build/tests/kernels/cuda/$sanitizer" all "${libraries[@]}"
done
bash "$here/mutants.sh" "$build/tests/kernels/cuda" "${libraries[@]}"
ctest --test-dir "$build" -R '^(cuda_|without_cuda)' --output-on-failure
