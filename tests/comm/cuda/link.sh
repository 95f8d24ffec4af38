# What the scripts of this folder share. Sourced, after tests/kernels/cuda/compile.sh.
# shellcheck shell=bash

# The files of comm/cuda that a build with NCCL has, without .cpp, but for the loader of the real library.
transport_sources() {
  local file
  for file in "$root"/comm/cuda/*.cpp; do
    case $file in */no_* | */load_*) ;; *) basename "$file" .cpp ;; esac
  done
}

# link_run PROGRAM INPUT...
link_run() {
  clang++-14 -fsanitize=thread -o "$1" "${@:2}" -lmpi -lpthread
}

# MPI's library is not instrumented, and has threads of its own.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 $TSAN_OPTIONS"
