#!/bin/bash
# From a fresh Debian 12 to answers: packages, release build, a small model, and one run over two pipeline stages.
#   launch/quickstart.sh
# Run it again: everything is there already, and generate says that the job is finished.
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/packages.sh
. launch/model.sh
. launch/local_mpi.sh

answers=build/quickstart/answers.jsonl
requests=configs/example_requests.jsonl

# last_text ID FILE: the last content, prompt or text of the line with that custom_id, unescaped.
last_text() {
  local escaped
  escaped=$(grep -F "\"custom_id\":\"$1\"" "$2" |
    grep -oP '"(content|prompt|text)": ?"\K(\\.|[^"\\])*' | tail -n 1) || escaped="(none)"
  printf '%b' "$escaped"
}

step() { printf '\n[%3d s] %s\n' "$SECONDS" "$*"; }

step "Packages"
require_packages "${build_packages[@]}"
require_pip

step "Release build (build/release)"
cmake --preset release
cmake --build --preset release --target headrace --parallel "$(nproc)"

step "Model"
model=$(fetch_model)
echo "$model"

step "Two pipeline stages answer $requests"
mkdir -p "$(dirname "$answers")"
yield_when_idle 2 1
command=(mpirun -n 2 build/release/launch/headrace generate --model "$model" --input "$requests"
  --output "$answers" --pipeline-parallel-size 2)
echo "${command[*]}"
status=0
"${command[@]}" || status=$?
# 3: finished, and some requests got an error instead of an answer. Anything else is not an output.
case $status in
0 | 3) ;;
*) exit "$status" ;;
esac

step "Answers ($answers)"
for id in capital-of-france python-factorial question-in-french continue-sea; do
  printf '\n%s\n' "--- $id"
  printf 'Q: %s\n' "$(last_text "$id" "$requests")"
  printf 'A: %s\n' "$(last_text "$id" "$answers")"
done
exit "$status"
