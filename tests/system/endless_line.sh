#!/bin/bash
# A line without end, in a compressed file of some 500 KB (a zip bomb of half a gigabyte): one refused line among
# answered ones, and no more memory than the limit of a line explains.
. tests/system/common.sh
limit_kib=$((${HEADRACE_TEST_SLOWNESS:-1} * (600 << 10)))  # 64 MiB of a line in a buffer that grows by doubling, and 2^23 values of 16 bytes likewise

# gzip members follow each other in one file, so that one of 32 MiB, made once, serves for all.
head -c 32M /dev/zero | tr '\0' x | gzip -9 >"$work/member.gz"
{
  printf '%s\n' '{"custom_id":"first","prompt":"sea","text":"sea","max_tokens":1}' | gzip
  for ((i = 0; i < 16; ++i)); do cat "$work/member.gz"; done
  # Below the limit of a line, but of very many values.
  { printf '\n{"custom_id":"values","prompt":['; head -c 24M /dev/zero | sed 's/\x00/0,/g'; printf '0]}\n'; } | gzip -1
  printf '%s\n' '{"custom_id":"last","prompt":"sea","max_tokens":1}' | gzip
} >"$work/bomb.jsonl.gz"
[ "$(stat -c %s "$work/bomb.jsonl.gz")" -lt 1000000 ] || fail "the bomb is no small file"

# bounded CODE ARGUMENTS...: runs the program, which ends with CODE and stays within the limit.
bounded() {
  local expected=$1 code=0
  shift
  /usr/bin/time --quiet -f %M -o "$work/peak" "$headrace" "$@" >"$work/log" 2>&1 || code=$?
  [ "$code" = "$expected" ] || { cat "$work/log"; fail "$1: exit code $code instead of $expected"; }
  [ "$(cat "$work/peak")" -lt "$limit_kib" ] || fail "$1 took $(cat "$work/peak") KiB, more than $limit_kib"
}

bounded 3 generate --model "$model" --input "$work/bomb.jsonl.gz" --output "$work/answers.jsonl" --kv-cache-memory-bytes 16MiB
[ "$(wc -l <"$work/answers.jsonl")" = 4 ] || fail "not an answer a line"
sed -n 2p "$work/answers.jsonl" | grep -qF '"code":"line_too_long","message":"the line is longer than 64 MiB' ||
  fail "the endless line: $(sed -n 2p "$work/answers.jsonl" | cut -c1-300)"
sed -n 3p "$work/answers.jsonl" | grep -qF 'JSON of more than 8388608 values' || fail "the line of many values"
sed -n 4p "$work/answers.jsonl" | grep -qF '"custom_id":"last","response":{"status_code":200' || fail "the last line"

bounded 3 tokenize --model "$model" --input "$work/bomb.jsonl.gz" --output "$work/ids.jsonl"
sed -n 2p "$work/ids.jsonl" | grep -qF 'line 2: the line is longer than 64 MiB' || fail "tokenize: $(cat "$work/ids.jsonl")"
bounded 2 inspect "$work/bomb.jsonl.gz"
grep -qF 'longer than 64 MiB' "$work/log" || fail "inspect: $(cat "$work/log")"
echo "an endless line is one bad line"
