#include "launch/generate_setup.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <thread>

#include "comm/nccl_memory.h"
#include "kernels/traced_ops.h"
#include "model/checkpoint/dummy_checkpoint.h"
#include "model/stage_load.h"
#include "partition/layer_split.h"
#include "partition/placement.h"
#include "partition/rank_peers.h"
#include "runtime/job/sampling_defaults.h"
#include "runtime/pipeline/stage_executor.h"
#include "runtime/pipeline/step_message.h"

namespace headrace {
namespace {

// Room for a step's plan: admissions are the only part without a small bound, and the scheduler
// keeps to this.
constexpr std::size_t kPlanBytesBase = std::size_t{256} << 10;
constexpr std::size_t kPlanBytesPerRow = 64;
constexpr std::size_t kPlanBytesPerSequence = 64;
// With --swap-space: for each place of a sequence's tables its block, its restoring and the saving
// of another's; and for each row the saving of what had its block.
constexpr std::size_t kPlanBytesPerSwappedPlace = 4 + 8 + 8;
constexpr std::size_t kPlanBytesPerSwappedRow = 8;

// Rows whose logits are taken at once: enough to be bound by computing, few enough that a large
// vocabulary's logits stay small.
constexpr int kLogitRows = 64;

// Spans that a rank keeps for --trace, 32 bytes each: about a minute of steps of 30 layers.
constexpr std::size_t kTraceSpans = std::size_t{1} << 18;

DType choose_dtype(const std::string& name, const Checkpoint& checkpoint) {
  if (name == "float32") return DType::kFloat32;
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "float16") return DType::kFloat16;
  return checkpoint.preferred_dtype();
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(CPU_COUNT(&set), 1);
}

// inputs: what most products do with theirs.
std::vector<StagePart> make_parts(const ModelConfig& config, const GenerateOptions& options,
                                  const ParallelLayout& layout, QuantizedInputs inputs) {
  const int num_stages = layout.pipeline;
  if (!options.layers.empty() && static_cast<int>(options.layers.size()) != num_stages) {
    throw std::invalid_argument(fmt::format("--layers names {} stages, but the pipeline has {}",
                                            options.layers.size(), num_stages));
  }
  const std::vector<IndexRange> ranges =
      options.layers.empty()
          ? split_layers(config.num_layers, num_stages, end_loads(config, inputs))
          : split_by_counts(options.layers, config.num_layers);
  std::vector<StagePart> parts;
  for (int stage = 0; stage < num_stages; ++stage) {
    const IndexRange& range = ranges[static_cast<std::size_t>(stage)];
    parts.push_back({.begin_layer = range.begin,
                     .end_layer = range.end,
                     .embedding = stage == 0,
                     .head = stage == num_stages - 1,
                     .tensor_rank = 0,
                     .tensor_size = layout.tensor});
  }
  return parts;
}

int choose_max_model_len(const ModelConfig& config, const GenerateOptions& options) {
  if (!options.max_model_len) return config.max_position_embeddings;
  if (*options.max_model_len > config.max_position_embeddings) {
    throw std::invalid_argument(fmt::format("--max-model-len {}: the model's context is {}",
                                            *options.max_model_len,
                                            config.max_position_embeddings));
  }
  return *options.max_model_len;
}

// Blocks that this rank's share of memory holds; more than max_blocks are never needed.
std::int64_t blocks_in_memory(std::uint64_t kv_bytes, std::size_t block_bytes,
                              std::int64_t max_blocks) {
  if (block_bytes == 0) return max_blocks;
  return std::min(static_cast<std::int64_t>(kv_bytes / block_bytes), max_blocks);
}

// The longest sequence that so many blocks hold, or 0.
int longest_in_blocks(const SchedulerLimits& limits, std::int64_t num_blocks) {
  int fits = 0;
  int too_long = limits.max_model_len + 1;
  while (fits + 1 < too_long) {
    const int middle = fits + (too_long - fits) / 2;
    (Scheduler::blocks_for(limits, middle) <= num_blocks ? fits : too_long) = middle;
  }
  return fits;
}

// More than all sequences that run can hold are never needed.
std::int64_t most_useful_blocks(const GenerateOptions& options, const SchedulerLimits& limits) {
  int most_pages = 1;
  for (const KvGroup& group : limits.kv.groups) {
    most_pages = std::max(most_pages, group.pages_per_block);
  }
  const std::int64_t most_of_one = Scheduler::blocks_for(limits, limits.max_model_len);
  return std::min<std::int64_t>(most_of_one * options.max_num_seqs,
                                std::numeric_limits<int>::max() / most_pages);
}

std::size_t plan_bytes_of_swaps(const SchedulerLimits& limits) {
  std::size_t bytes = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    const int places = limits.max_model_len / limits.block_tokens + 1;
    bytes += kPlanBytesPerSwappedPlace * static_cast<std::size_t>(places) +
             kPlanBytesPerSwappedRow * static_cast<std::size_t>(limits.max_rows);
  }
  return bytes;
}

// Every stage has as many blocks as the one with the fewest, of which one sequence needs a part.
int agree_on_blocks(const Environment& environment, const GenerateOptions& options,
                    const RankSetup& setup) {
  const SchedulerLimits limits = setup.scheduler_limits(options);
  const std::int64_t useful = most_useful_blocks(options, limits);
  const std::size_t block_bytes =
      stage_block_bytes(setup.checkpoint->config(), setup.part(), *setup.ops, setup.size);
  const std::int64_t blocks =
      environment.world().min(blocks_in_memory(setup.kv_bytes, block_bytes, useful));
  const int longest = longest_in_blocks(limits, blocks);
  if (longest < setup.max_model_len) {
    throw std::invalid_argument(
        fmt::format("the KV cache holds a sequence of {} tokens, less than one context of {}: give "
                    "--max-model-len {} or less, or a larger --kv-cache-memory-bytes",
                    longest, setup.max_model_len, std::max(longest, 1)));
  }
  return static_cast<int>(blocks);
}

std::string base_name(const std::string& model) {
  std::string path = model;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return std::filesystem::path(path).filename().string();
}

// Every rank of a stage must give the same numbers: which of them a sequence meets is chance.
std::vector<std::string> classes_of_stages(const RankSetup& setup,
                                           const std::vector<std::string>& of_ranks) {
  std::vector<std::string> classes;
  for (int rank = 0; rank < setup.layout.num_ranks(); ++rank) {
    const auto stage =
        static_cast<std::size_t>(Topology(setup.layout, rank).coordinates().pipeline);
    const std::string& own = of_ranks[static_cast<std::size_t>(rank)];
    if (stage == classes.size()) classes.push_back(own);
    if (classes[stage] == own) continue;
    throw std::invalid_argument(
        fmt::format("stage {} computes in the numeric class {}, but {} in {}: all ranks of a stage "
                    "need the same kind of device",
                    stage, classes[stage], setup.name(rank), own));
  }
  return classes;
}

bool all_equal(const std::vector<std::string>& texts) {
  return std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) == texts.end();
}

// The class of the job and the options that restore it; a mixed pipeline's names every stage's.
JobKeyPart numeric_class_part(const RankSetup& setup, const GenerateOptions& options) {
  const std::vector<std::string>& classes = setup.numeric_classes;
  if (!all_equal(classes)) {
    std::string text;
    for (std::size_t s = 0; s < classes.size(); ++s) {
      const StagePart& part = setup.parts[s];
      text += fmt::format("{}layers [{}, {}) {}", s == 0 ? "" : ", ", part.begin_layer,
                          part.end_layer, classes[s]);
    }
    return {"numeric class", text, "the same --layers on the same devices"};
  }
  std::string option;
  if (setup.device.is_gpu) {
    option = options.deterministic
                 ? "--device cuda --deterministic"
                 : fmt::format("--device cuda --tensor-parallel-size {}{}", setup.layout.tensor,
                               classes[0].ends_with(":nccl") ? " --transport nccl" : "");
  } else {
    const bool amx = classes[0].ends_with(":amx");
    const std::string_view isa = amx                        ? "amx (amx_emulated on CPUs without)"
                                 : classes[0] == "portable" ? "portable"
                                                            : "no_amx";
    option = fmt::format("--device cpu --isa {}", isa);
  }
  return {"numeric class", classes[0], option};
}

// Chat requests see the date of the job's first start, so that a resumed job gives the same
// prompts.
ChatRenderer make_renderer(const ModelText& text, std::int64_t now_s) {
  return [text, now_s](const ChatRequest& request) { return text.render(request, now_s); };
}

JobKey make_job_key(const RankSetup& setup, const GenerateOptions& options, const ModelText& text,
                    const SamplingDefaults& defaults, const std::string& model_name) {
  JobKey key = {
      {"weights", setup.checkpoint->fingerprint(),
       options.load_format == "dummy" ? "--load-format dummy" : ""},
      {"tokenizer", text.tokenizer->fingerprint(), ""},
      {"dtype", std::string(dtype_name(setup.dtype)),
       fmt::format("--dtype {}", dtype_name(setup.dtype))},
      {"quantization", options.quantization,
       fmt::format("--quantization {}", options.quantization)},
      {"kv-cache-dtype", options.kv_cache_dtype,
       fmt::format("--kv-cache-dtype {}", options.kv_cache_dtype)},
      numeric_class_part(setup, options),
      {"seed", std::to_string(options.seed), fmt::format("--seed {}", options.seed)},
      {"chat template", text.template_fingerprint, ""},
      {"sampling defaults", describe(defaults),
       fmt::format("--generation-config {}", options.generation_config)},
      {"max-model-len", std::to_string(setup.max_model_len),
       fmt::format("--max-model-len {}", setup.max_model_len)},
      {"model name", model_name, fmt::format("--served-model-name {}", model_name)},
  };
  if (options.quantized_inputs != "int8") {
    key.push_back({"quantized-inputs", options.quantized_inputs,
                   fmt::format("--quantized-inputs {}", options.quantized_inputs)});
  }
  return key;
}

}  // namespace

StagePart RankSetup::part_of(const Coordinates& place) const {
  StagePart part = parts[static_cast<std::size_t>(place.pipeline)];
  part.tensor_rank = place.tensor;
  return part;
}

int RankSetup::sent_columns(int rank, int neighbour) const {
  return transport.links(rank, neighbour) ? 0 : checkpoint->config().hidden_size;
}

ChannelShape RankSetup::step_channel(int hidden_size) const {
  return {
      .max_bytes = max_step_message_bytes(num_stages(), max_plan_bytes, size.max_rows, hidden_size),
      .num_buffers = num_micro_batches + 1};
}

ChannelShape RankSetup::result_channel(int max_num_seqs) const {
  constexpr std::size_t kRowBytes = kMaxScoredTokenBytes + 48;  // and its entry
  const std::size_t rows =
      static_cast<std::size_t>(size.max_rows) * 2 + static_cast<std::size_t>(max_num_seqs);
  return {.max_bytes =
              4096 + static_cast<std::size_t>(num_stages()) * sizeof(StageTimes) + rows * kRowBytes,
          .num_buffers = num_micro_batches + 1};
}

SchedulerLimits RankSetup::scheduler_limits(const GenerateOptions& options) const {
  return {.num_micro_batches = num_micro_batches,
          .max_num_seqs = options.max_num_seqs,
          .max_rows = size.max_rows,
          .num_blocks = size.num_blocks,
          .num_swap_blocks = size.num_swap_blocks,
          .block_tokens = size.block_tokens,
          .kv = size.kv,
          .max_model_len = max_model_len,
          .max_plan_bytes = max_plan_bytes};
}

void place_processes(Environment& environment, const GenerateOptions& options) {
  const ParallelLayout layout = resolve_layout(options.layout(), environment.num_ranks());
  environment.reorder(place_ranks(environment.nodes(), layout.tensor));
}

std::string place_text(const ParallelLayout& layout, const Coordinates& at) {
  std::string text = fmt::format("stage {}", at.pipeline);
  if (layout.tensor > 1) text += fmt::format(", shard {}", at.tensor);
  if (layout.data > 1) text += fmt::format(", replica {}", at.data);
  return text;
}

std::size_t host_exchange_bytes(const RankSetup& setup, const GenerateOptions& options, int rank) {
  if (setup.layout.tensor == 1) return 0;
  const StagePart part = setup.part_of(Topology(setup.layout, rank).coordinates());
  const std::size_t sums = setup.transport.computes_on_gpu(rank)
                               ? 0
                               : stage_exchange_bytes(setup.checkpoint->config(), part, setup.size);
  if (!part.head) return sums;
  return std::max(sums, drawn_exchange_bytes(setup.size.max_rows, options.max_num_seqs));
}

RankSetup set_up_rank(const Environment& environment, const GenerateOptions& options,
                      RankDevice device) {
  RankSetup setup;
  setup.device = std::move(device);
  setup.layout = resolve_layout(options.layout(), environment.num_ranks());
  setup.at = Topology(setup.layout, environment.rank()).coordinates();
  setup.checkpoint =
      options.load_format == "dummy" ? open_dummy(options.model) : Checkpoint::open(options.model);
  const ModelConfig& config = setup.checkpoint->config();
  if (options.quantization != "none" && has_quantized_tensors(*setup.checkpoint)) {
    throw std::invalid_argument(fmt::format(
        "--quantization {}: the matrices of {} are quantised already; leave the option out",
        options.quantization, options.model));
  }
  setup.dtype = choose_dtype(options.dtype, *setup.checkpoint);
  if (options.quantization == "int8") setup.quantization = Quantization::kInt8;
  if (options.quantization == "int4") setup.quantization = Quantization::kInt4;
  const bool is_quantized =
      setup.quantization != Quantization::kNone || has_quantized_tensors(*setup.checkpoint);
  if (options.quantized_inputs == "none") {
    if (!is_quantized) {
      throw std::invalid_argument(fmt::format(
          "--quantized-inputs none: no weights of {} are quantised; leave the option out, or give "
          "--quantization int8 or int4",
          options.model));
    }
    setup.quantized_inputs = QuantizedInputs::kCompute;
  }
  tensor_shards(sharded_sizes(config), setup.layout.tensor);  // a size that cannot be shows now
  setup.parts = make_parts(config, options, setup.layout,
                           is_quantized ? setup.quantized_inputs : QuantizedInputs::kCompute);
  setup.max_model_len = choose_max_model_len(config, options);
  setup.num_micro_batches =
      options.num_micro_batches > 0 ? options.num_micro_batches : setup.num_stages();
  setup.num_threads = options.threads > 0
                          ? options.threads
                          : std::max(1, usable_cores() / environment.node_num_ranks());
  setup.pool = make_thread_pool(setup.num_threads);
  setup.ops = make_rank_ops(options, setup.device, setup.dtype, *setup.pool);
  if (!options.trace.empty()) {
    setup.recorder = std::make_unique<SpanRecorder>(kTraceSpans);
    const bool on_cpu = setup.ops->arena().is_host();
    const MachineBound bound = on_cpu ? MachineBound(measure_peaks(*setup.pool)) : MachineBound();
    setup.ops = make_traced_ops(std::move(setup.ops), *setup.recorder, bound);
  }
  setup.max_plan_bytes =
      kPlanBytesBase + static_cast<std::size_t>(options.max_num_batched_tokens) * kPlanBytesPerRow +
      static_cast<std::size_t>(options.max_num_seqs) * kPlanBytesPerSequence;
  setup.size = {.max_rows = options.max_num_batched_tokens,
                .max_logit_rows = std::min(options.max_num_batched_tokens, kLogitRows),
                .max_context = setup.max_model_len,
                .num_blocks = 0,
                .block_tokens = options.block_size,
                .kv = kv_groups(config, setup.parts, setup.max_model_len),
                .kv_type = options.kv_cache_dtype == "int8" ? KvType::kInt8 : KvType::kCompute};
  if (options.swap_space.bytes > 0) {
    setup.max_plan_bytes += plan_bytes_of_swaps(setup.scheduler_limits(options));
  }
  return setup;
}

namespace {

// Buffers of all that a rank sends and receives.
std::size_t message_bytes(const RankSetup& setup, const GenerateOptions& options, int rank) {
  const auto bytes_of = [](const ChannelShape& shape) {
    return shape.max_bytes * static_cast<std::size_t>(shape.num_buffers);
  };
  const RankPeers peers = rank_peers(Topology(setup.layout, rank));
  std::size_t bytes = 2 * host_exchange_bytes(setup, options, rank);
  for (const std::optional<int>& neighbour : {peers.steps_from, peers.steps_to}) {
    if (neighbour) bytes += bytes_of(setup.step_channel(setup.sent_columns(rank, *neighbour)));
  }
  if (peers.results_from || peers.results_to) {
    bytes += bytes_of(setup.result_channel(options.max_num_seqs));
  }
  bytes += bytes_of(setup.step_channel(0)) * peers.plans_to.size();
  if (const auto transport = transport_options(options, setup, rank)) {
    bytes += device_transport_bytes(*transport) + nccl_bytes(*transport);
  }
  return bytes;
}

}  // namespace

std::vector<StageMemory> stage_memories(const RankSetup& setup, const GenerateOptions& options) {
  const ModelConfig& config = setup.checkpoint->config();
  std::vector<StageMemory> stages;
  for (int s = 0; s < setup.num_stages(); ++s) {
    const StagePart& part = setup.parts[static_cast<std::size_t>(s)];
    const int rank = Topology(setup.layout, 0).rank_of({.data = 0, .pipeline = s, .tensor = 0});
    const std::size_t block_bytes = stage_block_bytes(config, part, *setup.ops, setup.size);
    stages.push_back(
        {.part = part,
         .device = setup.devices[static_cast<std::size_t>(rank)],
         .weight_bytes =
             stage_weight_bytes(*setup.checkpoint, part, {setup.dtype, setup.quantization}),
         .kv_bytes = block_bytes * static_cast<std::size_t>(setup.size.num_blocks),
         .swap_bytes = block_bytes * static_cast<std::size_t>(setup.size.num_swap_blocks),
         .workspace_bytes =
             stage_workspace_bytes(config, part, setup.dtype, setup.size) +
             stage_reserve_bytes(config, part, *setup.ops, setup.size) +
             setup.ops->arena().swap_memory_bytes(block_bytes, setup.size.num_swap_blocks),
         .message_bytes = message_bytes(setup, options, rank)});
  }
  return stages;
}

void plan_swap_space(const Environment& environment, const GenerateOptions& options,
                     RankSetup& setup) {
  if (options.swap_space.bytes == 0) return;
  const std::int64_t useful = most_useful_blocks(options, setup.scheduler_limits(options));
  const std::size_t block_bytes =
      stage_block_bytes(setup.checkpoint->config(), setup.part(), *setup.ops, setup.size);
  const std::int64_t blocks =
      environment.world().min(blocks_in_memory(options.swap_space.bytes, block_bytes, useful));
  const std::string given = bytes_text(options.swap_space.bytes);
  if (block_bytes > options.swap_space.bytes) {
    throw std::invalid_argument(
        fmt::format("--swap-space {}: a KV block of rank {} takes {}; give more, or leave it out",
                    given, environment.rank(), bytes_text(block_bytes)));
  }
  const auto num_ranks = static_cast<std::uint64_t>(environment.node_num_ranks());
  const std::uint64_t all = num_ranks * static_cast<std::uint64_t>(blocks) * block_bytes;
  const std::uint64_t available = available_memory_bytes();
  if (all > available) {
    throw std::invalid_argument(fmt::format(
        "--swap-space {}: {} rank{} of {} would take {}, it has {} left", given, num_ranks,
        num_ranks == 1 ? "" : "s", environment.host(), bytes_text(all), bytes_text(available)));
  }
  setup.size.num_swap_blocks = static_cast<int>(blocks);
}

void plan_memory(const Environment& environment, const GenerateOptions& options, RankSetup& setup) {
  setup.size.num_blocks = agree_on_blocks(environment, options, setup);
  setup.torn_groups = groups_across_nodes(environment.nodes(), setup.layout.tensor);
  const std::string name = fmt::format("rank {} on {} ({})", environment.rank(), environment.host(),
                                       place_text(setup.layout, setup.at));
  std::vector<std::string> classes;
  for (int rank = 0; rank < environment.num_ranks(); ++rank) {
    const Communicator& world = environment.world();
    setup.names.push_back(world.broadcast(name, rank));
    setup.devices.push_back(world.broadcast(setup.device.short_name(), rank));
    classes.push_back(world.broadcast(numeric_class(options, setup), rank));
  }
  setup.numeric_classes = classes_of_stages(setup, classes);
}

std::vector<std::string> placement_warnings(const Environment& environment,
                                            const RankSetup& setup) {
  std::vector<std::string> warnings;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int usable = usable_cores();
  const int wanted = setup.num_threads * environment.node_num_ranks();
  if (setup.num_threads > usable) {
    warnings.push_back(fmt::format(
        "{} threads of a rank share {} core{}: the launcher bound it; start with --bind-to none",
        setup.num_threads, usable, usable == 1 ? "" : "s"));
  } else if (wanted > cores) {
    warnings.push_back(
        fmt::format("{} ranks x {} threads on {} cores of {}: they will wait for each "
                    "other; start fewer ranks or give --threads",
                    environment.node_num_ranks(), setup.num_threads, cores, environment.host()));
  } else if (wanted * 2 <= cores && usable < cores) {
    warnings.push_back(
        fmt::format("{} of {} cores of {} are used: the launcher bound this rank to {}; "
                    "start with --bind-to none",
                    wanted, cores, environment.host(), usable));
  }
  if (!setup.torn_groups.empty()) {
    warnings.push_back(fmt::format(
        "the ranks that share a stage from rank {} on are on several nodes, and exchange sums "
        "twice a layer over the network: start a multiple of {} ranks on each node",
        setup.torn_groups.front(), setup.layout.tensor));
  }
  return warnings;
}

InputOptions input_options(const GenerateOptions& options) {
  InputOptions input;
  input.paths = options.inputs;
  if (!options.shard.empty()) input.shard = parse_shard(options.shard);
  return input;
}

std::unique_ptr<HostSetup> set_up_host(const RankSetup& setup, const GenerateOptions& options) {
  const JobPaths paths{.output = options.output,
                       .error_file = options.error_file,
                       .journal_dir = options.journal_dir};
  check_inputs(options.inputs, paths.all());
  input_options(options);  // a mistake in --shard shows now

  ModelText text = load_model_text(
      {.model = options.tokenizer.value_or(options.model), .chat_template = options.chat_template});
  SamplingDefaults defaults;
  if (options.generation_config == "auto" && !setup.checkpoint->generation_config().empty()) {
    defaults =
        parse_generation_config(setup.checkpoint->generation_config(), "generation_config.json");
  }
  const std::string model_name =
      options.served_model_names.empty() ? base_name(options.model) : options.served_model_names[0];
  JobStore store({.paths = paths,
                  .key = make_job_key(setup, options, text, defaults, model_name),
                  .overwrite = options.overwrite,
                  .retry_failed = options.retry_failed,
                  .start_s = local_now_s()});

  const ModelConfig& config = setup.checkpoint->config();
  std::vector<TokenId> end_ids = config.eos_token_ids;
  if (const auto eos = text.tokenizer->eos_id()) end_ids.push_back(*eos);
  end_ids.insert(end_ids.end(), defaults.eos_token_ids.begin(), defaults.eos_token_ids.end());
  std::sort(end_ids.begin(), end_ids.end());
  end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());

  AnswerContext context{.tokenizer = text.tokenizer,
                        .job_key = store.job_key(),
                        .model = model_name,
                        .created = source_date_epoch().value_or(0)};
  auto parser = std::make_unique<RequestParser>(
      ParserConfig{.tokenizer = text.tokenizer,
                   .chat = make_renderer(text, store.first_start_s()),
                   .max_model_len = setup.max_model_len,
                   .vocab_size = config.vocab_size,
                   .end_ids = std::move(end_ids),
                   .defaults = std::move(defaults),
                   .seed = static_cast<std::uint64_t>(options.seed),
                   .served_model_names = options.served_model_names});
  auto host = std::make_unique<HostSetup>(HostSetup{.text = std::move(text),
                                                    .parser = std::move(parser),
                                                    .context = std::move(context),
                                                    .store = std::move(store),
                                                    .trace = nullptr});
  if (!options.trace.empty()) host->trace = std::make_unique<PartialFile>(options.trace);
  return host;
}

}  // namespace headrace
