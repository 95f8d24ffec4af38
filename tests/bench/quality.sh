#!/bin/bash
# What --quantization costs a model: perplexity of a text, by the log-probabilities that headrace gives its prompts,
# beside the unquantised model's.
#   tests/bench/quality.sh [--text FILE] [--threads 2] [--headrace PROGRAM] [--model MODEL] [QUANTIZATION...]
# Without --text this tree's own pages are the text. QUANTIZATIONs default to all that there are.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

threads=2 model="" headrace=build/release/launch/headrace
text=(README.md ARCHITECTURE.md model/TOKENIZERS.md runtime/job/JOURNAL.md)
while [ $# -gt 0 ] && [ "${1#--}" != "$1" ]; do
  [ $# -ge 2 ] || fail "$1 needs a value" 2
  case $1 in
  --text) text=("$2") ;;
  --threads) threads=$2 ;;
  --model) model=$2 ;;
  --headrace) headrace=$2 ;;
  *) fail "unknown option $1 (there are --text, --threads, --model, --headrace)" 2 ;;
  esac
  shift 2
done
quantizations=("$@")
[ $# -gt 0 ] || quantizations=(int8)
[ -x "$headrace" ] || fail "no program $headrace: build it (cmake --workflow, README.md), or say --headrace" 2
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Passages of about 1,500 characters, each scored by itself. The one token that is generated does not count.
cat "${text[@]}" | awk '
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

# perplexity QUANTIZATION: leaves tokens and perplexity in $work/QUANTIZATION.
perplexity() {
  local output=$work/$1.jsonl
  mpirun -n 1 --bind-to none "$headrace" generate --model "$model" --input "$work/requests.jsonl" --output "$output" \
    --threads "$threads" --quantization "$1" >"$output.log" 2>&1 || { tail -n 20 "$output.log" >&2; fail "$1 failed"; }
  grep -oP '"token_logprobs"\s*:\s*\[\K[^]]*' "$output" | awk -F, '
    { for (i = 1; i < NF; ++i) if ($i != "null") { sum -= $i; ++n } }
    END { printf "%d %.4f\n", n, exp(sum / n) }' >"$work/$1"
}

perplexity none
read -r tokens unquantised <"$work/none"
echo "$model, $tokens tokens of ${text[*]}"
printf '%-8s perplexity %9.4f\n' none "$unquantised"
for quantization in "${quantizations[@]}"; do
  perplexity "$quantization"
  read -r _ value <"$work/$quantization"
  awk -v name="$quantization" -v value="$value" -v base="$unquantised" 'BEGIN {
    printf "%-8s perplexity %9.4f  %+.2f %%\n", name, value, 100 * (value / base - 1) }'
done
