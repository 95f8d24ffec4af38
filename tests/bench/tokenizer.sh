#!/bin/bash
# Encoding on one core: Headrace against Hugging Face's tokenizers, by the same tokenizer, on the same texts in many
# languages, made from files of this tree. The two take turns for several rounds on the same core; the table shows medians with minimum
# and maximum. It fails where the ids differ.
#   tests/bench/tokenizer.sh [--model MODEL] [--rounds 7] [--program PROGRAM]
# MODEL is a GGUF file with a byte-level tokenizer (default: the quickstart's) or a directory with tokenizer.json. Python packages go
# into an environment of their own in ${HEADRACE_CACHE:-~/.cache/headrace}/tokenizer-bench.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/model.sh
. tests/bench/measure.sh

model="" rounds=7 program=build/dev/tests/model/tokenizer/bench_tokenizer
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "$1 needs a value" 2
  case $1 in
  --model) model=$2 ;;
  --rounds) rounds=$2 ;;
  --program) program=$2 ;;
  *) fail "unknown option $1 (there are --model, --rounds, --program)" 2 ;;
  esac
  shift 2
done
[ -x "$program" ] || fail "no program $program: build it (cmake --preset dev), or say --program" 2
[ -n "$model" ] || model=$(fetch_model)

environment=${HEADRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}/tokenizer-bench
if [ ! -e "$environment/complete" ]; then
  require_packages "${comparison_packages[@]}"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3 gguf==0.19.0
  touch "$environment/complete"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TOKENIZERS_PARALLELISM=false "$environment/bin/python" tests/bench/tokenizer_bench.py \
  --program "$program" --model "$model" --rounds "$rounds" --work "$work"
