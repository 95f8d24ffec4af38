#!/bin/bash
# What quantising costs a model: perplexity of a text, by the log-probabilities that headrace gives its prompts, and how
# far these are from the unquantised model's on the average.
#   tests/bench/quality.sh [--text FILE] [--calibration FILE] [--max-layer-error X] [--threads 2] [--headrace PROGRAM] [--model MODEL]
# Without --text this tree's own pages are the text, and without --calibration other ones are what integers are chosen by. What
# matrices take is printed, too. Matrices that come from a Q4_1 file, as those of the default model do, fit int4's groups of 32
# exactly: what plain rounding costs other models is far more, and what calibration is good for shows with those alone: off_grid_model.py
# makes one of the same function.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

threads=2 model="" text="" calibration="" max_layer_error=0.002 headrace=build/release/launch/headrace
read_options "text calibration max-layer-error threads headrace model" "$@"
pages=(README.md ARCHITECTURE.md model/TOKENIZERS.md runtime/job/JOURNAL.md)
[ -z "$text" ] || pages=("$text")
[ -x "$headrace" ] || fail "no program $headrace: build it (cmake --workflow, README.md), or say --headrace" 2
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Passages of about 1,500 characters, each scored by itself. The one token that is generated does not count.
cat "${pages[@]}" | awk '
  function flush() {
    if (length(passage) > 200) {
      printf "{\"custom_id\":\"passage-%d\",\"prompt\":\"%s\",\"max_tokens\":1,\"echo\":true,\"logprobs\":0}\n", ++n, passage
    }
    passage = ""
  }
  {
    gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/[\001-\037]/, " ")
    passage = passage $0 "\\n"
    if (length(passage) > 1500) flush()
  }
  END { flush() }' >"$work/requests.jsonl"

if [ -z "$calibration" ]; then
  calibration=$work/calibration.txt
  cat model/checkpoint/FORMAT.md runtime/schedule/STEP_PLAN.md tests/golden/README.md CHANGELOG.md kernels/ops.h \
    kernels/cpu/simd_gemm.h runtime/schedule/scheduler.h model/families/*.h launch/generate.cpp >"$calibration"
fi

# convert NAME OPTION...: a checkpoint $work/NAME.h5, and what its tensors take.
convert() {
  local name=$1
  shift
  [ $# -eq 0 ] || set -- "$@" --threads "$threads"
  "$headrace" convert --model "$model" --output "$work/$name.h5" "$@" >"$work/$name.log" 2>&1 ||
    { tail -n 20 "$work/$name.log" >&2; fail "converting $name"; }
  echo "$name: $("$headrace" inspect "$work/$name.h5" --json | grep -oP '"weight_bytes"\s*:\s*\K[0-9]+') bytes of weights"
  sed -n '/^whole model/,/^matrices/p' "$work/$name.log"
}

# score NAME OPTION...: leaves the log-probabilities, one a line, in $work/NAME, and prints what they come to.
score() {
  local name=$1 output=$work/$1.jsonl
  shift
  mpirun -n 1 --bind-to none "$headrace" generate --model "${scored:-$model}" --input "$work/requests.jsonl" --output "$output" \
    --threads "$threads" "$@" >"$output.log" 2>&1 || { tail -n 20 "$output.log" >&2; fail "$name failed"; }
  grep -oP '"token_logprobs"\s*:\s*\[\K[^]]*' "$output" |
    awk -F, '{ for (i = 1; i < NF; ++i) if ($i != "null") print $i }' >"$work/$name"
  paste "$work/plain" "$work/$name" | awk -v name="$name" '
    { plain += $1; sum += $2; distance += $1 > $2 ? $1 - $2 : $2 - $1 }
    END {
      printf "%-24s perplexity %9.4f  %+.2f %%  mean distance of log-probabilities %.4f\n",
             name, exp(-sum / NR), 100 * (exp((plain - sum) / NR) - 1), distance / NR
    }'
}

echo "$model, ${pages[*]}"
score plain
score int8-cache --kv-cache-dtype int8
score int8-weights --quantization int8
score int8-weights-and-cache --quantization int8 --kv-cache-dtype int8
score int8-weights-alone --quantization int8 --quantized-inputs none
score int4-weights --quantization int4
score int4-weights-alone --quantization int4 --quantized-inputs none
convert plain
convert int8-rounded --quantize int8
convert int8-by-chance --quantize int8 --stochastic-rounding 1
scored=$work/int8-by-chance.h5 score int8-by-chance
convert int8-calibrated --quantize int8 --calibration "$calibration"
scored=$work/int8-calibrated.h5 score int8-calibrated
convert int4-rounded --quantize int4
convert int4-calibrated --quantize int4 --calibration "$calibration"
scored=$work/int4-calibrated.h5 score int4-calibrated
convert int4-limited --quantize int4 --calibration "$calibration" --max-layer-error "$max_layer_error"
scored=$work/int4-limited.h5 score int4-limited
echo "$(wc -l <"$work/plain") tokens"
