#!/bin/bash
# A rank that throws, dies or hangs at any point ends the whole job within seconds, with the cause and the place in
# words; the same command without the fault then ends with the bytes of an undisturbed run. Run with the faulty program.
#   RUNS=30 SEED=2 tests/system/faults.sh FAULTY_HEADRACE WORK_DIR
. tests/system/common.sh
leave_ranks_a_second
RANDOM=${SEED:-5}
runs=${RUNS:-8}
limit_s=$(time_limit 20)  # of a job that a fault ends: the machine may be busy

code=0
generate 2 "$work/undisturbed.jsonl" || code=$?
expect_code "$code" 3 "$(cat "$work/undisturbed.jsonl.log")"

output=$work/faulty.jsonl
layouts=("2" "3" "4" "2 -tp 2" "4 -pp 2 -tp 2" "2 -dp 2" "4 -pp 2 -dp 2")
actions=(throw kill stop exit segv oom)
for ((run = 0; run < runs; ++run)); do
  rm -f "$output"*
  action=${actions[run % ${#actions[@]}]}
  read -r ranks layout <<<"${layouts[RANDOM % ${#layouts[@]}]}"
  rank=$((RANDOM % ranks))
  call=$((1 + RANDOM % 300))
  what="run $run: rank $rank of $ranks ($layout), call $call, $action"
  start=$SECONDS
  code=0
  # shellcheck disable=SC2086
  FAULT="$rank $call $action" generate "$ranks" "$output" --stall-timeout 3 $layout || code=$?
  took=$((SECONDS - start))
  [ "$code" != 0 ] && [ "$code" != 3 ] || fail "$what: ended with $code as if nothing had happened"
  [ "$took" -lt "$limit_s" ] || fail "$what: took $took s to end"
  case $action in
  throw) expected="headrace: rank $rank .stage .*: the planted fault" ;;
  oom) expected="headrace: rank $rank .stage .*: out of memory" ;;
  stop) expected="headrace: rank .* waited 3 s .--stall-timeout. for" ;;
  *) expected="Process name: .*,$rank\]|process rank $rank" ;;
  esac
  grep -Eq "$expected" "$output.log" || { cat "$output.log"; fail "$what: the cause is not told"; }
  # Nothing runs on.
  if pgrep -f -- "--output $output" >/dev/null; then fail "$what: a rank is still running"; fi
  code=0
  generate 2 "$output" || code=$?
  [ "$code" = 3 ] || { cat "$output.log"; fail "$what: exit code $code after the resume"; }
  same "$work/undisturbed.jsonl" "$output" "$what"
done
echo "$runs faults ended their jobs and lost nothing"
