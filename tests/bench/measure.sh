# What the benchmark scripts share. Sourced, from the root of the tree, after launch/packages.sh and launch/local_mpi.sh.
# shellcheck shell=bash

# fail MESSAGE [STATUS]
fail() {
  echo "$1" >&2
  exit "${2:-1}"
}

# read_options "NAME ..." ARGUMENT...: each `--NAME VALUE` of the arguments sets the caller's variable of that name, a - being
# a _ there; what stands behind a -- becomes the array `more`, where the caller has one. Ends the script where there is
# anything else.
read_options() {
  local names=$1 known name
  shift
  known=$(printf ' --%s,' $names)
  while [ $# -gt 0 ]; do
    if [ "$1" = -- ] && declare -p more >/dev/null 2>&1; then
      shift
      more=("$@")
      return
    fi
    [ $# -ge 2 ] || fail "$1 needs a value" 2
    [[ "$known" == *" $1,"* ]] || fail "unknown option $1 (there are${known%,})" 2
    name=${1#--}
    printf -v "${name//-/_}" %s "$2"
    shift 2
  done
}

# run_measured PREFIX RANKS COMMAND...: under mpirun; PREFIX.peak_kb.R gets rank R's peak resident memory as the
# kernel counted it, PREFIX.log what was printed. Ends the script where the command fails.
run_measured() {
  local prefix=$1 ranks=$2 status=0
  shift 2
  # shellcheck disable=SC2016  # expanded by each rank's own shell
  mpirun -n "$ranks" bash -c \
    'exec /usr/bin/time --quiet -f %M -o "$0.peak_kb.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" "$@"' \
    "$prefix" "$@" >"$prefix.log" 2>&1 || status=$?
  if [ $status != 0 ]; then
    tail -n 20 "$prefix.log" >&2
    fail "exit status $status: $*"
  fi
}

# json_numbers KEY FILE: every value of a numeric key, in the file's order; nothing where there is none.
json_numbers() {
  grep -oP "\"$1\"\\s*:\\s*\\K-?[0-9.]+([eE][-+]?[0-9]+)?" "$2" || true
}

# spread: the numbers on standard input as "median [min - max]", with $1 as printf's format.
spread() {
  sort -g | awk -v format="$1" '
    { value[NR] = $1 }
    END {
      if (!NR) { print "-"; exit }
      median = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
      printf format " [" format " - " format "]\n", median, value[1], value[NR]
    }'
}
