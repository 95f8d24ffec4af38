#!/bin/bash
# A fuzz campaign: seeded damage to sound inputs, under address and undefined-behaviour sanitizers.
#   tests/fuzz/run.sh [TARGET|all] [COUNT] [SEED]
# COUNT mutations of each target (default 100000), in batches of 10000 whose seeds count up from SEED. Without SEED a
# target goes on behind the last batch in build/fuzz/log.txt, to which each batch adds a line. A finding ends the
# campaign; its input is kept in build/fuzz/findings, and
#   build/fuzz/tests/fuzz/headrace_fuzz TARGET FILE
# runs it alone. `tests/fuzz/run.sh list` names the targets.
# shellcheck source-path=SCRIPTDIR/../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. launch/packages.sh

chosen=${1:-all} count=${2:-100000} seed=${3:-}
batch=10000
batch_limit_s=3600
build=build/fuzz
log=$build/log.txt
program=$build/tests/fuzz/headrace_fuzz

require_packages "${build_packages[@]}" "${test_packages[@]}"
mkdir -p "$build"
cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEADRACE_SANITIZE=address,undefined >"$build/cmake.log"
cmake --build "$build" --target headrace_fuzz >"$build/build.log" || { tail -n 30 "$build/build.log" >&2; exit 2; }
mkdir -p "$build/findings"
touch "$log"
# One allocation of more than 1 GB is a finding by itself; leaks are not looked for at every step.
export ASAN_OPTIONS=max_allocation_size_mb=1000:allocator_may_return_null=0:detect_stack_use_after_return=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

if [ "$chosen" = list ]; then
  exec "$program"
elif [ "$chosen" = all ]; then
  mapfile -t targets < <("$program")
else
  targets=("$chosen")
fi

# next_seed TARGET: behind the last one in the log.
next_seed() {
  awk -v target="$1" '$1 == target && $2 >= next_one { next_one = $2 + 1 } END { print next_one + 1 - (next_one > 0) }' "$log"
}

for target in "${targets[@]}"; do
  at=${seed:-$(next_seed "$target")}
  for ((done = 0; done < count; done += batch, ++at)); do
    size=$((count - done < batch ? count - done : batch))
    start=$SECONDS status=0
    timeout "$batch_limit_s" "$program" "$target" "$size" "$at" "$build" >"$build/$target.batch" 2>&1 || status=$?
    if [ $status != 0 ]; then
      kept=$build/findings/$target-$at
      cp "$build/$target.input" "$kept" 2>/dev/null || true
      cat "$build/$target.batch" >&2
      echo "$target $at $size status $status, input kept as $kept" | tee -a "$log" >&2
      exit 1
    fi
    echo "$target $at $size $(tail -n 1 "$build/$target.batch") in $((SECONDS - start)) s" | tee -a "$log"
  done
done
