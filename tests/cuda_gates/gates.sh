#!/bin/bash
# gates.sh RULES OBJECT...: checks what the compiler made of the GPU's kernels against a file of
# rules: registers and spills as the assembler reported them for each architecture (OBJECT.ptxas, by
# cmake/nvcc_report.sh), instructions in the PTX inside the objects. --list prints the kernels instead.
set -euo pipefail
rules=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines "KERNEL <tab> arch registers spilled_bytes stack_bytes".
for object in "$@"; do
  [ -s "$object.ptxas" ] || { echo "no report beside $object: build it again" >&2; exit 1; }
  cat "$object.ptxas"
done | awk '
  /Compiling entry function/ { name = $7; arch = $9; gsub(/\047/, "", name); gsub(/\047/, "", arch) }
  /bytes stack frame/ { stack = $1; spill = $5 + $9 }
  /Used [0-9]+ registers/ { for (i = 1; i < NF; ++i) if ($i == "Used") print name "\t" arch, $(i + 1), spill, stack }
' | c++filt >"$work/kernels"
[ -s "$work/kernels" ] || { echo "the reports name no kernel" >&2; exit 1; }

# Lines "KERNEL <tab> instruction".
for object in "$@"; do
  strings -a -n 3 "$object"
done | awk '
  /^\.target/ { target = $2 }
  /\.entry/ { name = $0; sub(/.*\.entry[ \t]+/, "", name); sub(/\(.*/, "", name) }
  /^\}/ { name = "" }
  name != "" && /^[ \t]*(@%?!?[a-z0-9%]+[ \t]+)?[a-z]+[a-z0-9_.:]*[ \t].*;/ { print name "\t" $0 }
' | c++filt >"$work/instructions"

if [ "$rules" = --list ]; then
  sort -u "$work/kernels"
  exit 0
fi

awk -F '\t' -v rules="$rules" '
  # Blocks that fit on a multiprocessor: registers are given to warps in units of 256; a block has 1 KB
  # of shared memory for the system. Threads, registers and memory of each architecture from the
  # CUDA programming guide (compute capabilities).
  function blocks(arch, registers, threads, shared,    warps, by_registers, by_threads, by_shared, least) {
    warps = int((threads + 31) / 32)
    by_registers = int(int(65536 / (int((registers * 32 + 255) / 256) * 256)) / warps)
    by_threads = int(2048 / threads)
    by_shared = int((arch == "sm_80" ? 167936 : 233472) / (shared + 1024))
    least = by_registers < by_threads ? by_registers : by_threads
    least = by_shared < least ? by_shared : least
    return least < 32 ? least : 32
  }
  function check(what, value, op, limit) {
    if (op == "<=" ? value <= limit : op == ">=" ? value >= limit : value == limit) return
    print "FAILED  " what ": " value ", expected " op " " limit
    ++failures
  }
  FILENAME == ARGV[1] { split($2, f, " "); id = $1 "\t" f[1]; regs[id] = f[2]; spill[id] = f[3]; stack[id] = f[4]; kernel[id] = $1; next }
  { lines[$1] = lines[$1] "\n" $2 }
  END {
    while ((getline rule < rules) > 0) {
      if (rule ~ /^#/ || rule ~ /^[ \t]*$/) continue
      ++num_rules
      n = split(rule, part, /[ \t]*;[ \t]*/)
      matched = 0
      for (id in kernel) {
        if (kernel[id] !~ part[1]) continue
        ++matched
        arch = id; sub(/.*\t/, "", arch)
        what = kernel[id] " on " arch ": " part[2]
        split(part[n], limit, " ")
        if (part[2] == "registers") check(what, regs[id], limit[1], limit[2])
        else if (part[2] == "spilled bytes") check(what, spill[id], limit[1], limit[2])
        else if (part[2] == "stack bytes") check(what, stack[id], limit[1], limit[2])
        else if (part[2] ~ /^blocks/) {
          split(part[2], size, " ")
          check(what, blocks(arch, regs[id], size[2], size[3]), limit[1], limit[2])
        } else check(what, gsub(part[2], "&", lines[kernel[id]]), limit[1], limit[2])
      }
      if (matched == 0) { print "FAILED  no kernel is called " part[1]; ++failures }
      checks += matched
    }
    print num_rules " rules, " checks " checks, " failures + 0 " failed"
    exit failures > 0 || num_rules == 0
  }
' "$work/kernels" "$work/instructions"
