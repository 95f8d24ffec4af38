#!/bin/bash
# Sequences that lose their blocks of the KV cache keep them in host memory or are computed again: the same bytes, by every layout, on
# the CPU and, by the program whose GPU is emulated, on GPUs.
. tests/system/common.sh

# make_requests EOS NUM PROMPT_TOKENS MAX_TOKENS: requests whose bias ends them at once teach the scheduler to expect short answers; the
# NUM behind them then outgrow the cache. Ids are below 64, which all models here have.
make_requests() {
  local i ids kind
  requests=$work/$1-$2-$3-$4.requests
  for i in {1..28}; do
    echo "{\"prompt\": [$((i + 4)), 9, 7], \"temperature\": 0, \"max_tokens\": $4, \"logit_bias\": {\"$1\": 100}}"
  done >"$requests"
  for ((i = 0; i < $2; ++i)); do
    ids=$(seq -s ', ' "$((17 - i))" "$((16 - i + $3))")
    case $((i % 7)) in
      1) kind='"seed": 7, "temperature": 1, "logprobs": 2' ;;
      2) kind='"temperature": 0, "prompt_logprobs": 1' ;;
      5) kind='"temperature": 0, "frequency_penalty": 0.5' ;;
      *) kind='"temperature": 0' ;;
    esac
    echo "{\"prompt\": [$ids], \"max_tokens\": $(($4 - i % 5)), \"ignore_eos\": true, $kind}"
  done >>"$requests"
}

# run NAME RANKS OPTIONS...: answers in $work/NAME.jsonl.
run() {
  local name=$1 code=0
  generate "$2" "$work/$name.jsonl" --threads 1 --dtype float32 --deterministic --max-num-batched-tokens 32 "${options[@]}" "${@:3}" || code=$?
  [ $code = 0 ] || { cat "$work/$name.jsonl.log"; fail "$name: exit code $code"; }
}

# figure NAME KEY: of the job's summary.
figure() {
  sed -n "s/.*\"$2\": *\([0-9]*\).*/\1/p" "$work/$1.jsonl.summary.json"
}
# holds NAME KEY OPERATOR NUMBER
holds() {
  test "$(figure "$1" "$2")" "$3" "$4" || { cat "$work/$1.jsonl.log"; fail "$1: $2 is $(figure "$1" "$2"), not $3 $4"; }
}

# As many KV blocks as 4 MiB hold, which is enough for all; from it the bytes of one.
start() {
  base=$1
  KV=4MiB run "$base" 1
  num_blocks=$(sed -n 's/^KV cache: \([0-9]*\) blocks.*/\1/p' "$work/$base.jsonl.log")
  [ -n "$num_blocks" ] || fail "$base: the table has no KV cache"
  holds "$base" preemptions -eq 0
}
# variant NAME RANKS BLOCKS PARTS SWAP_BLOCKS OPTIONS...: with so many blocks on a rank that has PARTS sixtieths of all layers and heads,
# and as many in host memory.
variant() {
  local name=$base-$1 bytes
  bytes=$((4194304 * $4 / 60 / num_blocks + 1))
  KV=$((bytes * $3)) run "$name" "$2" --swap-space $((bytes * $5)) "${@:6}"
  same "$work/$base.jsonl" "$work/$name.jsonl" "$name"
  holds "$name" preemptions -gt 0
}

# layouts RANKS PARTS OPTIONS...: with room for all that is preempted, and for little of it.
layouts() {
  local name=${*:3}
  name=layout${name// /}
  variant "$name" "$1" 9 "$2" 60 "${@:3}"
  holds "$base-$name" swapped_sequences -gt 0
  variant "$name-tight" "$1" 9 "$2" 3 "${@:3}"
  holds "$base-$name-tight" swapped_sequences -gt 0
  holds "$base-$name-tight" swapped_sequences -lt "$(figure "$base-$name-tight" preemptions)"
  holds "$base-$name-tight" recomputed_tokens -gt 0
}

make_requests 2 14 20 64
options=(--max-model-len 96)
start cpu
variant recomputed 1 9 60 0
holds "$base-recomputed" swapped_sequences -eq 0
holds "$base-recomputed" recomputed_tokens -gt 0
layouts 1 60
holds "$base-layout" recomputed_tokens -lt "$(figure "$base-recomputed" recomputed_tokens)"
says "$work/$base-layout.jsonl.log" "swap space: [1-9][0-9]* of these blocks in host memory"
says "$work/$base-layout.jsonl.log" "KV cache full .* sequences swapped out in .* blocks, .* tokens computed again"
layouts 2 36 -pp 2 --layers 3,2
layouts 2 40 -tp 2
# It is no part of what a job is.
cp "$work/$base-layout.jsonl" "$work/$base-finished.jsonl"
for swap in 0 1MiB; do
  run "$base-layout" 1 --swap-space $swap
  same "$work/$base-finished.jsonl" "$work/$base-layout.jsonl" "finished with --swap-space $swap"
done

# refused FRAGMENT OPTIONS...
refused() {
  local code=0
  generate 2 "$work/refused.jsonl" --dtype float32 "${@:2}" || code=$?
  [ $code = 2 ] && grep "^headrace: " "$work/refused.jsonl.log" | grep -q -- "$1" ||
    { cat "$work/refused.jsonl.log"; fail "${*:2}: exit code $code"; }
}
refused "--swap-space 1000 B: a KV block of rank . takes" --swap-space 1000
refused "swap-space" --swap-space much

# Two KV groups: of the layers with a window only what it leaves goes and comes.
(
  model=tests/data/golden_families/gemma3
  make_requests 1 14 45 64
  options=(--tokenizer tests/data/golden/gqa_tied)
  start groups
  variant swapped 1 14 60 60
  holds "$base-swapped" swapped_sequences -gt 0
)

[ "$(basename "$headrace")" = emulated_headrace ] || exit 0

# On GPUs; fewer tokens, since emulation takes its time.
export FAKE_CUDA_DEVICES=2 DEVICE=cuda
unset CUDA_VISIBLE_DEVICES
make_requests 2 6 20 34
options=(--max-model-len 56)
start gpu
variant one-rank 1 6 60 60
holds "$base-one-rank" swapped_sequences -gt 0
holds "$base-one-rank" recomputed_tokens -gt 0  # the one with a penalty
FAKE_CUDA_MODE=threads FAKE_CUDA_DELAY_US=20 variant two-stages 2 6 36 60 -pp 2 --layers 3,2
holds "$base-two-stages" swapped_sequences -gt 0
variant two-shards 2 6 40 60 -tp 2
holds "$base-two-shards" swapped_sequences -gt 0
