#!/bin/bash
# How fast weights are loaded: pipelines, replicas and tensor-parallel ranks of 1, 2 and 4, each rank reading for itself
# (--load own) and ranks reading together (--load node), against a plain read of the checkpoint's bytes by one process. The
# checkpoint is made from the quickstart's model, and read from the page cache. Best of several rounds; the rate is that
# of weights held, so replicas that share their reading may exceed what the files give.
#   tests/bench/load.sh [--rounds 5] [--headrace PROGRAM] [--model MODEL]
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

rounds=5 model="" headrace=build/release/launch/headrace
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "$1 needs a value" 2
  case $1 in
  --rounds) rounds=$2 ;;
  --model) model=$2 ;;
  --headrace) headrace=$2 ;;
  *) fail "unknown option $1 (there are --rounds, --headrace, --model)" 2 ;;
  esac
  shift 2
done
[ -x "$headrace" ] || fail "no program $headrace: build it (cmake --workflow, README.md), or say --headrace" 2
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$headrace" convert --model "$model" --output "$work/model.h5"
echo '{"prompt":"Once","max_tokens":1}' >"$work/requests.jsonl"

# best: the smallest of the numbers on standard input.
best() { sort -g | head -n 1; }

# seconds OPTIONS...: what generate says loading took.
seconds() {
  local ranks=$1
  shift
  mpirun -n "$ranks" "$headrace" generate --model "$work/model.h5" --input "$work/requests.jsonl" --overwrite \
    --output "$work/answers.jsonl" --threads 1 --kv-cache-memory-bytes 64MiB --max-model-len 512 "$@" >"$work/log" 2>&1 ||
    fail "$(tail -n 5 "$work/log")"
  sed -n 's/^loaded: .* read, \([0-9.]*\) s.*/\1/p' "$work/log"
}

bytes=$(stat -c %s "$work/model.h5")
for ((round = 1; round <= rounds; ++round)); do
  LC_ALL=C dd if="$work/model.h5" of=/dev/null bs=4M 2>&1 | awk -F', ' '/copied/ { print $(NF - 1) + 0 }'
done >"$work/plain"
printf 'plain read of %d MB: %.2f s\n' $((bytes / 1000000)) "$(best <"$work/plain")"
printf '%-24s %10s %10s\n' layout own node
for layout in "1 1 1" "2 1 1" "4 1 1" "1 2 1" "1 1 2" "1 1 4" "2 1 2"; do
  read -r p t d <<<"$layout"
  for how in own node; do
    for ((round = 1; round <= rounds; ++round)); do
      seconds $((p * t * d)) -pp "$p" -tp "$t" -dp "$d" --load "$how"
    done >"$work/$how"
  done
  printf '%-24s %8.2f s %8.2f s\n' "${p}x${t}x${d}, $((p * t * d)) ranks" "$(best <"$work/own")" "$(best <"$work/node")"
done
