#!/bin/bash
# Whatever is killed at whatever moment, the same command then ends with the bytes of an undisturbed run: any rank, the
# launcher, by SIGKILL or by a signal that asks to stop; also when the layout changes between the runs.
#   RUNS=40 SEED=1 tests/system/resume.sh HEADRACE WORK_DIR     more and other moments
. tests/system/common.sh
leave_ranks_a_second
RANDOM=${SEED:-11}
runs=${RUNS:-8}

code=0
generate 2 "$work/undisturbed.jsonl" || code=$?
expect_code "$code" 3 "$(cat "$work/undisturbed.jsonl.log")"

# ended PROCESS: waits for a process of this shell; one that does not end within 30 s of its kill (mpirun itself can
# hang when a signal comes at a bad moment, with all ranks gone) is killed.
ended() {
  for ((i = 0; i < 3000; ++i)); do
    kill -0 "$1" 2>/dev/null || break
    read -rt 0.01 <> <(:) || true
  done
  pkill -KILL -P "$1" 2>/dev/null || true
  wait "$1" || true
}

# Processes of the job whose launcher is process $1: the ranks, in order of their ids.
ranks_of() { pgrep -P "$1" -x headrace | sort -n; }

layouts=("2" "3 --num-micro-batches 4" "1 --threads 2" "4" "2 -tp 2" "2 -dp 2" "4 -pp 2 -dp 2" "2 --max-num-seqs 4 --max-num-batched-tokens 16")
output=$work/disturbed.jsonl
for ((run = 0; run < runs; ++run)); do
  rm -f "$output"*
  for ((attempt = 0; attempt < 3; ++attempt)); do
    read -r ranks options <<<"${layouts[RANDOM % ${#layouts[@]}]}"
    # shellcheck disable=SC2086
    generate "$ranks" "$output" $options &
    job=$!
    launcher=""
    for ((i = 0; i < 200 && ${#launcher} == 0; ++i)); do
      launcher=$(pgrep -P "$job" -x mpirun || true)
      [ -n "$launcher" ] || read -rt 0.01 <> <(:) || true
    done
    # A random moment of a job that takes about a second.
    delay=$((RANDOM % 1400))
    read -rt "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))" <> <(:) || true
    mapfile -t processes < <(ranks_of "${launcher:-0}" 2>/dev/null)
    case $((RANDOM % 4)) in
    0) kill -KILL "${launcher:-$job}" 2>/dev/null || true ;;
    1) kill -TERM "${launcher:-$job}" 2>/dev/null || true ;;
    *) [ ${#processes[@]} = 0 ] || kill -KILL "${processes[RANDOM % ${#processes[@]}]}" 2>/dev/null || true ;;
    esac
    ended "$job"
    # Ranks whose launcher was killed end by themselves or are ended here; the lock must not outlive them.
    pkill -KILL -f -- "--output $output" || true
    while pgrep -f -- "--output $output" >/dev/null; do read -rt 0.01 <> <(:) || true; done
  done
  code=0
  generate 2 "$output" || code=$?
  [ "$code" = 3 ] || { cat "$output.log"; fail "run $run: exit code $code after a resume"; }
  same "$work/undisturbed.jsonl" "$output" "run $run"
  for left in "$output".{partial,journal,lock}; do
    [ ! -e "$left" ] || fail "run $run: $left is left over"
  done
done

# A finished job says so and changes nothing.
before=$(sha256sum "$output" "$output.summary.json")
code=0
generate 3 "$output" || code=$?
expect_code "$code" 3 "finished job run again"
grep -q "nothing to do" "$output.log" || fail "a finished job does not say so"
[ "$before" = "$(sha256sum "$output" "$output.summary.json")" ] || fail "a finished job was changed"
echo "$runs disturbed jobs ended with the bytes of the undisturbed one"
