#!/bin/bash
# The same bytes for every split over stages, shards and replicas, micro-batch count, block size, chunk size, batch limit,
# thread count, instruction set and order of arrival, in both types with int8 weights and cache, and with int4 weights; and from the reference backend, up to the ids that
# name the numeric class. By hand also with another model and other requests, where the reference backend is left out:
#   MODEL=SmolLM2.gguf REQUESTS=configs/example_requests.jsonl LAYERS=10,10,10,0 KV=600MiB LITTLE=400MiB TIMEOUT=300 \
#     tests/system/equality.sh HEADRACE WORK_DIR
. tests/system/common.sh

check() {
  local name=$1 ranks=$2
  shift 2
  local code=0
  generate "$ranks" "$work/$name.jsonl" "$@" || code=$?
  # The tests' own requests hold lines that fail.
  local expected=${REQUESTS:+0}
  [ "$code" = "${expected:-3}" ] || { cat "$work/$name.jsonl.log"; fail "$name: exit code $code"; }
}

little_memory=${LITTLE:-120kB}  # doubled for float32
# The options of the runs to compare, and the name of the one that the others must equal.
numbers=()
base=""
start() {
  base=$1
  shift
  numbers=("$@")
  check "$base" 1 "${numbers[@]}" --threads 1
}
# The same with an instruction set, which the variants choose for themselves.
start_with() {
  local isa=$1
  base=$2
  shift 2
  numbers=("$@")
  check "$base" 1 "${numbers[@]}" --isa "$isa" --threads 1
}
variant() {
  local name=$base-$1 ranks=$2
  shift 2
  check "$name" "$ranks" "${numbers[@]}" "$@"
  same "$work/$base.jsonl" "$work/$name.jsonl" "$name"
}

# The reference backend: equal but for the ids that name the numeric class.
variant_of_reference() {
  local name=$base-reference-$1
  shift
  check "$name" 1 "${numbers[@]}" --backend reference "$@"
  "$headrace" compare "$work/$base.jsonl" "$work/$name.jsonl" || fail "$name: the reference backend differs"
}

for dtype in bfloat16 float32; do
  start "$dtype" --dtype "$dtype"
  variant two-stages 2 --threads 1
  variant three-stages 3 --threads 1 --num-micro-batches 5
  variant four-stages 4 --threads 1 --layers "${LAYERS:-1,1,3,0}"
  # Nine query heads and three KV heads over two, three and four ranks; replicas; all of them together.
  variant two-shards 2 --threads 1 -tp 2
  variant three-shards 3 --threads 1 -tp 3 --block-size 32
  variant stages-and-shards 4 --threads 1 -pp 2 -tp 2 --max-num-batched-tokens 9
  variant four-shards 4 --threads 1 -tp 4 --max-num-seqs 5
  variant two-replicas 2 --threads 1 -dp 2
  variant replicas-of-stages 4 --threads 1 -pp 2 -dp 2 --max-num-seqs 4 --num-micro-batches 3
  variant replicas-of-shards 4 --threads 1 -tp 2 -dp 2
  variant threads 1 --threads 3 --block-size 64
  variant small-steps 2 --threads 1 --max-num-batched-tokens 5 --max-num-seqs 3 --block-size 32
  variant one-at-a-time 1 --threads 2 --max-num-seqs 1 --max-num-batched-tokens 256
  # A little more than one context: sequences wait for blocks, or lose theirs and start over.
  KV=$little_memory variant little-memory 2 --threads 1 --max-num-seqs 64
  little_memory=${LITTLE:-240kB}
done

# Quantised: the scales of inputs and weights belong to slices, so nothing depends on the cut either.
start int8 --quantization int8 --kv-cache-dtype int8
variant stages-and-shards 4 --threads 1 -pp 2 -tp 2 --max-num-batched-tokens 9
variant three-shards 3 --threads 1 -tp 3 --block-size 32
variant replicas-of-stages 4 --threads 1 -pp 2 -dp 2 --max-num-seqs 4
variant one-at-a-time 1 --threads 2 --max-num-seqs 1 --max-num-batched-tokens 256
check int8-weights 1 --quantization int8 --threads 1
check int8-cache 1 --kv-cache-dtype int8 --threads 1
for name in int8-weights int8-cache; do
  cmp -s "$work/bfloat16.jsonl" "$work/$name.jsonl" && fail "$name changes nothing"
  cmp -s "$work/int8.jsonl" "$work/$name.jsonl" && fail "$name alone is the same as both"
done

start int4 --quantization int4
variant stages-and-shards 4 --threads 1 -pp 2 -tp 2 --max-num-batched-tokens 9
cmp -s "$work/int8-weights.jsonl" "$work/int4.jsonl" && fail "int4 is int8"

# Instruction sets share their bits, but for AMX and what emulates it; the reference backend adds as either does.
for type in bfloat16 int8 int4 w8a16 w4a16; do
  options=(--dtype bfloat16)
  [ $type != int8 ] || options=(--quantization int8 --kv-cache-dtype int8)
  [ $type != int4 ] || options=(--quantization int4)
  [ $type != w8a16 ] || options=(--quantization int8 --quantized-inputs none)
  [ $type != w4a16 ] || options=(--quantization int4 --quantized-inputs none)
  start_with no_amx $type-no-amx "${options[@]}"
  variant avx2 1 --isa avx2 --threads 1
  [ -n "${MODEL:-}" ] || variant_of_reference no-amx --isa no_amx
  "$headrace" --version | grep -q avx512_vnni || continue
  start_with amx_emulated $type-tiles "${options[@]}"
  variant stages-and-shards 4 --threads 1 -pp 2 -tp 2 --max-num-batched-tokens 9 --isa amx_emulated
  variant one-at-a-time 1 --threads 2 --max-num-seqs 1 --max-num-batched-tokens 256 --block-size 32 --isa amx_emulated
  [ -n "${MODEL:-}" ] || variant_of_reference tiles --isa amx_emulated
  if "$headrace" --version | grep -qw amx; then variant amx 1 --isa amx --threads 2; fi
done
