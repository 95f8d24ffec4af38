#!/bin/bash
# What fails on one of two GPUs that are not there (gpu.sh) ends the whole job within seconds, with one line that names the rank and the
# cause; and the same command then goes on to the bytes of an undisturbed run. FULL=1 fails the n-th call for every n of a run, of each
# kind of call:
#   FULL=1 tests/system/gpu_faults.sh EMULATED_HEADRACE WORK_DIR
. tests/system/common.sh
leave_ranks_a_second
export FAKE_CUDA_DEVICES=2 FAKE_CUDA_MODE=threads DEVICE=cuda
unset CUDA_VISIBLE_DEVICES

requests=$work/requests.jsonl
for i in 1 2 3 4; do
  echo '{"custom_id": "r'$i'", "prompt": ['$((i * 5))', 9, 77, 120, 300, 41], "temperature": 0, "max_tokens": 12, "logprobs": 2, "ignore_eos": true}'
done >"$requests"
options=(--model "$model" --input "$requests" --dtype float32 --kv-cache-memory-bytes 8MiB --threads 1 --max-num-batched-tokens 16)

# job NAME SETTING OPTIONS...: two ranks, of which the second has a setting of its own; the exit code is the job's.
job() {
  local program=("$headrace" generate "${options[@]}" --output "$work/$1.jsonl" "${@:3}")
  mpirun --timeout "$(time_limit 60)" -n 1 "${program[@]}" : -n 1 env "$2" "${program[@]}" >"$work/$1.log" 2>&1
}

# one_line NAME FRAGMENT: what the log of a failed job has to say, once; with RANK once by that rank.
one_line() {
  [ "$(grep -c "^headrace: rank ${RANK:-}" "$work/$1.log")" = 1 ] || { cat "$work/$1.log"; fail "$1: not one line"; }
  grep -Eq "^headrace: rank $2" "$work/$1.log" || { cat "$work/$1.log"; fail "$1: no word of '$2'"; }
}

# undisturbed LAYOUT...: what the jobs that follow have to give in the end.
undisturbed() {
  layout=("$@")
  base=$1$2
  job $base NO_FAULT=1 "${layout[@]}" || { cat "$work/$base.log"; fail "$*: exit code $?"; }
}

# ends FAULT FRAGMENT OPTIONS...: the second rank fails at the n-th call of a name; with RESUMED=1 the job then goes on.
ends() {
  local name=$base-${1//[^A-Za-z0-9]/-} fragment=$2 code=0 began=$SECONDS
  local fault=$1
  shift 2
  job "$name" "FAKE_CUDA_FAIL=$fault" "${layout[@]}" "$@" || code=$?
  [ "$code" != 0 ] || fail "$fault: the job ended as if nothing had happened"
  [ $((SECONDS - began)) -lt "$(time_limit 20)" ] || fail "$fault: took $((SECONDS - began)) s to end"
  one_line "$name" "1 .*$fragment"
  echo "$fault: $(grep '^headrace: rank' "$work/$name.log")"
  [ -z "${RESUMED:-}" ] || goes_on "$name" "$@"
}
goes_on() {
  job "$1" NO_FAULT=1 "${layout[@]}" "${@:2}" || { cat "$work/$1.log"; fail "$1: does not go on"; }
  same "$work/$base.jsonl" "$work/$1.jsonl" "$1, after its failure"
}

# lost CALL FRAGMENT OPTIONS...: the second rank hangs at a call; the first says whom it waits for.
lost() {
  local name=$base-lost-${1//[^A-Za-z0-9]/-} fragment=$2 call=$1 code=0 began=$SECONDS
  shift 2
  job "$name" "FAKE_CUDA_STOP=$call" "${layout[@]}" --stall-timeout 2 "$@" || code=$?
  [ "$code" != 0 ] || fail "$call hangs: the job ended as if nothing had happened"
  [ $((SECONDS - began)) -lt "$(time_limit 20)" ] || fail "$call hangs: took $((SECONDS - began)) s to end"
  # mpirun wakes the other one before it ends it, and that may have time to say as much of this one.
  RANK=0 one_line "$name" "0 .*waited 2 s \(--stall-timeout\) for .*$fragment.*rank 1"
  echo "$call hangs: $(grep '^headrace: rank 0' "$work/$name.log")"
}

# Memory, a copy that is refused, one that fails later, a kernel: by every way that hidden states can take.
undisturbed -pp 2
ends cudaMalloc:2 "the GPU has no [0-9]* bytes of free memory" --transport nccl
ends cudaMallocHost:4 "the host has no pinned memory of [0-9]* bytes" --transport mpi-staged
RESUMED=1 ends cudaMemcpyAsync:150 "cudaMemcpyAsync.*invalid argument" --transport mpi-staged
ends copy:130 "illegal memory access" --transport mpi-staged
ends kernel:250 "unspecified launch failure" --transport mpi-staged
RESUMED=1 ends kernel:250 "unspecified launch failure" --transport nccl
# NCCL cannot begin, refuses a call, fails while an operation runs; a peer is lost.
ends ncclCommInitRankConfig:1 "ncclCommInitRankConfig with the other ranks: unhandled system error" --transport nccl
ends ncclCommSplit:2 "ncclCommSplit with the other ranks: unhandled system error" --transport nccl
RESUMED=1 ends ncclRecv:9 "ncclRecv with rank 0 .*unhandled system error" --transport nccl
ends nccl:9 "ncclRecv with rank 0 .*remote process exited" --transport nccl
lost ncclRecv:9 "" --transport nccl
lost cudaMemcpyAsync:150 "" --transport mpi-staged

undisturbed -tp 2 --transport nccl
ends ncclAllReduce:20 "ncclAllReduce with rank 0 .*unhandled system error"
ends ncclGroupEnd:4 "ncclGroupEnd with rank 0 .*unhandled system error"
RESUMED=1 ends nccl:30 "(the sums of a tensor group|ncclAllReduce) with rank 0 .*remote process exited"
ends kernel:250 "unspecified launch failure"
lost ncclAllReduce:20 "the sums"
[ -n "${FULL:-}" ] || exit 0

# every STRIDE CALL OPTIONS...: fails each STRIDE-th call of a name in turn, up to the end of the job.
every() {
  local stride=$1 call=$2 n code
  shift 2
  for ((n = 1;; n += stride)); do
    rm -f "$work"/every.jsonl*
    code=0
    job every "FAKE_CUDA_FAIL=$call:$n" "$@" || code=$?
    [ "$code" != 0 ] || break
    one_line every "1 "
  done
  [ "$n" -gt 1 ] || fail "$call by $*: no call of that name could fail"
  echo "$call by $*: failed up to the call $n"
}
for layout in "-pp 2" "-tp 2"; do
  for transport in nccl mpi-staged; do
    read -ra options_of_layout <<<"$layout --transport $transport"
    every 1 cudaMalloc "${options_of_layout[@]}"
    every 1 cudaMallocHost "${options_of_layout[@]}"
    for call in cudaMemcpyAsync copy kernel cudaLaunchKernel cudaEventRecord; do
      every 37 $call "${options_of_layout[@]}"
    done
    # Staged, the host waits; sums lie in the order of one stream.
    [ "$layout $transport" != "-pp 2 nccl" ] || every 37 cudaStreamWaitEvent "${options_of_layout[@]}"
    every 397 cudaEventQuery "${options_of_layout[@]}"  # it is asked again and again
  done
done
