#!/bin/bash
# A real GGUF checkpoint against transformers in float32 on the same dequantised weights: log-probabilities of prompts shorter and
# longer than the model's window, greedy continuations, and chats, each as a whole job over 1 rank and over 2 stages. Run by hand:
# torch and transformers are installed, once, into ${HEADRACE_CACHE:-~/.cache/headrace}/real-model (some GB; --python PYTHON takes
# an interpreter that has them).
#   tests/golden/real_model.sh [--headrace PROGRAM] [--python PYTHON] MODEL.gguf
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh

headrace=build/dev/launch/headrace python="" model=""
while [ $# -gt 0 ]; do
  case $1 in
  --headrace) headrace=${2:?--headrace needs a value} && shift 2 ;;
  --python) python=${2:?--python needs a value} && shift 2 ;;
  --*) echo "unknown option $1 (there are --headrace, --python)" >&2 && exit 2 ;;
  *) model=$1 && shift ;;
  esac
done
[ -f "$model" ] || { echo "no file '$model': give a GGUF checkpoint" >&2 && exit 2; }
[ -x "$headrace" ] || { echo "no program $headrace: build it (cmake --preset dev), or say --headrace" >&2 && exit 2; }

if [ -z "$python" ]; then
  require_packages "${comparison_packages[@]}"
  environment=${HEADRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}/real-model
  [ -e "$environment/bin/pip" ] || python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir torch transformers==5.24.0 accelerate \
    gguf==0.19.0 tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
  python=$environment/bin/python
fi
yield_when_idle 2 1
PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false "$python" tests/golden/real_model.py "$headrace" "$model"
