#!/bin/bash
# build_tsan.sh FOLDER LIBRARY...: compiles the transports and the job of pipeline.h with clang's thread
# sanitizer, the fakes so that they tell it what streams do and in which order, and links FOLDER/run.
# To it a stream is a thread: kernels are instrumented, the emulator is the libraries' own, which knows
# nothing of it. FOLDER also keeps the objects, for mutants.sh. CPATH has MPI's and CUDA's headers.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
folder=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
sanitizer=thread
. "$root/tests/kernels/cuda/compile.sh"
. "$root/tests/comm/cuda/link.sh"
mkdir -p "$folder"

echo '#include "kernels/cuda/add_partials.cu"' >"$folder/add_partials.cpp"
jobs=("$folder/add_partials.cpp" "$folder/add_partials.o" instrumented
  "$root/kernels/cuda/handles.cpp" "$folder/handles.o" instrumented
  "$root/tests/comm/cuda/pipeline.cpp" "$folder/pipeline.o" instrumented
  "$root/tests/comm/cuda/run_transport.cpp" "$folder/run_transport.o" instrumented
  "$root/launch/guard.cpp" "$folder/guard.o" instrumented
  "$root/tests/comm/cuda/mpi_fake.cpp" "$folder/mpi_fake.o" fake)
for source in $(transport_sources); do
  jobs+=("$root/comm/cuda/$source.cpp" "$folder/$source.o" instrumented)
done
for source in fake_cublaslt fake_cudart fake_nccl lock nccl_operation shared_group state streams; do
  jobs+=("$root/tests/fake_cuda/$source.cpp" "$folder/$source.o" fake)
done
export -f compile
export root sanitizer
printf '%s\n' "${jobs[@]}" | xargs -d '\n' -n 3 -P "$(nproc)" bash -euc 'compile "$@"' compile
link_run "$folder/run" "$folder"/*.o "$@"
