#!/bin/bash
# How soon a job has its first token, and what memory it takes beyond weights and KV cache, on the quickstart's model.
#   tests/bench/start_up.sh [--rounds 5] [--requests 64] [--headrace PROGRAM] [--model MODEL] [--threads 2] [-- OPTION...]
# Start-up: a job of one short request, from the program's first moment to its first sampled token; the best of the
# rounds counts, the model being in the page cache. Memory: a job of --requests whose KV cache is so small that all of it
# gets used. Fails beyond 1 s, 150 MB in all (250 MB for vocabularies above 150,000), or 300 MB more while loading.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh
. tests/bench/measure.sh

rounds=5 requests=64 threads=2 model="" headrace=build/release/launch/headrace
more=()
read_options "rounds requests threads model headrace" "$@"
[ -x "$headrace" ] || fail "no program $headrace: build it, or say --headrace" 2
command -v /usr/bin/time >/dev/null || require_packages time
[ -n "$model" ] || model=$(fetch_model)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{"prompt":"The capital of France is","max_tokens":1,"temperature":0}' >"$work/one.requests.jsonl"
awk -v count="$requests" -f tests/bench/make_requests.awk tests/bench/words.txt >"$work/many.requests.jsonl"

# run NAME INPUT OPTION...: one rank.
run() {
  run_measured "$work/$1" 1 "$headrace" generate --model "$model" --input "$2" --output "$work/$1.jsonl" \
    --threads "$threads" "${@:3}" "${more[@]}"
}
# of NAME KEY
of() { json_numbers "$2" "$work/$1.jsonl.summary.json" | head -n 1; }

for ((round = 1; round <= rounds; ++round)); do
  run "one.$round" "$work/one.requests.jsonl"
  of "one.$round" start_up_s >>"$work/start_up"
  of "one.$round" load_s >>"$work/load"
done
echo "start-up, s: $(spread %.3f <"$work/start_up") (limit 1 for the best), of it loading $(spread %.3f <"$work/load")"

run many "$work/many.requests.jsonl" --kv-cache-memory-bytes 256MiB
vocabulary=$(grep -oP 'vocabulary \K[0-9]+' "$work/many.log" | head -n 1)
verdict=0
awk -v weights="$(of many weight_bytes)" -v kv="$(of many kv_cache_bytes)" -v peak="$(of many peak_memory_bytes)" \
  -v loading="$(of many loading_peak_bytes)" -v best="$(sort -g "$work/start_up" | head -n 1)" \
  -v beyond_limit=$((vocabulary > 150000 ? 250 : 150)) '
  function mb(bytes) { return bytes / 1e6 }
  BEGIN {
    beyond = mb(peak - weights - kv)
    more = mb(loading - weights)
    printf "memory, MB: %.0f at most, of it weights %.0f, KV cache %.0f, all else %.0f (limit %d)\n", \
      mb(peak), mb(weights), mb(kv), beyond, beyond_limit
    printf "while loading, MB: %.0f at most, that is %.0f beyond the weights (limit %d)\n", \
      mb(loading), more, beyond_limit + 300
    exit best > 1 || beyond > beyond_limit || more > beyond_limit + 300
  }' || verdict=$?
[ $verdict = 0 ] || fail "beyond a limit"
