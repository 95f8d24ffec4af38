# How the scripts of this folder compile for the emulator. Sourced; $root is the source tree.
# shellcheck shell=bash

# The kernel files of kernels/cuda, without .cu.
kernel_names() {
  local file
  for file in "$root"/kernels/cuda/*.cu; do basename "$file" .cu; done
}

# compile SOURCE OBJECT instrumented|emulator|fake [FOLDER]: with $sanitizer; a header in FOLDER comes
# before the tree's. Emulator and fakes are told of the sanitizer, but not looked at by it.
compile() {
  local source=$1 object=$2 kind=$3 before=${4:-$root} flags=()
  case $sanitizer-$kind in
    thread-emulator) flags=(-DHEADRACE_EMULATE_TSAN) ;;
    thread-fake) flags=(-DHEADRACE_FAKE_TSAN) ;;
    address-emulator) flags=(-DHEADRACE_EMULATE_ASAN) ;;
    *) flags=("-fsanitize=$sanitizer") ;;
  esac
  local compiler=(clang++-14)
  ! command -v ccache >/dev/null || compiler=(ccache "${compiler[@]}")
  CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 "${compiler[@]}" -std=c++20 -O1 -g1 -fno-omit-frame-pointer \
    -ffp-contract=off -Wall -Wextra "${flags[@]}" -I "$root/tests/cuda_emulator/device" -I "$before" -I "$root" \
    -c "$source" -o "$object"
}

# link_test SANITIZER PROGRAM INPUT...
link_test() {
  clang++-14 "-fsanitize=$1" -o "$2" "${@:3}" -lgtest -lgtest_main -lpthread
}

# The thread sanitizer has to remember long; leaks are not what kernels have. Exit codes tell a
# sanitizer's report (66) from a test's failure (1).
export TSAN_OPTIONS="history_size=7 exitcode=66 ${TSAN_OPTIONS:-}"
export ASAN_OPTIONS="detect_leaks=0 exitcode=66 ${ASAN_OPTIONS:-}"
