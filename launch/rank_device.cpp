#include "launch/rank_device.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "comm/device_transport.h"
#include "comm/nccl_memory.h"
#include "launch/generate_setup.h"
#include "launch/memory_plan.h"
#include "partition/device_choice.h"
#include "runtime/pipeline/hidden_states.h"

namespace headrace {
namespace {

// What the user must not ask of a GPU.
void require_offered_on_gpus(const GenerateOptions& options) {
  constexpr const char* kRefusal = "--{} {} is not offered on GPUs: leave it out, or --device cpu";
  if (options.quantization != "none") {
    throw std::invalid_argument(fmt::format(kRefusal, "quantization", options.quantization));
  }
  if (options.kv_cache_dtype != "auto") {
    throw std::invalid_argument(fmt::format(kRefusal, "kv-cache-dtype", options.kv_cache_dtype));
  }
}

CudaDevices devices_for(const GenerateOptions& options) {
  if (options.device == "cpu" || options.backend != "cpu") return {};
  return cuda_devices();
}

// What every rank of the node sees, in order. Collective over the node.
std::vector<std::vector<std::string>> all_visible(const Environment& environment,
                                                  const CudaDevices& own) {
  std::string text;
  for (const CudaDevice& device : own.devices) text += device.id + '\n';
  std::vector<std::vector<std::string>> all;
  for (int rank = 0; rank < environment.node_num_ranks(); ++rank) {
    const std::string ids = environment.node().broadcast(text, rank);
    std::vector<std::string>& names = all.emplace_back();
    for (std::size_t at = 0; at < ids.size();) {
      const std::size_t end = ids.find('\n', at);
      names.push_back(ids.substr(at, end - at));
      at = end + 1;
    }
  }
  return all;
}

// Bytes of the arena but for the KV cache.
std::size_t bytes_beside_cache(const RankSetup& setup, bool has_device_link) {
  const ModelConfig& config = setup.checkpoint->config();
  const StagePart part = setup.part();
  const HiddenShape hidden{.max_rows = setup.size.max_rows,
                           .hidden_size = config.hidden_size,
                           .passed_on = !part.head,
                           .has_device_link = has_device_link};
  return stage_arena_bytes(config, part, setup.dtype) +
         stage_workspace_bytes(config, part, setup.dtype, setup.size) +
         stage_reserve_bytes(config, part, *setup.ops, setup.size) +
         setup.ops->arena().swap_memory_bytes(
             stage_block_bytes(config, part, *setup.ops, setup.size), setup.size.num_swap_blocks) +
         arena_bytes(hidden_states_bytes(setup.ops->arena(), hidden));
}

// What a rank takes of its GPU beside the KV cache.
struct FixedBytes {
  std::size_t arena = 0;
  // Outside the arena.
  std::size_t transport = 0;
  std::size_t nccl = 0;
  std::size_t total() const { return arena + transport + nccl; }
};

FixedBytes fixed_bytes(const Environment& environment, const GenerateOptions& options,
                       const RankSetup& setup) {
  const auto transport = transport_options(options, setup, environment.rank());
  const bool linked = transport && (transport->upstream || transport->downstream);
  return {.arena = bytes_beside_cache(setup, linked),
          .transport = transport ? device_transport_bytes(*transport) : 0,
          .nccl = transport ? nccl_bytes(*transport) : 0};
}

// A GPU's bytes that this rank may take, and how they came about.
struct Share {
  std::uint64_t bytes = 0;
  std::string text;
};

// Collective over the node: nobody takes anything while all look.
std::uint64_t free_bytes_of_all(const Environment& environment, const RankDevice& device) {
  environment.node().barrier();
  const std::uint64_t free = device.is_gpu ? cuda_free_bytes(device.index) : 0;
  environment.node().barrier();
  return free;
}

Share share_of(const GenerateOptions& options, const RankDevice& device, std::uint64_t free) {
  const std::uint64_t total = device.gpu.total_bytes;
  const std::uint64_t used = total - std::min(free, total);
  const auto wanted =
      static_cast<std::uint64_t>(options.gpu_memory_utilization * static_cast<double>(total));
  const std::uint64_t left = wanted > used ? wanted - used : 0;
  const auto num_ranks = static_cast<std::uint64_t>(device.num_ranks);
  return {.bytes = left / num_ranks,
          .text = fmt::format("{} (--gpu-memory-utilization {} of {}, {} of it in use, {} rank{})",
                              bytes_text(left / num_ranks), options.gpu_memory_utilization,
                              bytes_text(total), bytes_text(used), num_ranks,
                              num_ranks == 1 ? "" : "s")};
}

std::string place_of(const Environment& environment, const RankDevice& device) {
  return fmt::format("rank {} on {}, {}", environment.rank(), environment.host(), device.name());
}

}  // namespace

std::string RankDevice::short_name() const {
  return is_gpu ? fmt::format("GPU {}", index) : "CPU";
}

std::string RankDevice::name() const {
  return is_gpu ? fmt::format("GPU {} ({})", index, gpu.name) : "CPU";
}

RankDevice choose_device(const Environment& environment, const GenerateOptions& options) {
  const CudaDevices own = devices_for(options);
  const std::vector<DeviceChoice> choices = choose_devices(all_visible(environment, own));
  if (options.device == "cuda" && own.devices.empty()) {
    throw std::invalid_argument(fmt::format("--device cuda: rank {} on {} has no GPU: {}",
                                            environment.rank(), environment.host(), own.why_none));
  }
  if (own.devices.empty()) return {};
  const DeviceChoice& choice = choices[static_cast<std::size_t>(environment.node_rank())];
  RankDevice device{.is_gpu = true,
                    .index = choice.device,
                    .num_ranks = choice.num_ranks,
                    .gpu = own.devices[static_cast<std::size_t>(choice.device)]};
  require_offered_on_gpus(options);
  if (device.num_ranks > 1 && !options.share_device) {
    throw std::invalid_argument(
        fmt::format("{} ranks of {} compute on {}: start one rank a GPU, or give --share-device",
                    device.num_ranks, environment.host(), device.name()));
  }
  return device;
}

void settle_isa(const Environment& environment, const GenerateOptions& options,
                RankDevice& device) {
  const bool can = device.is_gpu || cpu_has("amx");
  const bool all_can = environment.world().min(can ? 1 : 0) == 1;
  device.isa = options.isa == "auto" && !all_can ? "no_amx" : options.isa;
}

std::unique_ptr<Ops> make_rank_ops(const GenerateOptions& options, const RankDevice& device,
                                   DType dtype, ThreadPool& pool) {
  if (device.is_gpu) {
    return make_cuda_ops({.compute_dtype = dtype,
                          .device = device.index,
                          .deterministic = options.deterministic,
                          .profile = device.profile.get(),
                          .warn = [name = device.name()](const std::string& text) {
                            fmt::print(stderr, "warning: {}: {}\n", name, text);
                          }});
  }
  if (dtype == DType::kFloat16) {
    throw std::invalid_argument(
        "--dtype float16 is for GPUs: on the CPU there are float32 and bfloat16");
  }
  if (options.backend == "reference") {
    return make_reference_ops(dtype, cpu_sum_order(dtype, device.isa));
  }
  return make_cpu_ops(dtype, pool, device.isa);
}

// Without --deterministic sums depend on how matrices are cut, and those of more than two parts on
// the order in which NCCL adds them.
std::string numeric_class(const GenerateOptions& options, const RankSetup& setup) {
  if (setup.device.is_gpu) {
    std::string name = cuda_numeric_class(setup.device.gpu);
    if (options.deterministic) return name;
    const bool by_nccl = setup.layout.tensor > 2 && setup.transport.kind == TransportKind::kNccl;
    return fmt::format("{}:T{}{}", name, setup.layout.tensor, by_nccl ? ":nccl" : "");
  }
  const bool tiles = cpu_sum_order(setup.dtype, setup.device.isa) == SumOrder::kTiles;
  const std::string suffix = tiles ? ":amx" : "";
  if (options.backend == "reference" || options.isa == "portable") return "portable" + suffix;
  return (cpu_has("neon") ? "neon" : "x86") + suffix;
}

void plan_device_memory(const Environment& environment, const GenerateOptions& options,
                        RankSetup& setup) {
  const RankDevice& device = setup.device;
  const std::uint64_t free = free_bytes_of_all(environment, device);
  if (!device.is_gpu) {
    setup.kv_bytes = options.kv_cache_memory_bytes
                         ? options.kv_cache_memory_bytes->bytes
                         : available_memory_bytes() / 2 /
                               static_cast<std::uint64_t>(environment.node_num_ranks());
    return;
  }
  const Share share = share_of(options, device, free);
  const FixedBytes fixed = fixed_bytes(environment, options, setup);
  const std::uint64_t needed = fixed.total();
  if (needed >= share.bytes) {
    const std::string nccl =
        fixed.nccl == 0 ? "" : fmt::format(" ({} of it NCCL)", bytes_text(fixed.nccl));
    throw std::invalid_argument(fmt::format(
        "{}: weights and workspace take {}{}, its share is {}: use more ranks, or --device cpu",
        place_of(environment, device), bytes_text(needed), nccl, share.text));
  }
  setup.kv_bytes = share.bytes - needed;
  if (!options.kv_cache_memory_bytes) return;
  const std::uint64_t wanted = options.kv_cache_memory_bytes->bytes;
  if (wanted > setup.kv_bytes) {
    throw std::invalid_argument(fmt::format(
        "{}: --kv-cache-memory-bytes {} does not fit beside weights and workspace of "
        "{} into its share of {}",
        place_of(environment, device), bytes_text(wanted), bytes_text(needed), share.text));
  }
  setup.kv_bytes = wanted;
}

void reserve_device_memory(const Environment& environment, const GenerateOptions& options,
                           RankSetup& setup) {
  if (!setup.device.is_gpu) return;
  const std::size_t cache =
      stage_block_bytes(setup.checkpoint->config(), setup.part(), *setup.ops, setup.size) *
      static_cast<std::size_t>(setup.size.num_blocks);
  setup.ops->arena().reserve(fixed_bytes(environment, options, setup).arena + arena_bytes(cache));
}

}  // namespace headrace
