#!/bin/bash
# A long input must not cost memory: rank 0 may need at most --limit MiB more for --lines lines than for 10,000.
# Tiny model, one token a request, so that nearly all of it is reading, bookkeeping and writing; every 97th line
# is a bad one and every 89th is blank, since both take other ways through the program. The KV cache is kept small: by
# default it is a share of the free memory, of which a longer job touches more.
#   tests/bench/memory.sh [--lines 1000000] [--limit 64] [--headrace PROGRAM] [--model DIRECTORY]
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh
. launch/local_mpi.sh
. tests/bench/measure.sh

lines=1000000 limit=64 model=tests/data/golden/gqa_tied headrace=build/release/launch/headrace
read_options "lines limit model headrace" "$@"
[ -x "$headrace" ] || fail "no program $headrace: build it, or say --headrace" 2
command -v /usr/bin/time >/dev/null || require_packages time

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# peak_of COUNT: peak resident memory of rank 0, in KiB, for that many lines.
peak_of() {
  local input=$work/$1.jsonl output=$work/$1.out.jsonl status=0 expected answered
  awk -v count="$1" 'BEGIN {
    for (i = 1; i <= count; ++i) {
      if (i % 97 == 0) printf "{\"custom_id\":\"request-%07d\",\"prompt\":[7,%d],\"max_tokens\":-1}\n", i, i % 300
      else if (i % 89 == 0) print ""
      else printf "{\"custom_id\":\"request-%07d\",\"prompt\":[%d,%d],\"temperature\":0,\"max_tokens\":1}\n", i, i % 300, i % 7
    }
  }' >"$input"
  /usr/bin/time --quiet -f %M -o "$work/peak" "$headrace" generate --device cpu --model "$model" --input "$input" \
    --output "$output" --kv-cache-memory-bytes 67108864 >"$work/log" 2>&1 || status=$?
  # 3: finished, some requests failed. They were meant to.
  if [ $status != 3 ]; then
    tail -n 20 "$work/log" >&2
    fail "$1 lines: exit status $status instead of 3"
  fi
  expected=$(grep -c . "$input")
  answered=$(grep -c '"custom_id"' "$output")
  [ "$answered" = "$expected" ] || fail "$1 lines: $answered answers to $expected requests"
  rm "$input" "$output"
  cat "$work/peak"
}

small=$(peak_of 10000)
large=$(peak_of "$lines")
grown=$(((large - small) / 1024))
echo "rank 0 at its peak: $((small / 1024)) MiB for 10000 lines, $((large / 1024)) MiB for $lines: $grown MiB more"
[ $grown -le "$limit" ] || { echo "more than the $limit MiB allowed" >&2; exit 1; }
