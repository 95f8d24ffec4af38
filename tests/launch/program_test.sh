#!/bin/bash
# The program as a user runs it: usage errors, help texts, tokenize, inspect, compare.
#   program_test.sh HEADRACE GOLDENS
set -uo pipefail
headrace=$1
goldens=$2
model=$goldens/f16_sharded  # its tokenizer adds <|endoftext|>, id 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# expect CODE ARGUMENTS...: runs the program; stdout and stderr stay in $work/out and $work/err.
expect() {
  local expected=$1 code
  shift
  "$headrace" "$@" >"$work/out" 2>"$work/err" </dev/null
  code=$?
  [ "$code" = "$expected" ] || fail "headrace $*: exit code $code, not $expected: $(cat "$work/err")"
}

# refused TEXT ARGUMENTS...: exit code 2, nothing on stdout, one line on stderr that holds TEXT.
refused() {
  local text=$1
  shift
  expect 2 "$@"
  [ ! -s "$work/out" ] || fail "headrace $*: prints to stdout"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "headrace $*: not one line: $(cat "$work/err")"
  grep -q '^headrace: ' "$work/err" || fail "headrace $*: does not begin with its name"
  grep -qF -- "$text" "$work/err" || fail "headrace $*: no \"$text\" in: $(cat "$work/err")"
}

out_is() { [ "$(cat "$work/out")" = "$1" ] || fail "expected $1, got $(cat "$work/out")"; }
out_has() { grep -qF -- "$1" "$work/out" || fail "no \"$1\" in $(cat "$work/out")"; }

# fits NAME: at most 56 lines of at most 100 columns, without trailing spaces.
fits() {
  awk 'length > 100 || / $/ { bad = 1 } END { exit bad || NR > 56 || NR == 0 }' "$work/out" ||
    fail "$1 does not fit a screen"
}

# --- usage
expect 0 --help
fits "headrace --help"
commands=$(sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' "$work/out")
[ -n "$commands" ] || fail "no commands listed"
for command in $commands; do
  expect 0 "$command" --help
  fits "headrace $command --help"
  out_has "Usage: headrace $command"
  expect 0 "$command" -h
  refused "unknown option --no-such-option" "$command" --no-such-option
done
expect 0 --version
for word in "headrace " MPI HDF5 CUDA Boost CPU compiler; do out_has "$word"; done
! ldd "$headrace" | grep -Ei 'nccl|cublas' || fail "libraries for GPUs are loaded at start"
refused "a command is expected"
refused "unknown command frobnicate" frobnicate
refused "did you mean compare?" comapre
refused "did you mean --version?" --vers
refused "did you mean --tolerance?" compare --tolerence 1 a b
refused "a number of at least 0" compare --tolerance -1 a b
refused "two output files" compare a
refused "--model MODEL is missing" tokenize
refused "exclude each other" tokenize --model "$model" --chat --decode
refused "--skip-special-tokens is only for --decode" tokenize --model "$model" --skip_special_tokens
refused "/no/such/model" tokenize --model /no/such/model
refused "/no/such/input" tokenize --model "$model" --input /no/such/input
refused "/no/such" inspect /no/such
refused "neither a model" inspect "$headrace"
printf 'tolerance = 0.5\nlits = 3\n' >"$work/options.cfg"
refused "unknown option lits; did you mean --list?" compare --config "$work/options.cfg" a b

# --- tokenize
printf '{"text":"sea"}\n\n{"text":5}\n{"text":"<|im_end|>"}\n' >"$work/texts.jsonl"
expect 3 tokenize --model "$model" --input "$work/texts.jsonl" --output "$work/ids.jsonl"
[ ! -s "$work/out" ] || fail "tokenize --output FILE prints to stdout"
[ "$(wc -l <"$work/ids.jsonl")" = 3 ] || fail "not one line a line: $(cat "$work/ids.jsonl")"
[ "$(sed -n 2p "$work/ids.jsonl")" = '{"error":"line 3: \"text\" is not a string"}' ] ||
  fail "the bad line: $(sed -n 2p "$work/ids.jsonl")"
[ "$(sed -n 3p "$work/ids.jsonl")" = '{"ids":[0,2]}' ] || fail "special text: $(sed -n 3p "$work/ids.jsonl")"
[ ! -e "$work/ids.jsonl.tmp" ] || fail "the temporary is left behind"

# A pipe: each answer comes before the next question is asked.
trap '' PIPE
mkfifo "$work/questions" "$work/answers"
"$headrace" tokenize --model "$model" --no-special-tokens <"$work/questions" >"$work/answers" &
exec 3>"$work/questions" 4<"$work/answers"
for i in 1 2; do
  echo '{"text":"<|im_end|>"}' >&3
  line=
  read -r -t 20 line <&4 || fail "no answer $i"
  [ "$line" = '{"ids":[2]}' ] || fail "answer $i: $line"
done
exec 3>&- 4<&-
wait $! || fail "tokenize from a pipe: exit code $?"

# The same lines compressed, and two files in order.
gzip -k "$work/texts.jsonl"
expect 3 tokenize --model "$model" --input "$work/texts.jsonl.gz" "$work/texts.jsonl"
cat "$work/ids.jsonl" "$work/ids.jsonl" | sed '5s/line 3/line 7/' | cmp -s - "$work/out" ||
  fail "two inputs: $(cat "$work/out")"

printf '{"ids":[0,2]}\n' >"$work/one.jsonl"
expect 0 tokenize --model "$model" --decode --input "$work/one.jsonl"
out_is '{"text":"<|endoftext|><|im_end|>"}'
expect 0 tokenize --model "$model" --decode --skip-special-tokens --input "$work/one.jsonl"
out_is '{"text":""}'
printf '{"messages":[{"role":"system","content":"x"}]}\n' >"$work/chat.jsonl"
expect 0 tokenize --model "$model" --chat --input "$work/chat.jsonl"
out_has '{"text":"<|im_start|>system\nx<|im_end|>\n<|im_start|>assistant\n","ids":[1,'
# A template's date, fixed.
printf '{{ strftime_now("%%Y-%%m-%%d") }}' >"$work/date.jinja"
SOURCE_DATE_EPOCH=86400 expect 0 tokenize --model "$model" --chat --chat-template "$work/date.jinja" \
  --input "$work/chat.jsonl"
out_has '{"text":"1970-01-02",'

# Nothing is written where something is refused.
refused "one.jsonl" tokenize --model "$model" --input "$work/one.jsonl" --output "$work/one.jsonl"
[ "$(cat "$work/one.jsonl")" = '{"ids":[0,2]}' ] || fail "the input was overwritten"
refused "--output" tokenize --model "$model" --input "$work/one.jsonl" --output "$work/no/folder/out"
"$headrace" tokenize --model "$model" --input "$work/texts.jsonl" >/dev/full 2>"$work/err"
[ $? = 1 ] || fail "a full standard output is no failure"

# --- inspect
expect 0 inspect "$model"
out_has "LlamaForCausalLM"
expect 0 inspect --json "$goldens/gguf_q4_0/model.gguf"
out_has '"kind": "model (GGUF)"'
expect 2 inspect "$work/chat.jsonl.none"
expect 0 inspect "$work/chat.jsonl"
out_has "requests"

# --- bench
refused "--kernels or --model MODEL is needed" bench
refused "only with --kernels" bench --model "$model" --part rows
refused "--kernels runs none" bench --kernels -- -pp 2
refused "all, products, trees, attention, rows, swap" bench --kernels --part tea
refused "--device-profile is for GPUs" bench --kernels --device cpu --device-profile "$work/profile.json"
refused "/no/such/model" bench --model /no/such/model
expect 0 bench --kernels --part rows --type float32
out_has "statistics 49152"
expect 0 bench --kernels --part swap --type bfloat16 --model "$goldens/gqa_tied"
out_has "restore 64 blocks"
expect 0 bench --kernels --part trees --type bfloat16 --model "$goldens/gqa_tied" --json
out_has '"slower_than_one_chain_percent"'
expect 0 bench --model "$goldens/gqa_tied" --requests 2 --prompt-tokens 5 --output-tokens 3 -- --threads 1
out_has "output tokens/s"
out_has "rank 0 (0.0.0)"
expect 0 bench --json --model "$goldens/gqa_tied" --requests 1 --prompt-tokens 5 --output-tokens 3 -- --threads 1
out_has '"terms_s"'

# --- compare
answer='{"id":"i","custom_id":"x","response":{"status_code":200,"request_id":"r","body":{"choices":[{"index":0,"text":"TEXT"}]}},"error":null}'
echo "${answer/TEXT/one}" >"$work/a.jsonl"
cp "$work/a.jsonl" "$work/b.jsonl"
echo "${answer/TEXT/two}" >"$work/c.jsonl"
expect 0 compare "$work/a.jsonl" "$work/b.jsonl"
out_has identical
expect 3 compare "$work/a.jsonl" "$work/c.jsonl"
out_has 'choice 0, character 0'
expect 3 compare --json "$work/a.jsonl" "$work/c.jsonl"
out_has '"equal": false'
refused "line 1" compare "$work/a.jsonl" "$work/chat.jsonl"
expect 0 inspect "$work/a.jsonl"
out_has complete

[ "$failures" = 0 ] && echo "all checks passed"
exit $((failures > 0))
