# What the system tests share. Each is run by ctest as: SCRIPT HEADRACE WORK_DIR, from the root of the tree.
# shellcheck shell=bash
set -euo pipefail
headrace=$1
work=$2
. launch/local_mpi.sh
export OMPI_MCA_mpi_yield_when_idle=1
# When a rank ends with a code that is not 0, mpirun sends the others SIGTERM, waits for a second, even where all have gone
# as they do in most tests, and sends SIGKILL. Tests of that second ask for it.
export OMPI_MCA_odls_base_sigkill_timeout=0
leave_ranks_a_second() { unset OMPI_MCA_odls_base_sigkill_timeout; }

model=${MODEL:-tests/data/golden/gqa_tied}
requests=${REQUESTS:-tests/data/system/requests.jsonl}

rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# time_limit SECONDS: sanitizers make everything slower.
time_limit() {
  echo $(($1 * ${HEADRACE_TEST_SLOWNESS:-1}))
}

# generate RANKS OUTPUT OPTIONS...: runs the requests of the tests with $KV bytes of cache on $DEVICE (cpu); the exit code is
# the job's.
generate() {
  local ranks=$1 output=$2
  shift 2
  mpirun --timeout "$(time_limit "${TIMEOUT:-100}")" -n "$ranks" "$headrace" generate --model "$model" --input "$requests" \
    --output "$output" --device "${DEVICE:-cpu}" --kv-cache-memory-bytes "${KV:-64MiB}" "$@" >"$output.log" 2>&1
}

# Three lines of the request file are meant to fail (plus one that is too long), so a job ends with 3.
expect_code() {
  [ "$1" = "$2" ] || fail "exit code $1 instead of $2: $3"
}

# repeated TIMES: the requests so many times over. Copied lines can have no custom_id.
repeated() {
  local i
  for ((i = 0; i < $1; ++i)); do cat "$requests"; done | sed 's/"custom_id": *"[^"]*", *//'
}

# says LOG TEXT, says_not LOG TEXT: whether a job's messages have a text.
says() { grep -q -- "$2" "$1" || { cat "$1"; fail "$1: no word of '$2'"; }; }
says_not() { ! grep -q -- "$2" "$1" || { cat "$1"; fail "$1: '$2'"; }; }

# same A B WHAT: byte for byte.
same() {
  cmp "$1" "$2" || fail "$3: the bytes differ"
  "$headrace" compare "$1" "$2" >/dev/null || fail "$3: compare finds a difference"
}
