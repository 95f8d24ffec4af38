#!/bin/bash
# A model gives the same answers from its HDF5 checkpoint as from where it was made, for one rank and for two; a damaged
# checkpoint is refused with one line.
. tests/system/common.sh

answers() {
  local name=$1 ranks=$2 code=0
  shift 2
  generate "$ranks" "$work/$name.jsonl" --threads 1 "$@" || code=$?
  [ "$code" = 3 ] || { cat "$work/$name.jsonl.log"; fail "$name: exit code $code instead of 3"; }
}

convert() {
  "$headrace" convert "$@" >"$work/convert.log" 2>&1 || { cat "$work/convert.log"; fail "convert $*"; }
}

for golden in gqa_tied gguf_q4_1; do
  source=tests/data/golden/$golden
  [ ! -e "$source/model.gguf" ] || source=$source/model.gguf
  convert --model "$source" --output "$work/$golden.h5"
  model=$source answers "$golden-source" 1
  model=$work/$golden.h5
  answers "$golden-one" 1
  "$headrace" compare "$work/$golden-source.jsonl" "$work/$golden-one.jsonl" >/dev/null ||
    fail "$golden: other answers from the checkpoint"
  for command in "tokenize --input $work/texts.jsonl" "tokenize --chat --input $work/chats.jsonl"; do
    echo '{"text":"Once upon a time"}' >"$work/texts.jsonl"
    echo '{"messages":[{"role":"user","content":"Hello"}]}' >"$work/chats.jsonl"
    $headrace $command --model "$source" >"$work/source.ids" || true
    $headrace $command --model "$work/$golden.h5" >"$work/h5.ids" || true
    cmp "$work/source.ids" "$work/h5.ids" || fail "$golden: $command differs"
  done
done

model=$work/gqa_tied.h5 answers two 2
same "$work/gqa_tied-one.jsonl" "$work/two.jsonl" "two ranks"

# Quantised: the answers of quantising while loading, for every split, and no option to run it.
for type in int8 int4; do
  convert --model tests/data/golden/gqa_tied --quantize $type --output "$work/$type.h5"
  code=0
  model=tests/data/golden/gqa_tied generate 1 "$work/$type-source.jsonl" --threads 1 --quantization $type || code=$?
  expect_code $code 3 "quantising while loading"
  model=$work/$type.h5 answers $type-one 1
  "$headrace" compare "$work/$type-source.jsonl" "$work/$type-one.jsonl" >/dev/null ||
    fail "$type: other answers from the checkpoint"
  model=$work/$type.h5 answers $type-stages 2
  same "$work/$type-one.jsonl" "$work/$type-stages.jsonl" "$type in two stages"
  code=0
  model=$work/$type.h5 generate 2 "$work/$type-shards.jsonl" --threads 1 --tensor-parallel-size 2 || code=$?
  expect_code $code 3 "$type in two shards"
  same "$work/$type-one.jsonl" "$work/$type-shards.jsonl" "$type in two shards"
  # Inputs that stay as they are: other answers, the same ones everywhere.
  for ranks in 1 2; do
    code=0
    model=$work/$type.h5 generate $ranks "$work/$type-inputs-$ranks.jsonl" --threads 1 --quantized-inputs none \
      --tensor-parallel-size $ranks || code=$?
    expect_code $code 3 "$type weights alone, $ranks ranks"
  done
  same "$work/$type-inputs-1.jsonl" "$work/$type-inputs-2.jsonl" "$type weights alone in two shards"
  ! cmp -s "$work/$type-one.jsonl" "$work/$type-inputs-1.jsonl" || fail "$type: inputs are quantised all the same"
done

# With a text: a table, which is in the checkpoint as well, and a limit that nothing but the values keeps.
convert --model tests/data/golden/gqa_tied --quantize int4 --calibration README.md --calibration-tokens 200 \
  --output "$work/calibrated.h5" --max-layer-error 0
grep -q '^0     qkv      plain' "$work/convert.log" || { cat "$work/convert.log"; fail "no table"; }
"$headrace" inspect --verify "$work/calibrated.h5" | grep -q 'quantization.txt' || fail "no report in the checkpoint"

# And back: the same weights under the same name of the model give the same job.
convert --model "$work/gqa_tied.h5" --to safetensors --output "$work/gqa_tied"
model=$work/gqa_tied answers back 1
same "$work/gqa_tied-source.jsonl" "$work/back.jsonl" "the way back"

# refused TEXT COMMAND...: exit code 2 and one line, without HDF5's own stack of errors.
refused() {
  local text=$1 code=0
  shift
  "$headrace" "$@" >"$work/out" 2>"$work/err" || code=$?
  expect_code $code 2 "$*"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "$*: not one line: $(cat "$work/err")"
  grep -qF -- "$text" "$work/err" || fail "$*: no \"$text\" in: $(cat "$work/err")"
}

sound=$work/gqa_tied.h5
size=$(stat -c %s "$sound")
head -c $((size / 2)) "$sound" >"$work/short.h5"
refused "short.h5: is damaged or truncated" generate --model "$work/short.h5" --input "$requests" --output "$work/none.jsonl"
refused "short.h5: is damaged or truncated" tokenize --model "$work/short.h5" --input "$work/texts.jsonl"
refused "exists already" convert --model "$sound" --output "$work/short.h5"
refused "is the model itself" convert --model "$sound" --output "$sound" --overwrite

# From GGUF, too: config.json is made, and says what the metadata did; the tokenizer is not.
convert --model "$work/gguf_q4_1.h5" --to safetensors --output "$work/from_gguf"
grep -q 'no tokenizer' "$work/convert.log" || fail "no word of the tokenizer: $(cat "$work/convert.log")"
model=$work/from_gguf answers from-gguf 1 --tokenizer tests/data/golden/gguf_q4_1/model.gguf
"$headrace" compare "$work/gguf_q4_1-source.jsonl" "$work/from-gguf.jsonl" >/dev/null ||
  fail "gguf_q4_1: other answers from the directory"
refused "calibration" convert --model "$sound" --quantize int8 --max-layer-error 0.1 --output "$work/none"
refused "only with --quantize" convert --model "$sound" --calibration README.md --output "$work/none"
refused "only without --calibration" convert --model "$sound" --quantize int8 --calibration README.md --stochastic-rounding 1 --output "$work/none"
refused "nothing.txt" convert --model "$sound" --quantize int8 --calibration "$work/nothing.txt" --output "$work/none"
refused "are quantised" generate --model "$sound" --quantized-inputs none --input "$requests" --output "$work/none.jsonl"
refused "is quantised already" convert --model "$work/int8.h5" --to safetensors --output "$work/none"
refused "quantised already" generate --model "$work/int8.h5" --quantization int8 --input "$requests" --output "$work/none.jsonl"
[ ! -e "$work/none" ] && [ ! -e "$work/none.partial" ] || fail "a refused conversion leaves a directory"

"$headrace" inspect --verify "$sound" >"$work/out" || fail "a sound checkpoint is not sound: $(cat "$work/out")"
grep -q '^sound$' "$work/out" || fail "inspect does not say so"
# Bytes all over the file: the metadata is refused, weights have a checksum, and some bytes only fill space.
by_checksum=0
for percent in 35 45 55 65 75 85 95; do
  cp "$sound" "$work/flipped.h5"
  printf '\x55' | dd of="$work/flipped.h5" bs=1 seek=$((size * percent / 100)) conv=notrunc 2>"$work/dd.log"
  code=0
  "$headrace" inspect --verify "$work/flipped.h5" >"$work/out" || code=$?
  [ "$code" = 2 ] || [ "$code" = 0 ] || fail "inspect --verify ends with $code"
  ! grep -q 'its bytes do not have the checksum' "$work/out" || by_checksum=$((by_checksum + 1))
done
[ "$by_checksum" -gt 2 ] || fail "only $by_checksum flipped weights were found by their checksum"
