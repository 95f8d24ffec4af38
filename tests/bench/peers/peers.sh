#!/bin/bash
# Headrace against llama.cpp, OpenVINO GenAI and vLLM on this machine: the same model, the same files of requests, taking
# turns. README.md beside this file says what is measured and how; peers.py --help lists the options, which this passes on.
#   tests/bench/peers/peers.sh [--rounds 3] [--workloads W1,W2,W3,W3-sorted] [--engines all] [--headrace PROGRAM] ...
#   tests/bench/peers/peers.sh --report            # what the log says so far
# Stop it at any time: the same command goes on after the last run that its log holds.
# shellcheck source-path=SCRIPTDIR/../../..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. launch/packages.sh
. launch/local_mpi.sh
. launch/model.sh

require_packages "${comparison_packages[@]}" "${build_packages[@]}"
HEADRACE_BENCH_MODEL=${HEADRACE_BENCH_MODEL:-$(fetch_model)}
export HEADRACE_BENCH_MODEL
exec python3 tests/bench/peers/peers.py "$@"
