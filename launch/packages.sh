# The Debian packages that Headrace needs, and how to see to it that they are there. Sourced by
# launch/quickstart.sh and tests/run.sh. README.md says what each is for; cmake/dependencies.cmake finds them.
# shellcheck shell=bash

# Used by the scripts that source this file.
# shellcheck disable=SC2034
build_packages=(
  g++ cmake ninja-build ccache pkg-config
  openmpi-bin libopenmpi-dev
  libboost-program-options-dev libhdf5-dev
  nlohmann-json3-dev libfmt-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev libzstd-dev
)
# shellcheck disable=SC2034
other_cpu_packages=(qemu-user g++-aarch64-linux-gnu googletest)
# shellcheck disable=SC2034
slurm_packages=(iproute2 slurmctld slurmd slurm-client munge)
# shellcheck disable=SC2034
test_packages=(libgtest-dev procps patchelf time clang-14 libclang-rt-14-dev "${other_cpu_packages[@]}" "${slurm_packages[@]}")
download_packages=(python3 python3-pip ca-certificates)
# shellcheck disable=SC2034
comparison_packages=(python3 python3-venv)

package_is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# apt_get ARGS...: as root, through sudo where it asks for no password, or not at all. Quiet while all goes well.
apt_get() {
  local become=(env DEBIAN_FRONTEND=noninteractive)
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || return 1
    become=(sudo -n "${become[@]}")
  fi
  local log status=0
  log=$(mktemp)
  "${become[@]}" apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 || status=$?
  [ $status = 0 ] || cat "$log" >&2
  rm "$log"
  return $status
}

# require_packages NAME...: installs what is missing; where that is not possible, says what is and
# ends the script with 2. HEADRACE_SKIP_PACKAGES=1 leaves the matter to CMake, for machines whose
# compilers and libraries come from modules.
require_packages() {
  [ "${HEADRACE_SKIP_PACKAGES:-0}" != 1 ] || return 0
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system; going on with what is installed. Needed are: $*" >&2
    return 0
  fi
  local missing=() name
  for name in "$@"; do
    package_is_installed "$name" || missing+=("$name")
  done
  [ ${#missing[@]} != 0 ] || return 0

  echo "Missing packages, to be installed: ${missing[*]}" >&2
  if apt_get update && apt_get install --yes --no-install-recommends "${missing[@]}"; then
    return 0
  fi
  cat >&2 <<END
These packages are missing, and could not be installed from here:
  ${missing[*]}
Install them (apt-get install ${missing[*]}), or, where the same software comes from elsewhere,
set HEADRACE_SKIP_PACKAGES=1.
END
  exit 2
}

# require_pip: any Python with pip will do, for downloading.
require_pip() {
  python3 -m pip --version >/dev/null 2>&1 || require_packages "${download_packages[@]}"
}
