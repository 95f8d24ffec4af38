#!/bin/bash
# A trace of every layout: the answers are the same bytes as without one, all ranks are in it, and inspect finds its terms
# and events in agreement. A job that is stopped leaves a trace as well, and a trace that cannot be written is an error
# before anything runs.
. tests/system/common.sh

code=0
generate 1 "$work/plain.jsonl" --threads 1 || code=$?
expect_code "$code" 3 "$(cat "$work/plain.jsonl.log")"

# traced NAME RANKS OPTIONS...
traced() {
  local name=$1 ranks=$2 code=0
  shift 2
  generate "$ranks" "$work/$name.jsonl" --trace "$work/$name.json" --threads 1 "$@" || code=$?
  expect_code "$code" 3 "$(cat "$work/$name.jsonl.log")"
  same "$work/plain.jsonl" "$work/$name.jsonl" "$name"
  sound_trace "$name" "$ranks"
}

# sound_trace NAME RANKS
sound_trace() {
  "$headrace" inspect "$work/$1.json" >"$work/$1.inspect" || fail "$1: $(cat "$work/$1.inspect")"
  [ "$(grep -c '^rank [0-9]' "$work/$1.inspect")" = "$2" ] || fail "$1: $(cat "$work/$1.inspect")"
  for ((rank = 0; rank < $2; ++rank)); do
    grep -q "\"ph\":\"X\",\"pid\":$rank,\"tid\":0,.*\"name\":\"gemm\"" "$work/$1.json" || fail "$1: no products of rank $rank"
  done
  grep -q '"pid":0,"tid":1,.*"name":"answer"' "$work/$1.json" || fail "$1: nothing of the host thread"
  [ ! -e "$work/$1.json.partial" ] || fail "$1: a partial file was left"
}

traced one 1
traced stages 3 --num-micro-batches 4
traced shards 2 -tp 2
traced replicas 2 -dp 2
traced all 4 -pp 2 -tp 2
for phase in wait send receive "head gemm" attention; do
  grep -q "\"name\":\"$phase\"" "$work/stages.json" || fail "no $phase in a trace of three stages"
done
grep -q '"name":"exchange"' "$work/shards.json" || fail "no exchange in a trace of two shards"
# The peaks of other processors may not be known.
if [ "$(uname -m)" = x86_64 ]; then
  grep -q '"bounds_ns":{"gemm":' "$work/one.json" || fail "a trace does not say what products take at least"
fi
"$headrace" inspect --json "$work/all.json" | grep -q '"terms_s"' || fail "inspect --json has no terms"

# More work than can be done before the signal; everything is in flight when it comes.
repeated 500 >"$work/many.jsonl"
requests=$work/many.jsonl
leave_ranks_a_second
generate 2 "$work/stopped.jsonl" --trace "$work/stopped.json" --threads 1 &
job=$!
for ((i = 0; i < 500; ++i)); do
  [ ! -s "$work/stopped.jsonl.journal" ] || break
  read -rt 0.02 <> <(:) || true
done
pkill -TERM -P "$job" -x mpirun || fail "the job ended before the signal: $(cat "$work/stopped.jsonl.log")"
wait "$job" || true
"$headrace" inspect "$work/stopped.jsonl" >"$work/state" || [ $? = 75 ] || fail "not resumable: $(cat "$work/state")"
sound_trace stopped 2

code=0
generate 1 "$work/nowhere.jsonl" --trace "$work/none/trace.json" || code=$?
expect_code "$code" 2 "a trace in a directory that does not exist"
grep -q "none/trace.json" "$work/nowhere.jsonl.log" || fail "the message does not name the file"
code=0
generate 1 "$work/same.jsonl" --trace "$work/same.jsonl" || code=$?
expect_code "$code" 2 "a trace in place of the output"
