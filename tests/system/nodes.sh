#!/bin/bash
# A job over several nodes: two or three network namespaces of this machine, each with a hostname of its own, joined by a
# bridge. mpirun reaches them through a launch agent in place of ssh, so that Open MPI sees different hosts: shared
# memory within a node, TCP between them. Layouts and placements of all kinds give the bytes of one rank; a node whose
# processes die, or whose link goes down, ends the job with its cause, and the same command then ends with the same bytes.
# Needs root (or the right to make namespaces); where that is not to be had, says so and ends with 77.
. tests/system/common.sh
. tests/system/network_nodes.sh
make_nodes 3

# What mpirun calls in place of ssh: HOST WORD..., the words for a shell.
cat >"$work/agent" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec "$(realpath "$work")/on" "\$host" sh -c "\$*"
END
chmod +x "$work/agent"
agent=$(realpath "$work/agent")
over_links=(OMPI_MCA_plm=rsh "OMPI_MCA_plm_rsh_agent=$agent" OMPI_MCA_oob_tcp_if_include=link0
  "OMPI_MCA_btl=self,vader,tcp" OMPI_MCA_btl_tcp_if_include=link0 OMPI_MCA_pml=ob1)

# on_nodes HOSTS OUTPUT OPTIONS...: a rank for each slot of HOSTS ("1:2,3:1": two on node 1, one on node 3), started from
# node 1; the exit code is the job's.
on_nodes() {
  local hosts=$1 output=$2
  shift 2
  hosts=$name${hosts//,/,$name}
  env "${over_links[@]}" "$(realpath "$work/on")" "${name}1" mpirun --timeout "$(time_limit 40)" --host "$hosts" ${map_by:+--map-by "$map_by"} \
    "$(realpath "$headrace")" generate --model "$model" --input "$requests" --output "$output" \
    --kv-cache-memory-bytes 64MiB --threads 1 "$@" >"$output.log" 2>&1
}

# layout NAME HOSTS OPTIONS...: gives the bytes of one rank.
layout() {
  local what=$1 hosts=$2 code=0
  shift 2
  on_nodes "$hosts" "$work/$what.jsonl" "$@" || code=$?
  [ "$code" = 3 ] || { cat "$work/$what.jsonl.log"; fail "$what: exit code $code instead of 3"; }
  same "$work/one.jsonl" "$work/$what.jsonl" "$what"
}

# read_kb NAME: what the ranks read of the weights, by their own count, in kB.
read_kb() { sed -n 's/^loaded: .* from \([0-9]*\)\.\([0-9]*\) MB read.*/\1\2/p' "$work/$1.jsonl.log" | sed 's/^0*//'; }

# Bytes that node 1 sent over its link so far.
sent() { ip -s -n "${name}1" link show link0 | awk '/TX:/ { getline; print $1 }'; }

head -n 24 "$requests" >"$work/requests.jsonl"
requests=$work/requests.jsonl
code=0
KV=64MiB generate 1 "$work/one.jsonl" --threads 1 || code=$?
expect_code "$code" 3 "$(cat "$work/one.jsonl.log")"
torn="are on several nodes, and exchange sums"

before=$(sent)
layout stages 1:1,2:1 -pp 2
says "$work/stages.jsonl.log" " ${name}1$"
says "$work/stages.jsonl.log" " ${name}2$"
# Hidden states of 36 float32 a token go over the link: they are not in shared memory.
[ $(($(sent) - before)) -gt 150000 ] || fail "only $(($(sent) - before)) bytes went over the link"

# TP groups inside nodes, however the launcher deals the ranks out.
layout shards-inside 1:2,2:2 -pp 2 -tp 2
says_not "$work/shards-inside.jsonl.log" "$torn"
map_by=node layout shards-dealt-out 1:2,2:2 -pp 2 -tp 2
says_not "$work/shards-dealt-out.jsonl.log" "$torn"
# Across nodes: allowed, with a warning that says what it costs.
layout shards-across 1:1,2:1 -tp 2
says "$work/shards-across.jsonl.log" "the ranks that share a stage from rank 0 on $torn twice a layer over the network: start a multiple of 2 ranks"
# Nodes of different sizes: one group fits a node, one does not.
layout uneven-shards 1:1,2:2,3:1 -pp 2 -tp 2
says "$work/uneven-shards.jsonl.log" "$torn"
map_by=node layout uneven-stages 1:2,2:1,3:1 -pp 4

# Who reads what shows with a model whose matrices are large enough to be handed around: two layers of zeros.
make_model() {
  local tensors="" at=0 layer spec tensor shape bytes
  add() {
    tensor=$1 shape=$2
    bytes=$((${shape/,/*} * 2))
    tensors+="${tensors:+,}\"$tensor\":{\"dtype\":\"BF16\",\"shape\":[$shape],\"data_offsets\":[$at,$((at + bytes))]}"
    at=$((at + bytes))
  }
  mkdir "$work/large"
  cp tests/data/golden/gqa_tied/{tokenizer,tokenizer_config}.json "$work/large"
  echo '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":256,"intermediate_size":512,
    "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":379,"rms_norm_eps":1e-5,
    "max_position_embeddings":128,"tie_word_embeddings":true}' >"$work/large/config.json"
  add model.embed_tokens.weight 379,256
  add model.norm.weight 256
  for layer in 0 1; do
    for spec in self_attn.{q,k,v,o}_proj:256,256 mlp.{gate,up}_proj:512,256 mlp.down_proj:256,512 \
      {input,post_attention}_layernorm:256; do
      add "model.layers.$layer.${spec%:*}.weight" "${spec#*:}"
    done
  done
  {
    # The header's length as a little-endian number of eight bytes.
    printf '%016x' $((${#tensors} + 2)) | tac -rs .. | sed 's/../\\x&/g' | xargs -0 printf '%b'
    printf '{%s}' "$tensors"
    head -c $at /dev/zero
  } >"$work/large/model.safetensors"
}
make_model
echo '{"prompt":"Once","max_tokens":1}' >"$work/request.jsonl"

# reads NAME HOSTS TIMES OPTIONS...: the ranks read every byte so many times; all counts are rounded.
reads() {
  local what=$1 hosts=$2 times=$3 code=0 kb
  shift 3
  model=$large requests=$work/request.jsonl on_nodes "$hosts" "$work/$what.jsonl" "$@" || code=$?
  [ $code = 0 ] || { cat "$work/$what.jsonl.log"; fail "$what: exit code $code"; }
  kb=$(read_kb "$what")
  [ $((kb - times * all_kb)) -ge -2 ] && [ $((kb - times * all_kb)) -le 2 ] ||
    fail "$what: $kb kB read of $all_kb, instead of $times times each"
}
model=$work/large requests=$work/request.jsonl KV=64MiB generate 1 "$work/whole.jsonl" --threads 1
all_kb=$(read_kb whole)
large=$work/large
reads each-for-itself 1:2,2:2 4 -dp 4 --load own
reads once-a-node 1:2,2:2 2 -dp 4 --load node
reads once-a-job 1:2,2:1,3:1 1 -pp 2 -dp 2 --load broadcast
# Integers and their scales likewise.
"$headrace" convert --model "$work/large" --quantize int8 --output "$work/large.h5" >"$work/convert.log" 2>&1 ||
  fail "$(cat "$work/convert.log")"
model=$work/large.h5 requests=$work/request.jsonl KV=64MiB generate 1 "$work/whole-int8.jsonl" --threads 1
all_kb=$(read_kb whole-int8)
large=$work/large.h5
reads int8-once-a-node 1:2,2:2 2 -dp 4 --load node
# And replicas give the same answers, wherever their weights came from.
layout replicas 1:2,2:1,3:1 -pp 2 -dp 2 --load broadcast

# A job that is long enough to be met in its middle.
leave_ranks_a_second
repeated 60 >"$work/many.jsonl"
requests=$work/many.jsonl
code=0
generate 1 "$work/undisturbed.jsonl" --threads 1 || code=$?
expect_code $code 3 "the long job: $(cat "$work/undisturbed.jsonl.log")"

# fault NAME EXPECTED COMMAND...: a job whose node 2 vanishes by COMMAND in its middle says EXPECTED and ends its ranks; the
# next run, on one node, ends with the bytes of an undisturbed one.
fault() {
  local what=$1 expected=$2 output=$work/$1.jsonl i code=0 start
  shift 2
  on_nodes 1:1,2:1 "$output" -pp 2 --max-num-seqs 2 --stall-timeout 3 &
  local job=$!
  for ((i = 0; i < 3000; ++i)); do
    [ ! -s "$output.partial" ] || break
    read -rt 0.01 <> <(:) || true
  done
  [ -s "$output.partial" ] || { cat "$output.log"; fail "$what: no answer yet"; }
  start=$SECONDS
  "$@"
  while ranks_on 1; do
    [ $((SECONDS - start)) -lt "$(time_limit 15)" ] || { cat "$output.log"; fail "$what: the rank on node 1 runs on"; }
    read -rt 0.05 <> <(:) || true
  done
  echo "$what: ended after $((SECONDS - start)) s: $(grep -Em 1 "$expected" "$output.log")"
  grep -Eq "$expected" "$output.log" || { cat "$output.log"; fail "$what: the cause is not told"; }
  # Where node 2 is there and cannot be reached, mpirun waits for its daemon until a limit ends it (mpirun --timeout, a
  # batch system's); there, that daemon ends its ranks when it misses its launcher.
  # shellcheck disable=SC2046
  kill -KILL $(processes_of "${name}1") $(processes_of "${name}2") 2>/dev/null || true
  wait $job || code=$?
  [ $code != 0 ] && [ $code != 3 ] || fail "$what: ended with $code as if nothing had happened"
  code=0
  generate 1 "$output" --threads 1 || code=$?
  expect_code $code 3 "$what, after the resume: $(cat "$output.log")"
  same "$work/undisturbed.jsonl" "$output" "$what"
}
# ranks_on NODE: whether a rank runs there.
ranks_on() {
  local process
  for process in $(processes_of "$name$1"); do
    [ "$(cat "/proc/$process/comm" 2>/dev/null)" != "$(basename "$headrace")" ] || return 0
  done
  return 1
}
kill_node() {
  # shellcheck disable=SC2046
  kill -KILL $(processes_of "${name}2")
}
# mpirun itself misses the node's daemon, and has several ways to say so.
fault dead-node "${name}2|lost communication|unable to reliably start one or more daemons" kill_node
fault dead-link "waited 3 s .--stall-timeout. for" ip -n "${name}2" link set link0 down
echo "jobs over nodes gave the bytes of one rank"
