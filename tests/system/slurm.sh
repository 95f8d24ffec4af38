#!/bin/bash
# Headrace under a real SLURM of three nodes, which this test sets up and takes down: srun in layouts and distributions of
# all kinds gives the bytes of one rank, the batch scripts in slurm/ do what they say, and a job that is asked to stop, or
# loses a node, goes back to the queue and ends with the same bytes. Skipped (77) without SLURM, or without namespaces.
. tests/system/common.sh
. tests/system/network_nodes.sh
for tool in munged slurmctld slurmd srun sbatch scontrol; do
  command -v $tool >/dev/null || PATH=$PATH:/usr/sbin
  command -v $tool >/dev/null || skip "there is no program $tool"
done
[ "$(id -u)" = 0 ] || skip "slurmd runs as root"
make_nodes 3
slurm=$(realpath "$work")/slurm
export SLURM_CONF=$slurm/slurm.conf

# munge takes only paths that others cannot write to; a folder of a build may be one.
keys=$(mktemp -d)
chmod 755 "$keys"
trap 'remove_nodes; rm -rf "$keys"' EXIT
mkdir -p "$slurm"/{state,log} "$keys"/key
chmod 700 "$keys/key"
head -c 1024 /dev/urandom >"$keys/key/key"
chmod 400 "$keys/key/key"
on_node 1 munged --key-file="$keys/key/key" --socket="$keys/socket" --pid-file="$keys/pid" --log-file="$slurm/log/munged" \
  --seed-file="$keys/key/seed" >"$slurm/log/munged.start" 2>&1 ||
  { cat "$slurm/log/munged.start"; skip "munge does not start here"; }

cat >"$SLURM_CONF" <<EOF
ClusterName=headrace
SlurmctldHost=${name}1($network.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$keys/socket,cred_expire=5
CredType=cred/munge
MpiDefault=pmix
# Without cgroups, which a container may not have.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
# A step makes a folder there that has no node in its name.
TmpFS=$slurm/tmp.%n
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool.%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/log/slurmctld
SlurmdLogFile=$slurm/log/%n
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
JobCompType=jobcomp/none
# A node that comes back is used again; one that is lost is missed after seconds.
ReturnToService=2
SlurmdTimeout=5
# It has no more CPUs and memory than this machine, whatever it says.
SlurmdParameters=config_overrides
$(for i in 1 2 3; do echo "NodeName=$name$i NodeAddr=$network.$i CPUs=4 RealMemory=2000"; done)
PartitionName=all Nodes=${name}[1-3] Default=YES MaxTime=INFINITE State=UP
EOF

# Of what ran there nothing may be left: SLURM 22.05 does not start a step again over the PMIx socket of its killed self.
start_slurmd() {
  rm -rf "$slurm/tmp.$name$1" "$slurm/spool.$name$1"
  mkdir "$slurm/tmp.$name$1"
  on_node "$1" slurmd -N "$name$1" >"$slurm/log/start.$1" 2>&1 || { cat "$slurm/log/start.$1"; fail "slurmd does not start"; }
}
on_node 1 slurmctld >"$slurm/log/start" 2>&1 || { cat "$slurm/log/start"; fail "slurmctld does not start"; }
for i in 1 2 3; do start_slurmd $i; done

# until_true SECONDS WHAT COMMAND...
until_true() {
  local limit=$1 what=$2 start=$SECONDS
  shift 2
  until "$@"; do
    [ $((SECONDS - start)) -lt "$(time_limit "$limit")" ] ||
      { tail -n 20 "$slurm"/log/*; fail "after $((SECONDS - start)) s not yet: $what"; }
    read -rt 0.1 <> <(:) || true
  done
}
all_idle() { [ "$(on_node 1 sinfo -h -t idle -o %D 2>/dev/null)" = 3 ]; }
until_true 20 "all nodes idle" all_idle

head -n 24 "$requests" >"$work/requests.jsonl"
requests=$work/requests.jsonl
code=0
KV=64MiB generate 1 "$work/one.jsonl" --threads 1 || code=$?
expect_code "$code" 3 "$(cat "$work/one.jsonl.log")"

# step NAME "SRUN OPTIONS" OPTIONS...: gives the bytes of one rank.
step() {
  local what=$1 placement=$2 code=0
  shift 2
  # shellcheck disable=SC2086
  on_node 1 timeout "$(time_limit 60)" srun --mpi=pmix --overcommit $placement "$(realpath "$headrace")" generate --model "$model" \
    --input "$requests" --output "$work/$what.jsonl" --kv-cache-memory-bytes 64MiB --threads 1 "$@" >"$work/$what.log" 2>&1 ||
    code=$?
  [ "$code" = 3 ] || { cat "$work/$what.log"; fail "$what: exit code $code instead of 3"; }
  same "$work/one.jsonl" "$work/$what.jsonl" "$what"
}

torn="are on several nodes, and exchange sums"
step stages "-N 3 -n 3" -pp 3
says "$work/stages.log" " ${name}3$"
step block "-N 2 -n 4 --distribution=block" -pp 2 -tp 2
says_not "$work/block.log" "$torn"
step cyclic "-N 2 -n 4 --distribution=cyclic" -pp 2 -tp 2
says_not "$work/cyclic.log" "$torn"
step shards-across "-N 2 -n 2" -tp 2
says "$work/shards-across.log" "$torn"
# Two nodes with one rank each and one with two, dealt out in no order.
printf '%s\n' "${name}3" "${name}1" "${name}3" "${name}2" >"$work/hostfile"
export SLURM_HOSTFILE=$work/hostfile
step odd-places "-n 4 --distribution=arbitrary -w $(paste -sd, "$work/hostfile")" -pp 2 -dp 2
unset SLURM_HOSTFILE

# The batch scripts, as a user submits them; here on CPUs that nodes only claim to have.
export HEADRACE
HEADRACE=$(realpath "$headrace")
# submit SCRIPT INPUT OUTPUT: prints the job's number.
submit() {
  on_node 1 sbatch --parsable --nodes 2 --cpus-per-task 2 --mem 500 --oversubscribe --output "$work/$(basename "$1").log" "$1" "$model" "$2" "$3"
}
state_of() { on_node 1 scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
has_ended() { case $(state_of "$1") in PENDING | RUNNING | COMPLETING | CONFIGURING | REQUEUED) return 1 ;; *) return 0 ;; esac }
exit_code_of() { on_node 1 scontrol show job "$1" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p'; }

job=$(submit slurm/pipeline.sbatch "$requests" "$work/batch.jsonl")
until_true 60 "pipeline.sbatch ended" has_ended "$job"
[ "$(exit_code_of "$job")" = 3 ] || { cat "$work/pipeline.sbatch.log"; fail "pipeline.sbatch: exit code $(exit_code_of "$job")"; }
same "$work/one.jsonl" "$work/batch.jsonl" pipeline.sbatch

# Long enough to be met in its middle.
repeated 60 >"$work/many.jsonl"
code=0
requests=$work/many.jsonl KV=64MiB generate 1 "$work/undisturbed.jsonl" --threads 1 || code=$?
expect_code "$code" 3 "the long job: $(cat "$work/undisturbed.jsonl.log")"

output=$work/requeued.jsonl
job=$(submit slurm/requeue.sbatch "$work/many.jsonl" "$output")
has_grown() { [ -s "$output.partial" ]; }
restarts() { on_node 1 scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }
until_true 60 "an answer of requeue.sbatch" has_grown
# What SLURM sends before the time limit by --signal=USR1@120.
on_node 1 scancel --signal=USR1 "$job"
has_restarted() { [ "$(restarts)" -ge "$1" ]; }
until_true 30 "the job is back in the queue" has_restarted 1
grew_again() { [ "$(stat -c %s "$output.partial" 2>/dev/null || echo 0)" -gt "$size" ]; }
size=$(stat -c %s "$output.partial")
until_true 60 "the job goes on" grew_again
# A node is lost with all that runs on it: SLURM misses it and puts the job back by itself.
lost=$(on_node 1 squeue -h -j "$job" -o %N)
lost=$(on_node 1 scontrol show hostnames "$lost" | tail -n 1)
# shellcheck disable=SC2046
kill -KILL $(processes_of "$lost")
until_true 60 "the job is back in the queue without its node" has_restarted 2
start_slurmd "${lost#"$name"}"
until_true 120 "requeue.sbatch ended" has_ended "$job"
[ "$(exit_code_of "$job")" = 3 ] || { cat "$work/requeue.sbatch.log"; fail "requeue.sbatch: exit code $(exit_code_of "$job")"; }
same "$work/undisturbed.jsonl" "$output" requeue.sbatch
echo "jobs under SLURM gave the bytes of one rank, after $(restarts) restarts too"
