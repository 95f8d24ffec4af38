#!/bin/bash
# bash run.sh [RESULTS]: everything that wants a GPU, from an unpacked bundle (pack.sh), in at most 8 minutes: what the machine
# has, operators, tiny models on one rank and on two that share the GPU, whether a row of a product depends on the number of
# rows, the operators' speed beside what bounds them, two bulk jobs with random weights. Needs bash, coreutils, a C library as
# new as the bundle's (it says which) and an NVIDIA driver, and cuBLASLt, which is too large to be brought along: it is looked for
# in toolkits and in Python's packages, or in $HEADRACE_CUDA_LIBRARIES. Without it the parts that need products fail, and say so.
#
# RESULTS (results beside the bundle) gets a log a part as each ends, the timelines of the bulk jobs for Perfetto, and
# summary.txt, which is printed at the end. A part that fails or takes too long does not keep the next from running. Exit code:
# 0 all passed, 1 some did not, 2 the bundle does not run here.
# QUICK=1: a few small things of every part. What is tried without a GPU, over emulated kernels and fake libraries.
set -uo pipefail
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=${1:-${bundle%/*}/results}
mkdir -p "$results"
results=$(cd "$results" && pwd)
cd "$bundle" || exit 2
export PATH=$bundle/bin:$PATH
export OPAL_PREFIX=$bundle OPAL_SYSCONFDIR=$bundle/etc PMIX_INSTALL_PREFIX=$bundle
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm=isolated
export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
quick=${QUICK:-}

# --- what is not in the bundle -------------------------------------------------------------------------------------------------

# is_older A B: versions with two numbers.
is_older() {
  [ "${1%%.*}" -lt "${2%%.*}" ] || { [ "${1%%.*}" = "${2%%.*}" ] && [ "${1#*.}" -lt "${2#*.}" ]; }
}

require_glibc() {
  local wanted found line
  wanted=$(<lib/least_glibc)
  line=$(ldd --version 2>/dev/null) || line=$(getconf GNU_LIBC_VERSION 2>/dev/null) || line=""
  line=${line%%$'\n'*}
  found=${line##* }
  [[ $found =~ ^[0-9]+\.[0-9]+$ ]] || return 0  # whoever cannot tell may still be able to run it
  is_older "$found" "$wanted" || return 0
  echo "This bundle needs glibc $wanted or later; this machine has $found." >&2
  exit 2
}

# places_of NAME: where toolkits, distributions and Python's packages put a library of CUDA.
places_of() {
  local name=$1 folder searched=${LD_LIBRARY_PATH:-}
  shopt -s nullglob
  for folder in ${HEADRACE_CUDA_LIBRARIES:-} ${searched//:/ } \
    /usr/local/cuda*/{lib64,lib,targets/x86_64-linux/lib} /usr/lib/x86_64-linux-gnu /usr/lib64 /opt/cuda*/lib64 \
    {/usr,/usr/local,"${HOME:-/root}/.local",/opt/*,/opt/*/.venv,/opt/*/venv,"${HOME:-/root}"/*/.venv}/lib/python3*/{site,dist}-packages/nvidia/*/lib; do
    [ ! -e "$folder/$name" ] || echo "$folder/$name"
  done
  if command -v find >/dev/null; then timeout 20 find / -xdev -name "$name" -not -path '/proc/*' 2>/dev/null; fi
}

# Links to what the bundle left out in a folder of their own: nothing else that lies beside them gets into the programs.
find_libraries() {
  local name place
  mkdir -p "$results/libraries"
  while read -r name; do
    read -r place < <(places_of "$name")
    if [ -n "${place:-}" ]; then
      ln -sf "$place" "$results/libraries/$name"
      echo "$name: $place"
    else
      echo "$name: NOT FOUND; give its folder as HEADRACE_CUDA_LIBRARIES"
    fi
    place=""
  done <lib/left_out
}

# --- the parts -----------------------------------------------------------------------------------------------------------------

say_what_is_there() {
  echo "headrace bundle on $(uname -n 2>/dev/null), $(date -u +%FT%TZ), $(nproc) CPUs, glibc at least $(<lib/least_glibc) needed"
  [ ! -r /proc/driver/nvidia/version ] || head -n 1 /proc/driver/nvidia/version
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,memory.used,pstate --format=csv 2>/dev/null ||
    echo "nvidia-smi: none"
  [ ! -r /proc/meminfo ] || head -n 3 /proc/meminfo
  df -k /dev/shm "$results" 2>/dev/null
  cat "$results/libraries.txt"
  headrace --version || return 1
  [ -n "$quick" ] || [ -n "$(nvidia-smi -L 2>/dev/null)" ] || ls /dev/nvidia* 2>/dev/null
}

# tests FILTER OPTIONS...: at least one has to run and pass.
tests() {
  local code=0
  kernels_gpu_test --gtest_filter="$1" "${@:2}" >"$scratch/tests" 2>&1 || code=$?
  cat "$scratch/tests"
  [ $code = 0 ] && [[ $(<"$scratch/tests") =~ PASSED\ +\]\ [1-9] ]]
}

operators() {
  local filter='-*RowsOfProducts*'
  [ -z "$quick" ] || filter='*Norms*:*ThatAreDrawn*:*WithoutTrees*/bfloat16:*SplitsOfADecoded*/bfloat16'
  HEADRACE_SEEDS=0 tests "$filter" --gtest_brief=1
}

row_independence() {
  local filter='*RowsOfProducts*'
  [ -z "$quick" ] || filter='*RowsOfProducts*/bfloat16'
  tests "$filter"
}

# answers NAME RANKS OPTIONS...: the requests through golden model $model; the answers into a scratch file that is printed.
answers() {
  local name=$1 ranks=$2 place=$model
  shift 2
  [ ! -e "$model/model.gguf" ] || place=$model/model.gguf
  local command=(headrace generate --model "$place" --tokenizer golden/gqa_tied --input requests.jsonl --output "$scratch/$name.jsonl"
    --overwrite --dtype float32 --kv-cache-memory-bytes 8MiB --threads 1 --max-num-batched-tokens 64 "$@")
  [ "$ranks" = 1 ] || command=(mpirun --timeout 60 -n "$ranks" "${command[@]}")
  "${command[@]}" >"$scratch/log" 2>&1 || { echo "$name: exit code $?"; cat "$scratch/log"; return 1; }
}

# Every checkpoint in float32 against the reference operators on the CPU, which are tested against transformers where this was
# packed. golden RANKS OPTIONS... with the models in $models.
golden() {
  local ranks=$1 model failed=0 passed=0
  shift
  for model in "${models[@]}"; do
    local name=${model##*/}
    if answers "$name-reference" 1 --device cpu --backend reference && answers "$name-gpu" "$ranks" --device cuda "$@" &&
      headrace compare --tolerance 0.001 "$scratch/$name-reference.jsonl" "$scratch/$name-gpu.jsonl" >"$scratch/compared"; then
      passed=$((passed + 1))
      echo "passed  $name"
    else
      failed=$((failed + 1))
      [ ! -e "$scratch/compared" ] || cat "$scratch/compared"
      echo "FAILED  $name"
    fi
  done
  echo "$passed passed, $failed failed"
  [ $failed = 0 ] && [ $passed != 0 ]
}

# Each kind of checkpoint and each family once.
golden_one_rank() {
  local models=(golden/{gqa_tied,mha_biases,f16_sharded,wide_heads_f32,rope_llama3,rope_yarn_new_keys,gguf_q4_1} golden/{falcon_new,gemma2}
    golden/{gemma3,gpt2,granite,granite_swa,mistral,neox,olmo2,phi3_long,qwen2,qwen3,smollm3,stablelm,starcoder2})
  [ -z "$quick" ] || models=(golden/gqa_tied)
  golden 1
}

golden_two_ranks() {
  local models=(golden/{gqa_tied,gemma3,phi3_long})
  [ -z "$quick" ] || models=(golden/gqa_tied)
  echo "two stages:" && golden 2 -pp 2 --share-device --gpu-memory-utilization 0.5 || return 1
  echo "two shards:" && golden 2 -tp 2 --deterministic --share-device --gpu-memory-utilization 0.5
}

kernel_speed() {
  if [ -n "$quick" ]; then
    headrace bench --kernels --device cuda --type bfloat16 --part rows --max-rows 64 --model golden/gqa_tied
    return
  fi
  headrace bench --kernels --device cuda --type bfloat16 --model models/llama-3.1-8b || return 1
  local type
  for type in bfloat16 float16 float32; do
    headrace bench --kernels --device cuda --type $type --model models/smollm2-135m || return 1
  done
}

# write_prompts COUNT TOKENS OUTPUT VOCABULARY: requests of random ids.
write_prompts() {
  local i j ids
  RANDOM=1
  for ((i = 0; i < $1; ++i)); do
    ids=$((RANDOM % $4))
    for ((j = 1; j < $2; ++j)); do ids+=,$(((RANDOM * 4 + RANDOM % 4) % $4)); done
    echo "{\"custom_id\": \"$i\", \"prompt\": [$ids], \"temperature\": 0, \"max_tokens\": $3, \"ignore_eos\": true}"
  done
}

# bulk NAME MODEL COUNT TOKENS OUTPUT VOCABULARY: a job with weights that the GPU draws, with its timeline.
bulk() {
  local name=$1 model=$2 code=0
  write_prompts "${@:3}" >"$scratch/$name.jsonl"
  headrace generate --model "$model" --load-format dummy --tokenizer golden/gqa_tied --device cuda --dtype bfloat16 \
    --input "$scratch/$name.jsonl" --output "$scratch/$name-answers.jsonl" --overwrite --trace "$results/$name-trace.json" \
    --max-num-seqs 256 || code=$?
  [ "$code" = 0 ] || return 1
  cat "$scratch/$name-answers.jsonl.summary.json"
  headrace inspect "$results/$name-trace.json"
}

bulk_small() {
  if [ -n "$quick" ]; then bulk smollm2-135m golden/gqa_tied 2 5 3 64; else bulk smollm2-135m models/smollm2-135m 1024 128 64 49152; fi
}
bulk_large() {
  if [ -n "$quick" ]; then bulk llama-3.1-8b golden/gqa_tied 3 4 2 64; else bulk llama-3.1-8b models/llama-3.1-8b 256 256 64 128256; fi
}

# --- one after another ---------------------------------------------------------------------------------------------------------

# The limits add up to less than 8 minutes. A part is a process of its own, so that its limit ends all of it.
parts=(say_what_is_there:20 operators:100 golden_one_rank:90 golden_two_ranks:50 row_independence:60 kernel_speed:60 bulk_small:35
  bulk_large:60)

if [ -n "${HEADRACE_GPU_PART:-}" ]; then
  "$HEADRACE_GPU_PART"
  exit
fi

require_glibc
find_libraries >"$results/libraries.txt"
export LD_LIBRARY_PATH=$results/libraries
scratch=$(mktemp -d)
export scratch results
trap 'rm -rf "$scratch"' EXIT
: >"$results/summary.txt"
failed=0
for part in "${parts[@]}"; do
  name=${part%:*} limit=${part#*:} began=$SECONDS code=0
  HEADRACE_GPU_PART=$name timeout -k 5 "$limit" bash "$bundle/run.sh" "$results" >"$results/$name.log" 2>&1 || code=$?
  case $code in
    0) outcome=passed ;;
    124 | 137) outcome="FAILED: not done in $limit s" ;;
    *) outcome="FAILED: exit code $code" ;;
  esac
  [ $code = 0 ] || failed=1
  echo "$name: $outcome, $((SECONDS - began)) s" | tee -a "$results/summary.txt"
  if [ $code != 0 ] || [ "$name" = say_what_is_there ]; then tail -n 30 "$results/$name.log"; fi
done
echo "--- summary, the logs are in $results"
cat "$results/summary.txt"
exit $failed
