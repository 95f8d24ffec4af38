#!/bin/bash
# The program on GPUs that are not there: kernels run in the emulator, CUDA's libraries are fakes (tests/fake_cuda). In float32 the
# tokens of the reference backend and its log-probabilities within a tolerance; the same bytes for every split over stages and
# replicas, chunk and batch, with --deterministic for every split over shards too, by every transport, however streams are run; CPU and
# GPU in one pipeline; what is refused. (What fails: gpu_faults.sh.) FULL=1 adds every layout of up to 4 ranks by NCCL and staged MPI,
# 16-bit types and other models; LAYOUTS="2x1x1 ..." takes some of the layouts alone:
#   FULL=1 tests/system/gpu.sh EMULATED_HEADRACE WORK_DIR
. tests/system/common.sh
export FAKE_CUDA_DEVICES=4
export DEVICE=cuda
unset CUDA_VISIBLE_DEVICES

requests=$work/requests.jsonl
cat >"$requests" <<'END'
{"custom_id": "greedy", "prompt": [5, 9, 77, 120, 300, 41], "temperature": 0, "max_tokens": 10, "logprobs": 3, "ignore_eos": true}
{"custom_id": "drawn", "prompt": [7, 8, 9], "temperature": 1, "seed": 7, "max_tokens": 8, "logprobs": 1, "ignore_eos": true, "n": 2}
{"custom_id": "scored", "prompt": [11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 132, 143, 154, 165, 176, 187, 198, 209, 220, 231, 242, 253, 264, 275, 286, 297, 12, 23, 34, 45, 56, 67, 78, 89, 100, 111, 122, 133, 144, 155, 166, 177, 188, 199, 210, 221, 232, 243, 254, 265, 276, 287, 298, 13, 24, 35, 46, 57, 68, 79, 90, 101, 112, 123, 134, 145, 156, 167, 178], "temperature": 0, "max_tokens": 6, "prompt_logprobs": 1, "ignore_eos": true}
{"custom_id": "short", "prompt": [250], "temperature": 0, "max_tokens": 12, "ignore_eos": true}
END

# run NAME RANKS OPTIONS...: answers in $work/NAME.jsonl, in steps of $ROWS rows.
run() {
  local name=$1 ranks=$2 code=0
  shift 2
  generate "$ranks" "$work/$name.jsonl" --threads 1 --max-num-batched-tokens "${ROWS:-64}" "$@" || code=$?
  [ "$code" = 0 ] || { cat "$work/$name.jsonl.log"; fail "$name: exit code $code"; }
}

# The options of the runs to compare, and the name of the one that the others must equal.
numbers=()
base=""
start() {
  base=$1
  shift
  numbers=("$@")
  run "$base" 1 "${numbers[@]}"
}
variant() {
  local name=$base-$1 ranks=$2
  shift 2
  run "$name" "$ranks" "${numbers[@]}" "$@"
  same "$work/$base.jsonl" "$work/$name.jsonl" "$name"
}
close_to_reference() {
  DEVICE=cpu run "$1-reference" 1 --dtype float32 --backend reference "${@:2}"
  "$headrace" compare --tolerance 0.001 "$work/$1-reference.jsonl" "$work/$1.jsonl" ||
    fail "$1: not what the reference backend gives"
}

start float32 --dtype float32 --deterministic
close_to_reference float32
variant two-stages 2
variant two-shards 2 -tp 2
ROWS=9 variant stages-and-shards 4 -pp 2 -tp 2 --block-size 32
variant two-replicas 2 -dp 2 --max-num-seqs 2
grep -q "GPU 1" "$work/float32-two-stages.jsonl.log" || fail "the table does not name the devices"

# asynchronously NAME RANKS OPTIONS...: a variant whose streams are threads that begin each operation after a random time.
asynchronously() {
  FAKE_CUDA_MODE=threads FAKE_CUDA_DELAY_US=100 variant "$@"
}
says "$work/$base-two-stages.jsonl.log" "between GPUs: mpi-staged (the fake NCCL needs"
asynchronously by-choice 2
says "$work/$base-by-choice.jsonl.log" "between GPUs: nccl, which may take 50.0 MiB of this GPU"
asynchronously nccl-stages 3 -pp 3 --num-micro-batches 5 --transport nccl
FAKE_NCCL_SERIAL=1 ROWS=9 asynchronously nccl-shards 4 -pp 2 -tp 2 --transport nccl
asynchronously nccl-replicas 4 -pp 2 -dp 2 --transport nccl
asynchronously staged 4 -pp 2 -tp 2 --transport mpi-staged
asynchronously cuda-aware 4 -pp 2 -tp 2 --transport mpi-cuda-aware

# Rows are drawn from their leaders, or whole, as a bias makes them come even where it changes nothing: the same answers.
cat >"$work/drawn.requests" <<'END'
{"custom_id": "plain", "prompt": [7, 8, 9], "temperature": 1, "seed": 7, "max_tokens": 8, "ignore_eos": true, "n": 2}
{"custom_id": "top-p", "prompt": [5, 9, 77], "temperature": 0.8, "top_p": 0.9, "max_tokens": 8, "logprobs": 3, "ignore_eos": true}
{"custom_id": "top-k", "prompt": [250], "temperature": 0.05, "top_k": 40, "max_tokens": 8, "logprobs": 0, "ignore_eos": true}
{"custom_id": "min-p", "prompt": [300, 41], "temperature": 30, "min_p": 0.5, "max_tokens": 8, "logprobs": 20, "ignore_eos": true}
{"custom_id": "greedy", "prompt": [120, 77, 9], "temperature": 0, "max_tokens": 8, "logprobs": 5, "ignore_eos": true}
{"custom_id": "penalised", "prompt": [9, 9, 9], "temperature": 1, "presence_penalty": 1, "max_tokens": 8, "logprobs": 1, "ignore_eos": true}
END
sed 's/}$/, "logit_bias": {"3": 0}}/' "$work/drawn.requests" >"$work/whole.requests"
requests=$work/whole.requests run whole 1 --dtype float32 --deterministic
says "$work/whole.jsonl.summary.json" '"draws_from_leaders": *0,'
for layout in "-pp 1" "-tp 2"; do
  rm -f "$work"/leading.jsonl*
  # shellcheck disable=SC2086
  requests=$work/drawn.requests run leading "${layout#* }" --dtype float32 --deterministic $layout
  same "$work/whole.jsonl" "$work/leading.jsonl" "leaders with $layout"
  says "$work/leading.jsonl.summary.json" '"draws_from_leaders": *[1-9]'
  says "$work/leading.jsonl.summary.json" '"draws_from_rows": *[1-9]'  # penalties
done

# A device profile: what one start has tried out the next one takes, on every rank; a device of another name is tried out beside it.
profile=$work/profile.json
variant first-start 1 --device-profile "$profile"
says "$work/$base-first-start.jsonl.log" "$profile: 0 products known of Fake GPU 0 (sm 90, .*), 0 other"
says "$work/$base-first-start.jsonl.log" "$profile: 0 products taken, [1-9][0-9]* tried out and added"
variant next-start 1 --device-profile "$profile"
says "$work/$base-next-start.jsonl.log" "$profile: [1-9][0-9]* products taken, none tried out"
FAKE_CUDA_DEVICES=1 FAKE_CUDA_MODE=threads variant shared-profile 2 --share-device --device-profile "$profile"
says "$work/$base-shared-profile.jsonl.log" "$profile: [1-9][0-9]* products taken, none tried out"
CUDA_VISIBLE_DEVICES=1 variant other-device 1 --device-profile "$profile"
says "$work/$base-other-device.jsonl.log" "$profile: 0 products known of Fake GPU 1 (sm 90, .*), 1 other device or version"
variant both-devices 2 --device-profile "$profile"
says "$work/$base-both-devices.jsonl.log" "$profile: [1-9][0-9]* products taken, none tried out"
head -c 300 "$profile" >"$work/damaged.json"
code=0
generate 2 "$work/damaged.jsonl" --dtype float32 --device-profile "$work/damaged.json" || code=$?
[ "$code" = 2 ] && grep -q "^headrace: .*damaged.json: is no device profile" "$work/damaged.jsonl.log" ||
  { cat "$work/damaged.jsonl.log"; fail "a damaged device profile: exit code $code"; }
[ ! -e "$work/damaged.jsonl" ] || fail "a damaged device profile: something was written"

# A cuBLASLt whose first algorithms give rows that depend on how many there are: passed over, or filled up where there is no other.
FAKE_CUBLASLT_ALGORITHMS=mpos variant another-algorithm 2 -tp 2
says_not "$work/$base-another-algorithm.jsonl.log" warning
export FAKE_CUBLASLT_ALGORITHMS=m
start filled --dtype float32 --deterministic
close_to_reference filled
says "$work/filled.jsonl.log" "warning: GPU 0 .*: rows are taken 256 at a time and filled up"
ROWS=9 variant stages-and-shards 4 -pp 2 -tp 2 --block-size 32
run depending 1 --dtype float32
says "$work/depending.jsonl.log" "warning: GPU 0 .*: answers depend on the batch; --deterministic prevents that"
unset FAKE_CUBLASLT_ALGORITHMS

# One sum for each product: the split over shards is part of the numeric class, nothing else is.
start fast --dtype float32
close_to_reference fast
FAKE_CUDA_DEVICES=1 ROWS=5 FAKE_CUDA_MODE=threads variant shared-device 2 -pp 2 --share-device --num-micro-batches 3
says "$work/$base-shared-device.jsonl.log" "between GPUs: mpi-staged (2 ranks of"

# Where the transport adds, the number of shards is part of the numeric class; with two the order makes no difference.
for shards in 2 3; do
  base=summed-$shards
  numbers=(--dtype float32 -tp $shards)
  FAKE_CUDA_MODE=threads run $base $shards "${numbers[@]}" --transport nccl
  "$headrace" compare --tolerance 0.001 "$work/float32-reference.jsonl" "$work/$base.jsonl" || fail "$base: sums are wrong"
done
# Of three the order is NCCL's: sums by another transport are of another class.
code=0
generate 3 "$work/summed-3.jsonl" --threads 1 --dtype float32 -tp 3 --transport mpi-staged || code=$?
[ "$code" = 2 ] && grep -q "was cuda:90:.*:T3:nccl and is now .*:T3 .*--transport nccl restores it" "$work/summed-3.jsonl.log" ||
  { cat "$work/summed-3.jsonl.log"; fail "NCCL's sums were taken for others: exit code $code"; }
base=summed-2
numbers=(--dtype float32 -tp 2)
variant staged 2 --transport mpi-staged
ROWS=11 asynchronously two-stages 4 -pp 2 --transport nccl

# other_model NAME FOLDER: another model, on one rank and, without ALONE, on two that share its stage. Its requests need no tokenizer of its own.
small=$work/small.jsonl
cat >"$small" <<'END'
{"custom_id": "greedy", "prompt": [5, 9, 17, 20, 30, 41], "temperature": 0, "max_tokens": 6, "logprobs": 3, "ignore_eos": true}
{"custom_id": "scored", "prompt": [11, 22, 33, 44, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 2, 22, 23, 24, 25, 6, 7, 8], "temperature": 0, "max_tokens": 3, "prompt_logprobs": 1, "ignore_eos": true}
END
other_model() {
  local name=$1 model=$2 requests=$small
  [ ! -e "$model/model.gguf" ] || model=$model/model.gguf
  start "$name" --dtype float32 --tokenizer tests/data/golden/gqa_tied --deterministic
  close_to_reference "$name" --tokenizer tests/data/golden/gqa_tied
  [ -n "${ALONE:-}" ] || variant two-shards 2 -tp 2
}
other_model gemma3 tests/data/golden_families/gemma3
other_model olmo2 tests/data/golden_families/olmo2

# two_ranks NAME SETTING SETTING OPTIONS...: each rank with an environment of its own, $RANKS_BEHIND the second one; the exit code
# is the job's.
two_ranks() {
  local name=$1
  local program=("$headrace" generate --model "$model" --input "$requests" --output "$work/$name.jsonl" --dtype float32
    --kv-cache-memory-bytes 8MiB --threads 1 "${@:4}")
  mpirun --timeout "$(time_limit 100)" -n 1 env "$2" "${program[@]}" : -n "${RANKS_BEHIND:-1}" env "$3" "${program[@]}" >"$work/$name.log" 2>&1
}

# A stage on the CPU and one on a GPU, in both orders; not both within a stage.
mixed() {
  two_ranks "$@" --device auto || { cat "$work/$1.log"; fail "$1: exit code $?"; }
  "$headrace" compare --tolerance 0.001 "$work/float32-reference.jsonl" "$work/$1.jsonl" || fail "$1 differs"
}
mixed cpu-then-gpu CUDA_VISIBLE_DEVICES= FAKE_CUDA_DEVICES=1
# Then two on GPUs, who give each other the states themselves.
FAKE_CUDA_MODE=threads RANKS_BEHIND=2 mixed cpu-then-gpus CUDA_VISIBLE_DEVICES= FAKE_CUDA_DEVICES=2 --transport nccl
mixed gpu-then-cpu FAKE_CUDA_DEVICES=1 CUDA_VISIBLE_DEVICES=
code=0
two_ranks mixed-shards FAKE_CUDA_DEVICES=1 CUDA_VISIBLE_DEVICES= -tp 2 || code=$?
[ "$code" = 2 ] && grep -q "all ranks of a stage need the same kind of device" "$work/mixed-shards.log" ||
  { cat "$work/mixed-shards.log"; fail "a stage on CPU and GPU: exit code $code"; }

# refused FRAGMENT RANKS OPTIONS...: exit code 2, one line, nothing written.
refused() {
  local fragment=$1 ranks=$2 code=0
  shift 2
  generate "$ranks" "$work/refused.jsonl" "$@" || code=$?
  [ "$code" = 2 ] || { cat "$work/refused.jsonl.log"; fail "$*: exit code $code instead of 2"; }
  [ "$(grep -c '^headrace: ' "$work/refused.jsonl.log")" = 1 ] || { cat "$work/refused.jsonl.log"; fail "$*: not one line"; }
  grep '^headrace: ' "$work/refused.jsonl.log" | grep -q -- "$fragment" ||
    { cat "$work/refused.jsonl.log"; fail "$*: no word of '$fragment'"; }
  [ ! -e "$work/refused.jsonl" ] || fail "$*: something was written"
}
CUDA_VISIBLE_DEVICES="" refused "--device cuda: rank 0 .* has no GPU" 2
FAKE_CUDA_DEVICES=1 refused "2 ranks of .* compute on GPU 0 .*--share-device" 2
FAKE_CUDA_BYTES=220000000 refused "weights and workspace take .* its share is" 1
FAKE_CUDA_BYTES=250000000 refused "--kv-cache-memory-bytes .* does not fit" 2
# The same GPU, but for what NCCL takes of it.
KV=1MiB FAKE_CUDA_BYTES=260000000 FAKE_CUDA_MODE=threads run without-nccl 2 --dtype float32 --transport mpi-staged
KV=1MiB FAKE_CUDA_BYTES=260000000 FAKE_CUDA_MODE=threads refused "MiB of it NCCL), its share is" 2 --dtype float32 --transport nccl
refused "--quantization int4 is not offered on GPUs" 1 --quantization int4
refused "--kv-cache-dtype int8 is not offered on GPUs" 1 --kv-cache-dtype int8
refused "--backend .* is for CPUs" 1 --backend reference
DEVICE=cpu refused "--share-device .* is for GPUs" 1 --share-device
DEVICE=cpu refused "--transport .* is for GPUs" 2 --transport nccl
DEVICE=cpu refused "--device-profile .* is for GPUs" 1 --device-profile "$profile"
CUDA_VISIBLE_DEVICES="" DEVICE=auto refused "--device-profile is for GPUs, and no rank computes on one: " 2 --device-profile "$profile"
CUDA_VISIBLE_DEVICES="" DEVICE=auto refused "--transport nccl is between GPUs, and no rank computes on one" 2 --transport nccl
FAKE_NCCL_MISSING=1 refused "--transport nccl: NCCL cannot be loaded" 2 --transport nccl
FAKE_CUDA_DEVICES=1 FAKE_CUDA_MODE=threads refused "2 ranks of .* share GPU 0, and NCCL takes one a GPU" 2 --share-device --transport nccl
FAKE_MPI_WITHOUT_CUDA=1 refused "this MPI does not take memory of a GPU" 2 --transport mpi-cuda-aware
DEVICE=cpu refused "float16 is for GPUs" 1 --dtype float16

[ -n "${FULL:-}" ] || exit 0

layouts=${LAYOUTS:-1x2x1 1x3x1 1x4x1 2x1x1 2x2x1 3x1x1 4x1x1 1x1x2 1x1x3 1x1x4 2x1x2 1x2x2}
for dtype in float32 bfloat16 float16; do
  start "full-$dtype" --dtype $dtype --deterministic
  for layout in $layouts; do
    IFS=x read -r p t d <<<"$layout"
    for transport in nccl mpi-staged; do
      ROWS=$((7 + p + t)) asynchronously "$layout-$transport" $((p * t * d)) -pp "$p" -tp "$t" -dp "$d" --transport $transport
    done
  done
done
[ -z "${LAYOUTS:-}" ] || exit 0

for folder in tests/data/golden_families/*/ tests/data/golden/*/; do
  ALONE=1 other_model "$(basename "$folder")" "${folder%/}"  # some have too few heads for two
done
