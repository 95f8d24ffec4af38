# Long runs that can be stopped and continued. Sourced; $root is the source tree.
# With HEADRACE_STATE, a file, a part that has passed is a line in it: a checksum of the sources that
# matter, and the part's name. What has its line is not run again; changed sources begin anew.
# shellcheck shell=bash

if [ -n "${HEADRACE_STATE:-}" ]; then
  parts_sources=$(cd "$root" && find kernels/*.h kernels/*.cpp kernels/reference kernels/cuda tests/kernels/*.h tests/kernels/cuda \
    tests/cuda_emulator tests/fake_cuda -type f ! -name '*.sh' ! -name '*.txt' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum |
    sha256sum | cut -c 1-16)
fi

passed_before() { [ -n "${HEADRACE_STATE:-}" ] && grep -qxsF -e "$parts_sources $1" "$HEADRACE_STATE"; }
note_passed() { [ -z "${HEADRACE_STATE:-}" ] || echo "$parts_sources $1" >>"$HEADRACE_STATE"; }

# run_tests WHAT PROGRAM: each test of the program is a part. Goes on behind one that fails.
run_tests() {
  local what=$1 program=$2 tests test log passed=0 before=0
  mapfile -t tests < <("$program" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }')
  for test in "${tests[@]}"; do
    if passed_before "$what $test"; then
      before=$((before + 1))
    elif log=$("$program" --gtest_brief=1 --gtest_filter="$test" 2>&1); then
      passed=$((passed + 1))
      note_passed "$what $test"
    else
      printf '%s\nFAILED   %s %s\n' "$log" "$what" "$test"
    fi
  done
  echo "$what: $passed of ${#tests[@]} tests passed, $before before"
  [ ${#tests[@]} != 0 ] && [ $((passed + before)) = ${#tests[@]} ]
}
