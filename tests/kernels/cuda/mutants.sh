#!/bin/bash
# mutants.sh FOLDER LIBRARY...: a test of the tests. Each mistake of mutants.txt is put into a copy of
# its file, compiled and run; the tests that it names have to find it. FOLDER has the objects of
# build_sanitized.sh in folders thread and address. MUTANTS, a pattern, runs those alone whose names fit;
# those that were found before a run was stopped are not run again (parts.sh).
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/kernels/cuda/compile.sh"
. "$root/tests/kernels/cuda/mutate.sh"
. "$root/tests/kernels/cuda/parts.sh"
folder=$1
shift
libraries=("$@")

# run_mutant NAME HOW KERNEL FILE TEXT INSTEAD TESTS; says how it was found.
run_mutant() {
  local how=$2 kernel=$3 file=$4 work sanitizer status=0
  sanitizer=$how
  [ "$how" != value ] || sanitizer=address
  work=$folder/mutant.$total  # the same in every run, for the compiler's cache
  rm -rf "$work"
  mkdir -p "$work/kernels/cuda"
  mutate "$root/kernels/cuda/$file" "$5" "$6" "$work/kernels/cuda/$file"
  echo "#include \"kernels/cuda/$kernel.cu\"" >"$work/mutant.cpp"
  compile "$work/mutant.cpp" "$work/mutant.o" instrumented "$work"
  local others=()
  for object in "$folder/$sanitizer"/*.o; do
    [ "$(basename "$object")" = "kernel_$kernel.o" ] || others+=("$object")
  done
  link_test "$sanitizer" "$work/test" "$work/mutant.o" "${others[@]}" "${libraries[@]}"
  # One schedule shows a wrong value; a race may take a second. The first report is enough.
  local seeds=0
  [ "$how" != thread ] || seeds=1
  TSAN_OPTIONS="$TSAN_OPTIONS halt_on_error=1" HEADRACE_SEEDS=$seeds timeout 240 "$work/test" --gtest_filter="$7" \
    >"$work/log" 2>&1 || status=$?
  local found=0
  case $how in
    value) [ $status = 0 ] || [ $status = 124 ] || found=1 ;;
    *) [ $status != 66 ] || found=1 ;;
  esac
  grep -q '^\[ RUN' "$work/log" || found=0
  if [ $found = 1 ]; then
    echo "found    $1 ($how)"
    rm -r "$work"
  else
    echo "MISSED   $1 ($how): exit code $status, see $work/log"
  fi
}

missed=0 total=0 tried=0
while IFS='|' read -r name how kernel file text instead tests; do
  [[ $name != \#* && -n $name ]] || continue
  total=$((total + 1))
  [[ $name =~ ${MUTANTS:-.} ]] || continue
  tried=$((tried + 1))
  mutant="mutant $name|$how|$kernel|$file|$text|$instead|$tests"
  ! passed_before "$mutant" || continue
  line=$(run_mutant "$(trim "$name")" "$(trim "$how")" "$(trim "$kernel")" "$(trim "$file")" "$(trim "$text")" \
    "$(trim "$instead")" "$(trim "$tests")")
  echo "$line"
  if [[ $line == found* ]]; then note_passed "$mutant"; else missed=$((missed + 1)); fi
done <"$root/tests/kernels/cuda/mutants.txt"
echo "$((tried - missed)) of $tried found"
[ $missed = 0 ] && [ $tried != 0 ]
