#!/bin/bash
# nvcc_report.sh COMPILER ARGUMENTS...: compiles, and puts what the assembler says about each kernel
# (registers, shared memory, spills) beside the object, as OBJECT.ptxas, instead of on the screen.
set -uo pipefail
object=
for ((i = 1; i < $#; ++i)); do
  [ "${!i}" != -o ] || { next=$((i + 1)) && object=${!next}; }
done
[ -n "$object" ] || exec "$@"
"$@" 2>"$object.ptxas"
status=$?
grep -vE '^ptxas info|^    [0-9]+ bytes stack frame' "$object.ptxas" >&2
exit $status
