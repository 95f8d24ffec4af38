#include "launch/generate_options.h"

#include <initializer_list>
#include <limits>

#include "launch/options.h"

namespace headrace {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

void declare_model(OptionSet& set, GenerateOptions& o) {
  set.group("Model");
  set.add({.name = "model",
           .value = "MODEL",
           .help = "Hugging Face directory or org/name, .gguf or .h5 file",
           .required = true},
          o.model);
  set.add({.name = "tokenizer",
           .value = "DIR",
           .help = "directory, .gguf or .h5 with the tokenizer",
           .fallback = "MODEL"},
          o.tokenizer);
  set.add({.name = "chat-template",
           .value = "FILE",
           .help = "Jinja file for chat requests",
           .fallback = "the model's"},
          o.chat_template);
  set.add_choice({.name = "load-format",
                  .value = "F",
                  .help = "auto, or dummy: random weights, from config.json alone"},
                 o.load_format, {"auto", "dummy"});
  set.add_choice(
      {.name = "load", .value = "L", .help = "read once a node, a job (broadcast) or a rank (own)"},
      o.load, {"node", "broadcast", "own"});
  set.add_choice(
      {.name = "dtype", .value = "T", .help = "auto, float32, bfloat16, on GPUs float16"}, o.dtype,
      {"auto", "float32", "bfloat16", "float16"});
  set.add_choice({.name = "quantization", .value = "Q", .help = "none, int8 or int4: weights"},
                 o.quantization, {"none", "int8", "int4"});
  set.add_choice({.name = "quantized-inputs",
                  .value = "I",
                  .help = "with quantised weights: int8 (W8A8, W4A8), or none (W8A16, W4A16): "
                          "closer to the model, slower"},
                 o.quantized_inputs, {"int8", "none"});
  set.add({.name = "max-model-len",
           .value = "N",
           .help = "prompt and completion together",
           .fallback = "the model's context"},
          o.max_model_len, {1, kMaxInt});
  set.add_choice({.name = "generation-config",
                  .value = "G",
                  .help = "auto or none: defaults of generation_config.json"},
                 o.generation_config, {"auto", "none"});
  set.add({.name = "served-model-name", .value = "NAME", .help = "that requests must ask for"},
          o.served_model_names);
}

void declare_files(OptionSet& set, GenerateOptions& o) {
  set.group("Files");
  set.add({.name = "input",
           .value = "FILE",
           .help = "JSON Lines (.gz, .zst, - for standard input)",
           .required = true},
          o.inputs);
  set.add({.name = "output", .value = "FILE", .help = "answers, in input order", .required = true},
          o.output);
  set.add({.name = "error-file", .value = "FILE", .help = "failed requests go here instead"},
          o.error_file);
  set.add({.name = "journal-dir",
           .value = "DIR",
           .help = "where the journal lives",
           .fallback = "beside OUTPUT"},
          o.journal_dir);
  set.add({.name = "shard", .value = "I/N", .help = "only lines whose number is I modulo N"},
          o.shard);
  set.add({.name = "overwrite", .help = "forget an earlier run of this output"}, o.overwrite);
  set.add({.name = "retry-failed", .help = "run failed requests of a finished job again"},
          o.retry_failed);
  set.add({.name = "trace", .value = "FILE", .help = "timeline of all ranks, for Perfetto"},
          o.trace);
  set.add({.name = "seed", .value = "N", .help = "of requests that have none"}, o.seed,
          {0, std::numeric_limits<std::int64_t>::max()});
}

void declare_layout(OptionSet& set, GenerateOptions& o) {
  set.group("Layout");
  set.add({.name = "pipeline-parallel-size",
           .value = "P",
           .help = "stages",
           .fallback = "all ranks",
           .alias = "pp"},
          o.pipeline_parallel_size, {1, kMaxInt});
  set.add({.name = "tensor-parallel-size",
           .value = "T",
           .help = "ranks that share a stage",
           .alias = "tp"},
          o.tensor_parallel_size, {1, kMaxInt});
  set.add(
      {.name = "data-parallel-size", .value = "D", .help = "pipelines side by side", .alias = "dp"},
      o.data_parallel_size, {1, kMaxInt});
  set.add({.name = "layers",
           .value = "A,B,...",
           .help = "layers of each stage",
           .fallback = "balanced by weight"},
          o.layers, {0, kMaxInt});
  set.add({.name = "num-micro-batches", .value = "M", .help = "steps in flight", .fallback = "P"},
          o.num_micro_batches, {1, 1024});
}

void declare_running(OptionSet& set, GenerateOptions& o) {
  set.group("Steps, memory, machine");
  set.add({.name = "max-num-seqs", .value = "N", .help = "sequences at once"}, o.max_num_seqs,
          {1, 65536});
  set.add({.name = "max-num-batched-tokens", .value = "N", .help = "rows of a step at most"},
          o.max_num_batched_tokens, {1, 65536});
  set.add({.name = "block-size", .value = "N", .help = "tokens of a KV block: 16, 32, ... 256"},
          o.block_size, {16, 256});
  set.add_choice({.name = "kv-cache-dtype",
                  .value = "T",
                  .help = "auto (as --dtype), or int8: half the memory"},
                 o.kv_cache_dtype, {"auto", "int8"});
  set.add({.name = "kv-cache-memory-bytes",
           .value = "SIZE",
           .help = "of each rank",
           .fallback = "half of free memory; what is left of a GPU"},
          o.kv_cache_memory_bytes);
  set.add({.name = "swap-space",
           .value = "SIZE",
           .help = "host memory of each rank for preempted sequences"},
          o.swap_space);
  set.add_choice(
      {.name = "device", .value = "D", .help = "auto (a GPU where there is one), cpu, cuda"},
      o.device, {"auto", "cpu", "cuda"});
  set.add({.name = "share-device", .help = "several ranks may compute on one GPU"}, o.share_device);
  set.add({.name = "gpu-memory-utilization",
           .value = "F",
           .help = "of each GPU's memory, for all its ranks"},
          o.gpu_memory_utilization, {0.01, 1.0});
  set.add(
      {.name = "deterministic", .help = "on GPUs: the same bytes for every -tp (on CPUs always)"},
      o.deterministic);
  set.add_choice({.name = "transport",
                  .value = "T",
                  .help = "between GPUs: auto, nccl, mpi-staged, mpi-cuda-aware"},
                 o.transport, {"auto", "nccl", "mpi-staged", "mpi-cuda-aware"});
  set.add({.name = "device-profile",
           .value = "FILE",
           .help = "algorithms of products on GPUs, kept from run to run"},
          o.device_profile);
  set.add({.name = "threads",
           .value = "N",
           .help = "compute threads of a rank",
           .fallback = "its share of the cores"},
          o.threads, {1, 1024});
  set.add_choice({.name = "backend", .value = "B", .help = "cpu, or reference: slow and plain"},
                 o.backend, {"cpu", "reference"});
  set.add_choice({.name = "isa", .value = "I", .help = kIsaHelp}, o.isa, isa_choices());
  set.add({.name = "stall-timeout", .value = "S", .help = "give up on a silent rank; 0: never"},
          o.stall_timeout_s, {0, 1e6});
}

// What is for one kind of device is a mistake beside the other.
void check_device(const OptionSet& set, const GenerateOptions& options) {
  const auto refuse = [&](std::initializer_list<const char*> names, const char* why) {
    for (const char* name : names) {
      if (set.given(name)) throw set.rejected(name, why);
    }
  };
  if (options.device == "cuda") refuse({"backend", "isa"}, "is for CPUs, not for --device cuda");
  if (options.device == "cpu") {
    refuse({"share-device", "gpu-memory-utilization", "transport", "device-profile"},
           "is for GPUs, not for --device cpu");
  }
}

}  // namespace

std::optional<std::string> parse_generate_options(const std::vector<std::string>& args,
                                                  GenerateOptions& options) {
  OptionSet set({.command = "generate",
                 .synopsis = "--model MODEL --input FILE --output FILE",
                 .summary = "Runs a file of requests. Start it with mpirun or srun, or alone."});
  declare_model(set, options);
  declare_files(set, options);
  declare_layout(set, options);
  declare_running(set, options);
  if (!set.parse(args)) return set.help();
  set.exclude("overwrite", "retry-failed");
  if (!options.trace.empty() && options.trace == options.output) {
    throw set.rejected("trace", "another file than --output");
  }
  check_device(set, options);
  if ((options.block_size & (options.block_size - 1)) != 0) {
    throw set.rejected("block-size", "a power of two from 16 to 256");
  }
  return std::nullopt;
}

}  // namespace headrace
