#!/bin/bash
# Answers do not depend on who reads which weights for whom; and random weights need a config.json and a tokenizer only,
# and give the same answers for every split.
. tests/system/common.sh

answers() {
  local name=$1 ranks=$2 code=0
  shift 2
  generate "$ranks" "$work/$name.jsonl" --threads 1 "$@" || code=$?
  [ "$code" = 3 ] || { cat "$work/$name.jsonl.log"; fail "$name: exit code $code instead of 3"; }
  grep -q '^loaded: .* MB of weights from .* MB read' "$work/$name.jsonl.log" || fail "$name: no word of loading"
}

answers one 1
answers own 2 -dp 2 --load own
answers node 2 -dp 2 --load node
answers broadcast 2 -tp 2 --load broadcast
for name in own node broadcast; do same "$work/one.jsonl" "$work/$name.jsonl" "$name"; done

mkdir "$work/bare"
cp tests/data/golden/gqa_tied/{config,generation_config,tokenizer,tokenizer_config}.json "$work/bare"
real=$work/one.jsonl
model=$work/bare
answers dummy-one 1 --load-format dummy
answers dummy-stages 2 --load-format dummy
answers dummy-shards 2 --load-format dummy -tp 2
same "$work/dummy-one.jsonl" "$work/dummy-stages.jsonl" "random weights in two stages"
same "$work/dummy-one.jsonl" "$work/dummy-shards.jsonl" "random weights in two shards"
! cmp -s "$real" "$work/dummy-one.jsonl" || fail "random weights give the model's answers"

code=0
generate 1 "$work/none.jsonl" || code=$?
expect_code $code 2 "a model without weights"
# The job was one of random weights: it does not go on with others.
model=tests/data/golden/gqa_tied
code=0
generate 1 "$work/dummy-one.jsonl" --served-model-name bare || code=$?
expect_code $code 2 "a job with other weights"
grep -q -- '--load-format dummy' "$work/dummy-one.jsonl.log" || fail "$(cat "$work/dummy-one.jsonl.log")"
