#!/bin/bash
# The operators' tests on processors that this machine is not, under qemu's user emulation.
#   tests/kernels/other_cpus/run.sh [arm|x86|all] [BUILD]
# arm: 64-bit ARM, built here by a cross compiler, with the dot product instruction for integers and on a core without it.
# x86: one with AVX2 and nothing beyond, and one with neither; an hour or so, as qemu is slow at AVX2.
# HEADRACE_TESTS: a filter in GoogleTest's manner, for a part of it. BUILD: build/other_cpus.
# shellcheck source-path=SCRIPTDIR/../../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. launch/packages.sh

which=${1:-all}
build=${2:-build/other_cpus}
case $which in arm | x86 | all) ;; *)
  echo "run.sh: '$which'? One of arm, x86, all" >&2
  exit 2
  ;;
esac
require_packages "${build_packages[@]}" "${other_cpu_packages[@]}"

# build_tests FOLDER OPTIONS...
build_tests() {
  local folder=$build/$1 log=$build/$1.log
  mkdir -p "$build"
  if ! { cmake -G Ninja -S tests/kernels/other_cpus -B "$folder" -DCMAKE_BUILD_TYPE=RelWithDebInfo "${@:2}" &&
    cmake --build "$folder" --target kernels_test; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 1
  fi
}

# run_tests EMULATOR CPU PROGRAM FILTER: QEMU's remarks on features it has not are of no interest.
run_tests() {
  echo "$1 -cpu $2, tests $4"
  "$1" -cpu "$2" "$3" --gtest_filter="$4" --gtest_brief=1 2> >(grep -v 'TCG doesn.t support' >&2)
}

if [ "$which" != x86 ]; then
  build_tests aarch64 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
  export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  run_tests qemu-aarch64 max "$build/aarch64/tests/kernels_test" "${HEADRACE_TESTS:-*}"
  run_tests qemu-aarch64 cortex-a72 "$build/aarch64/tests/kernels_test" "${HEADRACE_TESTS:-*neon*int*:Backends.*}"
fi
if [ "$which" != arm ]; then
  build_tests x86_64
  run_tests qemu-x86_64 Haswell "$build/x86_64/tests/kernels_test" "${HEADRACE_TESTS:-*avx2*:Backends.*}"
  run_tests qemu-x86_64 qemu64 "$build/x86_64/tests/kernels_test" "${HEADRACE_TESTS:-*}"
fi
