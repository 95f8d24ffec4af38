#!/bin/bash
# bundle.sh BUILD WORK_DIR HEADRACE KERNELS_TEST: the bundle for machines with a GPU, tried without one. pack.sh packs a program
# and tests whose kernels are emulated and whose CUDA is a fake; run.sh runs them, a few things of each part, in a root directory
# with a C library, bash and coreutils and nothing else, so that whatever the bundle has forgotten is missing. Then once more with
# a library of the bundle taken away, which has to be noticed, and with one part that cannot succeed, after which the others still
# have to run. 77 where no root directory can be had.
set -euo pipefail
[ $# = 4 ] || { echo "bundle.sh BUILD WORK_DIR HEADRACE KERNELS_TEST" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 work=$2
unshare --mount true 2>/dev/null || { echo "no mount namespace may be made here"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

bash "$here/pack.sh" "$build" "$work/bundle" "$3" "$4"
[ -s "$work/bundle.tar.gz" ] || fail "no archive was made"

# A machine: tools with libraries of their own in a folder that no other program looks into.
machine=$work/machine
mkdir -p "$machine"/{bin,lib64,tools,tmp,dev,proc,etc,results}
echo "root:x:0:0:root:/:/bin/bash" >"$machine/etc/passwd"
for tool in bash cat date df dirname env head ln ls mkdir mktemp nproc rm tail tee timeout uname; do
  cp -L "$(command -v $tool)" "$machine/bin/$tool"
  while read -r library; do
    case $library in
      */libc.so.* | */libm.so.* | */libpthread.so.* | */libdl.so.* | */librt.so.*) ;;
      *) cp -Ln "$library" "$machine/tools/" ;;
    esac
  done < <(ldd "$machine/bin/$tool" | awk '$2 == "=>" { print $3 }')
  patchelf --force-rpath --set-rpath /tools "$machine/bin/$tool"
done
for library in "$machine"/tools/*; do patchelf --force-rpath --set-rpath /tools "$library"; done
loader=$(ldd "$machine/bin/cat" | awk '$1 ~ /ld-linux/ { print $1 }')
cp -L "$loader" "$machine$loader"
library_folder=$(dirname "$(ldd "$3" | awk '$1 == "libc.so.6" { print $3 }')")
mkdir -p "$machine$library_folder"
for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1; do
  cp -L "$library_folder/$library" "$machine$library_folder/"
done
tar -C "$machine" -xzf "$work/bundle.tar.gz"

# there SETTING... COMMAND...: inside the machine.
there() {
  unshare --mount bash -euc '
    machine=$1
    shift
    mount --rbind /dev "$machine/dev"
    mount -t proc proc "$machine/proc" 2>/dev/null || mount --rbind /proc "$machine/proc"
    exec chroot "$machine" /bin/env -i PATH=/bin QUICK=1 "$@"' there "$machine" "$@"
}

# Two libraries are left out: one is in a toolkit there, the other nowhere.
mkdir -p "$machine/usr/local/cuda-99/lib64"
touch "$machine/usr/local/cuda-99/lib64/libtoolkit.so.99"
printf '%s\n' libtoolkit.so.99 libnowhere.so.1 >>"$machine/bundle/lib/left_out"

code=0
there /bin/bash /bundle/run.sh /results >"$work/run.log" 2>&1 || code=$?
[ $code = 0 ] || { cat "$work/run.log"; fail "run.sh: exit code $code"; }
for part in say_what_is_there operators golden_one_rank golden_two_ranks row_independence kernel_speed bulk_small bulk_large; do
  grep -q "^$part: passed" "$machine/results/summary.txt" || fail "no word of $part in the summary"
done
grep -qx "libtoolkit.so.99: /usr/local/cuda-99/lib64/libtoolkit.so.99" "$machine/results/libraries.txt" ||
  fail "a library of the machine's toolkit was not found"
grep -q "^libnowhere.so.1: NOT FOUND" "$machine/results/libraries.txt" || fail "a library that is missing is not named"
grep -q "1 passed, 0 failed" "$machine/results/golden_one_rank.log" || fail "no golden model was compared"
[ "$(grep -c "1 passed, 0 failed" "$machine/results/golden_two_ranks.log")" = 2 ] || fail "two ranks did not run"
grep -q "^Fake GPU 0; peak .*host us" <(tr "\n" " " <"$machine/results/kernel_speed.log") || fail "no kernel was measured"
grep -q "output_tokens_per_s" "$machine/results/bulk_large.log" || fail "a bulk job tells no speed"
grep -q '"traceEvents"' "$machine/results/llama-3.1-8b-trace.json" || fail "there is no timeline"

# Every kernel fails. The first part needs none.
code=0
there FAKE_CUDA_FAIL=kernel:1 /bin/bash /bundle/run.sh /results >"$work/failing.log" 2>&1 || code=$?
[ $code = 1 ] || { cat "$work/failing.log"; fail "kernels that fail: exit code $code instead of 1"; }
grep -q "^say_what_is_there: passed" "$machine/results/summary.txt" || fail "what needs no kernel did not pass"
[ "$(grep -c "^[a-z_0-9]*: FAILED" "$machine/results/summary.txt")" = 7 ] || fail "not every other part failed, each by itself"

rm "$machine"/bundle/lib/libhdf5*
code=0
there /bin/bash -c 'cd /bundle && bin/headrace --version' >"$work/missing.log" 2>&1 || code=$?
[ $code = 127 ] || fail "a library is missing and nobody notices: exit code $code"
rm -rf "$machine" "$work/bundle" "$work/bundle.tar.gz"
