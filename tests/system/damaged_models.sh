#!/bin/bash
# Damaged model files end a job with exit code 2 and one line that says what is wrong, on one rank and on several.
. tests/system/common.sh

# refused RANKS FRAGMENT NAME: the model in $work/model is refused with a line that holds FRAGMENT.
refused() {
  local ranks=$1 fragment=$2 name=$3 code=0
  rm -f "$work"/out*
  mpirun --timeout "$(time_limit 60)" -n "$ranks" "$headrace" generate --device cpu --model "$work/model" --input "$requests" \
    --output "$work/out" >"$work/log" 2>&1 || code=$?
  [ "$code" = 2 ] || { cat "$work/log"; fail "$name: exit code $code instead of 2"; }
  [ "$(grep -c '^headrace: ' "$work/log")" = 1 ] || { cat "$work/log"; fail "$name: not one line"; }
  grep '^headrace: ' "$work/log" | grep -qi -- "$fragment" || { cat "$work/log"; fail "$name: no word of '$fragment'"; }
  for left in "$work"/out*; do
    [ ! -e "$left" ] || fail "$name: $left was written"
  done
}

fresh() {
  rm -rf "$work/model"
  cp -r tests/data/golden/gqa_tied "$work/model"
}

weights=$work/model/model.safetensors
fresh; truncate -s -100 "$weights"
refused 2 "model.safetensors" "truncated weights"
fresh; truncate -s 0 "$weights"
refused 1 "empty" "empty weights"
fresh; printf '<!DOCTYPE html><html><body>404</body></html>' >"$weights"
refused 2 "html" "a web page"
fresh; printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 10\n' >"$weights"
refused 2 "git-lfs\|git lfs\|pointer" "a pointer file"
fresh; rm "$weights"
refused 3 "safetensors" "missing weights"
fresh; sed -i 's/model.layers.2.mlp.up_proj/model.layers.2.mlp.xp_proj/' "$weights"
refused 2 "model.layers.2.mlp" "a missing tensor"
fresh; sed -i 's/"intermediate_size": 68/"intermediate_size": 72/' "$work/model/config.json"
refused 2 "shape" "shapes against config.json"
fresh; sed -i 's/LlamaForCausalLM/MysteryForCausalLM/' "$work/model/config.json"
refused 2 "MysteryForCausalLM" "an unknown architecture"
fresh; rm "$work/model/tokenizer.json"
refused 2 "tokenizer.json" "no tokenizer"
fresh; printf '{"hidden_size": ' >"$work/model/config.json"
refused 1 "config.json" "a broken config.json"

# Mistakes of use, told once whatever the number of ranks.
fresh
usage() {
  local fragment=$1 code=0
  shift
  mpirun --timeout "$(time_limit 60)" -n 3 "$headrace" generate --device cpu --model "$work/model" --input "$requests" \
    --output "$work/out" "$@" >"$work/log" 2>&1 || code=$?
  [ "$code" = 2 ] || { cat "$work/log"; fail "$*: exit code $code instead of 2"; }
  [ "$(grep -c '^headrace: ' "$work/log")" = 1 ] || { cat "$work/log"; fail "$*: not one line"; }
  grep '^headrace: ' "$work/log" | grep -q -- "$fragment" || { cat "$work/log"; fail "$*: no word of '$fragment'"; }
}
usage "3 were started" --pipeline-parallel-size 2
usage "--layers" --layers 2,3
usage "add up to" --layers 2,3,4
usage "wibble" --wibble 3
usage "--max-model-len" --max-model-len 4096
usage "--kv-cache-memory-bytes" --kv-cache-memory-bytes 1kB
usage "--block-size" --block-size 24
usage "no/such/file" --input no/such/file
usage "--shard\|shard" --shard 3/3
echo "all refused with one line"
