#!/bin/bash
# sanitized.sh FOLDER LIBRARY...: every transport as a pipeline and as a tensor group under the thread
# sanitizer, with random delays: no race, and no wrong value.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/kernels/cuda/compile.sh"
. "$root/tests/comm/cuda/link.sh"
folder=$1
bash "$root/tests/comm/cuda/build_tsan.sh" "$@"
for kind in nccl mpi-staged mpi-cuda-aware; do
  for layout in '3 1' '4 2'; do
    read -r ranks group <<<"$layout"
    FAKE_CUDA_DELAY_US=300 FAKE_CUDA_SEED=$ranks mpirun -n "$ranks" --timeout 60 "$folder/run" $kind "$group"
    echo "no race: $kind, $ranks ranks in groups of $group"
  done
done
