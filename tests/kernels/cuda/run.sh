#!/bin/bash
# run.sh BUILD [SCHEDULES [STATE]]: all that can be said of the GPU's kernels without a GPU, beyond what
# every commit is tested with: all tests under so many random schedules (20), all of them under both
# sanitizers, all planted mistakes, the emulator's own tests, the gates. BUILD is a folder that is configured
# with CUDA found. It takes an hour or more; with STATE, a file, it can be stopped and continued by the same
# command (parts.sh).
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
[ $# -ge 1 ] || { echo "which build folder? run.sh BUILD [SCHEDULES [STATE]]" >&2; exit 2; }
build=$(cd "$1" && pwd)
schedules=${2:-20}
export HEADRACE_STATE=${3:+$(realpath "$3")}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$here/compile.sh"
. "$here/parts.sh"
cmake --build "$build" --target headrace_cuda_kernels kernels_cuda_test cuda_emulator_test
libraries=("$build/kernels/cuda/libheadrace_cuda_host.a" "$build/tests/fake_cuda/libheadrace_fake_cuda.a"
  "$build/kernels/libheadrace_kernels.a")
failed=0
HEADRACE_SEEDS=$schedules run_tests "$schedules schedules" "$build/tests/kernels/cuda/kernels_cuda_test" || failed=1
for sanitizer in address thread; do
  folder=$build/tests/kernels/cuda/$sanitizer
  bash "$here/build_sanitized.sh" $sanitizer "$folder" "${libraries[@]}"
  HEADRACE_SEEDS=3 run_tests "$sanitizer sanitizer" "$folder/kernels_cuda" || failed=1
done
bash "$here/mutants.sh" "$build/tests/kernels/cuda" "${libraries[@]}" || failed=1
ctest --test-dir "$build" -R '^(cuda_|without_cuda)' --output-on-failure || failed=1
exit $failed
