#!/bin/bash
# mutants.sh FOLDER LIBRARY...: a test of the tests. Each mistake of mutants.txt is put into a copy of
# its file, compiled and run; it has to be found in the way that is said there. FOLDER has the objects of
# build_tsan.sh. MUTANTS, a pattern, runs those alone whose names fit.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
sanitizer=thread
. "$root/tests/kernels/cuda/compile.sh"
. "$root/tests/kernels/cuda/mutate.sh"
. "$root/tests/comm/cuda/link.sh"
folder=$1
shift
libraries=("$@")

# What the log of a run says where a mistake was found in this way.
sign_of() {
  case $1 in
    race) echo 'WARNING: ThreadSanitizer: data race' ;;
    value) echo 'values are wrong' ;;
    refused) echo '^fake (CUDA|MPI): |waited 1 s' ;;
  esac
}

# run_mutant NAME HOW "KIND GROUP RANKS" FILE TEXT INSTEAD; says whether it was found.
run_mutant() {
  local name=$1 how=$2 file=$4 work object others=() kind group ranks
  read -r kind group ranks <<<"$3"
  work=$folder/mutant.$total  # the same in every run, for the compiler's cache
  rm -rf "$work"
  mkdir "$work"
  mutate "$root/comm/cuda/$file" "$5" "$6" "$work/$file"
  object=$(basename "$file" .cpp).o
  compile "$work/$file" "$work/$object" instrumented
  for other in "$folder"/*.o; do
    [ "$(basename "$other")" = "$object" ] || others+=("$other")
  done
  link_run "$work/run" "$work/$object" "${others[@]}" "${libraries[@]}"
  # The stall timeout that comes with a fault: that of a call which never comes.
  TSAN_OPTIONS="$TSAN_OPTIONS halt_on_error=1" FAKE_CUDA_DELAY_US=300 \
    mpirun -n "$ranks" --timeout 40 "$work/run" "$kind" "$group" no_call:1 >"$work/log" 2>&1 || true
  if grep -Eq "$(sign_of "$how")" "$work/log"; then
    echo "found    $name ($how)"
    rm -r "$work"
  else
    echo "MISSED   $name ($how): see $work/log"
  fi
}

missed=0 total=0
while IFS='|' read -r name how job file text instead; do
  [[ $name != \#* && -n $name ]] || continue
  [[ $name =~ ${MUTANTS:-.} ]] || continue
  total=$((total + 1))
  line=$(run_mutant "$(trim "$name")" "$(trim "$how")" "$(trim "$job")" "$(trim "$file")" "$(trim "$text")" \
    "$(trim "$instead")" </dev/null)
  echo "$line"
  [[ $line == found* ]] || missed=$((missed + 1))
done <"$root/tests/comm/cuda/mutants.txt"
echo "$((total - missed)) of $total found"
[ $missed = 0 ] && [ $total != 0 ]
