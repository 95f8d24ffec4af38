#!/bin/bash
# Installs what is missing, configures, builds and runs all tests. Arguments go to ctest:
#   tests/run.sh -R tokenizer
# shellcheck source-path=SCRIPTDIR/..
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/packages.sh
require_packages "${build_packages[@]}" "${test_packages[@]}"

cmake --preset dev
cmake --build --preset dev --parallel "$(nproc)"
exec ctest --preset dev --parallel "$(nproc)" --no-tests=error "$@"
