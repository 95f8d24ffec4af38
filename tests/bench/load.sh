#!/bin/bash
# How fast weights are loaded: pipelines, replicas and tensor-parallel ranks of 1, 2 and 4, each rank reading for itself
# (--load own) and ranks reading together (--load node), against a plain read of the checkpoint's bytes by one process. The
# checkpoint is made from the quickstart's model, and read from the page cache. The two ways take turns for several rounds, so that
# a machine that changes its speed changes it for both; shown are medians with minimum and maximum, of the seconds and of
# each round's ratio node / own.
#
# On two cores that others used too (SmolLM2, 269 MB of bfloat16, ratios of 3 to 5 rounds): 1x1x2 0.6 to 1.1, with 20 % less CPU time,
# since half the bytes are read and converted once; 2x1x1 about 0.7. 1x1x4, twice as many ranks as cores, is slower with node: 1.1
# to 1.7, with 15 % more CPU time. Its ranks meet in every round, at least one for each tensor, and where they take turns on
# the cores each meeting waits for the one that comes last; with own none waits for another.
#   tests/bench/load.sh [--rounds 5] [--headrace PROGRAM] [--model MODEL]
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

rounds=5 model="" headrace=build/release/launch/headrace
read_options "rounds headrace model" "$@"
[ -x "$headrace" ] || fail "no program $headrace: build it (cmake --workflow, README.md), or say --headrace" 2
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$headrace" convert --model "$model" --output "$work/model.h5"
echo '{"prompt":"Once","max_tokens":1}' >"$work/requests.jsonl"

# seconds OPTIONS...: what generate says loading took.
seconds() {
  local ranks=$1
  shift
  yield_when_idle "$ranks" 1
  mpirun -n "$ranks" "$headrace" generate --model "$work/model.h5" --input "$work/requests.jsonl" --overwrite \
    --output "$work/answers.jsonl" --threads 1 --kv-cache-memory-bytes 64MiB --max-model-len 512 "$@" >"$work/log" 2>&1 ||
    fail "$(tail -n 5 "$work/log")"
  sed -n 's/^loaded: .* read, \([0-9.]*\) s.*/\1/p' "$work/log"
}

bytes=$(stat -c %s "$work/model.h5")
for ((round = 1; round <= rounds; ++round)); do
  LC_ALL=C dd if="$work/model.h5" of=/dev/null bs=4M 2>&1 | awk -F', ' '/copied/ { print $(NF - 1) + 0 }'
done >"$work/plain"
printf 'plain read of %d MB: %s s\n' $((bytes / 1000000)) "$(spread %.2f <"$work/plain")"
printf '%-16s %22s %22s %22s\n' layout 'own, s' 'node, s' 'node / own'
for layout in "1 1 1" "2 1 1" "4 1 1" "1 2 1" "1 1 2" "1 1 4" "2 1 2"; do
  read -r p t d <<<"$layout"
  rm -f "$work"/{own,node}
  for ((round = 1; round <= rounds; ++round)); do
    for how in own node; do
      seconds $((p * t * d)) -pp "$p" -tp "$t" -dp "$d" --load "$how" >>"$work/$how"
    done
  done
  paste "$work/node" "$work/own" | awk '{ print $1 / $2 }' >"$work/ratios"
  printf '%-16s %22s %22s %22s\n' "${p}x${t}x${d}" "$(spread %.2f <"$work/own")" "$(spread %.2f <"$work/node")" \
    "$(spread %.2f <"$work/ratios")"
done
