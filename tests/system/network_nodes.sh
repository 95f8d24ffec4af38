# Nodes of a cluster on this machine: network namespaces node 1, 2, ... with a hostname each, joined by a bridge. Between
# them programs meet over TCP; file system and processors are shared. Sourced after common.sh; needs root, or the right to
# make namespaces: where that is not to be had, says so and ends the test with 77.
# shellcheck shell=bash
# shellcheck disable=SC2154 # $work is common.sh's
name=hr$$n # of a node, with its number behind it
switch=hr$$s
network=10.83.0

skip() {
  echo "skipped: $*"
  exit 77
}

processes_of() { ip netns pids "$1" 2>/dev/null; }

# Removes all that this test makes, whatever of it is there.
remove_nodes() {
  local node
  for node in "$name"{1,2,3} "$switch"; do
    # shellcheck disable=SC2046
    kill -KILL $(processes_of "$node") 2>/dev/null || true
    ip netns delete "$node" 2>/dev/null || true
    rm -rf "/tmp/ompi.$node".* "/dev/shm/vader_segment.$node".*
  done
}

# What a SIGKILL of this script would leave is removed by a process that outlives it for a moment.
watch_over() {
  local watched=$1
  while kill -0 "$watched" 2>/dev/null; do sleep 0.5; done
  remove_nodes
}

# make_nodes COUNT: nodes 1 to COUNT at $network.1 and so on, removed when the script ends.
make_nodes() {
  local i tool
  for tool in ip nsenter unshare mount; do
    command -v $tool >/dev/null || skip "there is no program $tool"
  done
  trap remove_nodes EXIT
  trap 'exit 130' INT TERM HUP
  ip netns add "$switch" 2>"$work/refusal" || skip "no network namespace: $(head -n 1 "$work/refusal")"
  unshare --uts --mount true 2>"$work/refusal" || skip "no UTS namespace: $(head -n 1 "$work/refusal")"
  ip -n "$switch" link add bridge0 type bridge 2>"$work/refusal" || skip "no bridge: $(head -n 1 "$work/refusal")"
  (setsid bash -c "$(declare -f processes_of remove_nodes watch_over); name=$name switch=$switch; watch_over $$" \
    </dev/null >/dev/null 2>&1 &)

  ip -n "$switch" link set bridge0 up
  echo "127.0.0.1 localhost" >"$work/hosts"
  for ((i = 1; i <= $1; ++i)); do
    ip netns add "$name$i"
    ip -n "$name$i" link set lo up
    ip link add link0 netns "$name$i" type veth peer name "port$i" netns "$switch"
    ip -n "$switch" link set "port$i" master bridge0 up
    ip -n "$name$i" address add "$network.$i/24" dev link0
    ip -n "$name$i" link set link0 up
    echo "$network.$i $name$i" >>"$work/hosts"
  done

  # HOST COMMAND...: runs a command there.
  cat >"$work/on" <<EOF
#!/bin/sh
host=\$1
shift
exec nsenter --net="/run/netns/\$host" unshare --uts --mount sh -c \
  'hostname "\$0"; mount --bind "$(realpath "$work")/hosts" /etc/hosts; exec "\$@"' "\$host" "\$@"
EOF
  chmod +x "$work/on"
}

# on_node I COMMAND...
on_node() {
  local host=$name$1
  shift
  "$(realpath "$work/on")" "$host" "$@"
}
