#!/bin/bash
# failures.sh RUN_TRANSPORT: whatever fails on one rank ends the whole job within seconds, with one line
# that names the call, the rank and, where there is one, the peer.
set -euo pipefail
program=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# expect RANKS PATTERN ARGUMENT...: the program's first message.
expect() {
  local ranks=$1 pattern=$2 begin=$SECONDS status=0
  shift 2
  mpirun -n "$ranks" --timeout 30 "$program" "$@" >"$log" 2>&1 || status=$?
  local line
  line=$(grep -m 1 '^headrace: ' "$log" || true)
  if [ $status != 0 ] && [ $((SECONDS - begin)) -lt 15 ] && grep -Eq "$pattern" <<<"$line"; then
    echo "$*: $line"
  else
    echo "FAILED $*: exit code $status after $((SECONDS - begin)) s, expected '$pattern'"
    tail -n 20 "$log"
    failed=1
  fi
}

# NCCL refuses a call, fails while an operation runs, cannot begin, or a peer is lost.
expect 2 'rank 0: ncclSend with rank 1: unhandled system error' nccl 1 ncclSend:3 0
expect 2 'rank 1: ncclRecv with rank 0: unhandled system error' nccl 1 ncclRecv:3 1
expect 2 'rank 1: ncclRecv with rank 0: remote process exited' nccl 1 nccl:4 1
expect 2 'rank 0: (ncclAllGather|ncclAllReduce|ncclGroupEnd|the sums of a tensor group) with rank 1: remote' nccl 2 nccl:4 0
expect 2 'rank 1: ncclCommSplit with the other ranks: unhandled system error' nccl 1 ncclCommSplit:1 1
expect 2 'rank .: ncclCommInitRankConfig with the other ranks: .*Duplicate GPU' nccl 1 alone
expect 2 'rank 0: waited 1 s \(--stall-timeout\) for .*rank 1' nccl 1 silent 1
expect 2 'rank 1: waited 1 s \(--stall-timeout\) for .*rank 0' nccl 1 silent 0
expect 2 'rank 0: waited 1 s \(--stall-timeout\) for .*rank 1' nccl 2 silent 1
expect 2 'rank 1: waited 1 s \(--stall-timeout\) for the hidden states of a step from rank 0 \(ncclRecv\)' nccl 1 mute 0
expect 3 'rank .: waited 1 s \(--stall-timeout\) for .*rank 1' nccl 1 silent 1
# The transports over MPI.
for kind in mpi-staged mpi-cuda-aware; do
  expect 2 'rank 0: waited 1 s \(--stall-timeout\) for .*rank 1' $kind 1 silent 1
  expect 2 'rank 1: waited 1 s \(--stall-timeout\) for .*rank 0' $kind 1 silent 0
  expect 2 'rank 0: waited 1 s \(--stall-timeout\) for the sums of rank 1' $kind 2 silent 1
done
# CUDA itself: memory, a copy that is refused, one that fails later, a kernel.
expect 2 'rank 1: the GPU has no 16384 bytes of free memory' nccl 1 cudaMalloc:2 1
expect 2 'rank 0: the host has no pinned memory of 16384 bytes' mpi-staged 1 cudaMallocHost:2 0
expect 2 'rank 0: cudaMemcpyAsync.*invalid argument' mpi-staged 1 cudaMemcpyAsync:7 0
expect 2 "rank 0: cudaEventQuery, while this rank's GPU worked .*illegal memory access" mpi-staged 1 copy:7 0
expect 2 'rank 1: .*unspecified launch failure' mpi-staged 2 kernel:3 1
expect 2 'rank 1: .*unspecified launch failure' nccl 1 kernel:3 1
# What this MPI cannot do is said by name.
export FAKE_MPI_WITHOUT_CUDA=1
expect 2 'rank .: --transport mpi-cuda-aware: this MPI does not take memory of a GPU' mpi-cuda-aware 1
exit $failed
