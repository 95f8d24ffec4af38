#!/bin/bash
# By hand: a real model gives the same bytes in every layout, from its GGUF file and from the .h5 files made of it, in both
# types; and the same answers from either file.
#   tests/system/real_equality.sh HEADRACE [MODEL.gguf] [LAYOUT ...]      the quickstart's model; P×T×D written 2x2x1
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/local_mpi.sh
export OMPI_MCA_mpi_yield_when_idle=1
headrace=$1
model=${2:-${HEADRACE_CACHE:-$HOME/.cache/headrace}/SmolLM2-135M-Instruct.Q4_1.gguf}
layouts=("${@:3}")
[ ${#layouts[@]} != 0 ] || layouts=(1x1x1 3x1x1 1x2x1 2x2x1 1x1x2 2x1x2 1x3x1 1x4x1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

cat >"$work/requests.jsonl" <<'END'
{"custom_id":"greedy","prompt":"The capital of France is","max_tokens":12,"temperature":0,"logprobs":3}
{"custom_id":"sampled","prompt":"Once upon a time, in a village by the sea,","max_tokens":12,"seed":7,"n":2,"logprobs":1}
{"custom_id":"chat","messages":[{"role":"user","content":"Name three colours."}],"max_tokens":12,"temperature":0.8,"top_p":0.9}
{"custom_id":"scored","prompt":"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness","max_tokens":1,"echo":true,"logprobs":1,"temperature":0}
{"custom_id":"long","messages":[{"role":"user","content":"Write a sentence about a river that runs from the mountains through forests, fields and towns until it comes to the sea, and say what it passes on its way, who lives there, and what they do all day long in summer and in winter."}],"max_tokens":10,"temperature":0}
END

# answers OUTPUT MODEL DTYPE LAYOUT
answers() {
  local output=$1 source=$2 dtype=$3 p t d
  IFS=x read -r p t d <<<"$4"
  mpirun --timeout 300 -n $((p * t * d)) "$headrace" generate --model "$source" --input "$work/requests.jsonl" \
    --output "$output" --dtype "$dtype" --threads 1 -pp "$p" -tp "$t" -dp "$d" --max-model-len 512 \
    --kv-cache-memory-bytes 64MiB >"$output.log" 2>&1 || { tail -n 20 "$output.log" >&2; fail "$4 of $source, $dtype"; }
}

for dtype in bfloat16 float32; do
  "$headrace" convert --model "$model" --dtype $dtype --output "$work/model-$dtype.h5" >/dev/null
  for source in "$model" "$work/model-$dtype.h5"; do
    kind=${source##*.}
    for layout in "${layouts[@]}"; do
      answers "$work/$dtype-$kind-$layout.jsonl" "$source" $dtype "$layout"
      cmp "$work/$dtype-$kind-${layouts[0]}.jsonl" "$work/$dtype-$kind-$layout.jsonl" ||
        fail "$layout from .$kind in $dtype: other bytes than ${layouts[0]}"
    done
    echo "$dtype from .$kind: the same bytes in ${layouts[*]}"
  done
  "$headrace" compare "$work/$dtype-gguf-${layouts[0]}.jsonl" "$work/$dtype-h5-${layouts[0]}.jsonl" >/dev/null ||
    fail "$dtype: other answers from .h5 than from .gguf"
  echo "$dtype: the same answers from .gguf and .h5"
done
cmp -s "$work/bfloat16-gguf-${layouts[0]}.jsonl" "$work/float32-gguf-${layouts[0]}.jsonl" && fail "both types give the same"
echo "equal"
