#!/bin/bash
# sanitized.sh thread|address FOLDER FILTER LIBRARY...: builds the kernels' tests with a sanitizer
# (build_sanitized.sh) and runs those that the filter names, under one schedule.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/tests/kernels/cuda/compile.sh"
sanitizer=$1 folder=$2 filter=$3
shift 3
bash "$root/tests/kernels/cuda/build_sanitized.sh" "$sanitizer" "$folder" "$@"
HEADRACE_SEEDS=${HEADRACE_SEEDS:-0} "$folder/kernels_cuda" --gtest_filter="$filter"
