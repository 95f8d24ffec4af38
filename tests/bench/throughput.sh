#!/bin/bash
# One process with two threads against two pipeline stages with one thread each (or more stages, that share the cores), on
# the quickstart's model: tokens a second, where the stages' time goes, peak memory. The two take turns, because a shared machine changes speed from
# minute to minute; the table shows medians over the rounds, with minimum and maximum. The answers must be the same bytes.
#   tests/bench/throughput.sh [--requests 128] [--rounds 3] [--stages 2] [--headrace PROGRAM] [--model MODEL] [--threads 2] [-- OPTION...]
# --requests: 128 and 1000 are the sizes to quote. --threads: of the machine; stages share them, one each at least.
# OPTIONs after -- go to generate.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

requests=128 rounds=3 stages=2 threads=2 model="" headrace=build/release/launch/headrace
more=()
read_options "requests rounds stages threads model headrace" "$@"
[ -x "$headrace" ] || fail "no program $headrace: build it (cmake --workflow, README.md), or say --headrace" 2
[ "$stages" -gt 1 ] || fail "--stages $stages: at least 2, which are compared with 1" 2
threads_of() { echo $(($1 < threads ? threads / $1 : 1)); }
command -v /usr/bin/time >/dev/null || require_packages time
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v count="$requests" -f tests/bench/make_requests.awk tests/bench/words.txt >"$work/requests.jsonl"

# run RANKS ROUND: leaves $work/RANKS.ROUND.* behind.
run() {
  local prefix=$work/$1.$2
  yield_when_idle "$1" "$(threads_of "$1")"
  run_measured "$prefix" "$1" "$headrace" generate --model "$model" --input "$work/requests.jsonl" \
    --output "$prefix.jsonl" --pipeline-parallel-size "$1" --threads "$(threads_of "$1")" "${more[@]}"
  cmp "$prefix.jsonl" "$work/1.1.jsonl" || fail "$1 ranks, round $2: the answers differ"
  printf '%d ranks, round %d: %s tokens/s\n' "$1" "$2" \
    "$(json_numbers output_tokens_per_s "$prefix.jsonl.summary.json")"
}

for ((round = 1; round <= rounds; ++round)); do
  # Who goes first alternates too.
  if [ $((round % 2)) = 1 ]; then order=(1 "$stages"); else order=("$stages" 1); fi
  for ranks in "${order[@]}"; do run "$ranks" "$round"; done
done

# of RANKS KEY INDEX: that value of every round.
of() {
  local file
  for file in "$work/$1".*.summary.json; do json_numbers "$2" "$file" | sed -n "$(($3 + 1))p"; done
}
row() { printf '%-30s %28s %28s %8s\n' "$1" "$2" "$3" "${4:-}"; }
# row_of TITLE FORMAT KEY INDEX
row_of() {
  local one two
  one=$(of 1 "$3" "$4" | spread "$2")
  two=$(of "$stages" "$3" "$4" | spread "$2")
  row "$1" "$one" "$two" "$(ratio "${one%% *}" "${two%% *}")"
}
ratio() { awk -v one="$1" -v two="$2" 'BEGIN { if (one > 0 && two != "-") printf "%.3f", two / one }'; }
peaks() { cat "$work/$1".*.peak_kb."$2" 2>/dev/null | awk '{ print $1 / 1024 }' || true; }

echo
echo "$model, $requests requests, $rounds rounds: median [min - max]"
row "" "1 rank x $threads threads" "$stages ranks x $(threads_of "$stages") threads" "$stages : 1"
row_of "output tokens/s" %.1f output_tokens_per_s 0
row_of "prompt tokens/s" %.1f prompt_tokens_per_s 0
row_of "wall time, s" %.1f wall_s 0
row_of "loading, s" %.1f load_s 0
row_of "prompt tokens" %.0f run_prompt_tokens 0
row_of "output tokens" %.0f run_completion_tokens 0
for ((stage = 0; stage < stages; ++stage)); do
  row_of "stage $stage busy, %" %.1f busy_percent $stage
  row_of "stage $stage waiting, %" %.1f wait_percent $stage
  row_of "stage $stage transferring, %" %.1f transfer_percent $stage
done
of_all=0
for ((rank = 0; rank < stages; ++rank)); do
  peak=$(peaks "$stages" "$rank" | spread %.0f)
  row "rank $rank peak memory, MiB" "$(peaks 1 "$rank" | spread %.0f)" "$peak"
  of_all=$((of_all + ${peak%% *}))
done
row "sum of medians, MiB" "$(peaks 1 0 | spread %.0f | cut -d' ' -f1)" "$of_all"
echo "answers: the same bytes in all $((2 * rounds)) runs"
