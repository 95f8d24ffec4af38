#include "launch/rank_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "launch/generate_setup.h"

namespace headrace {
namespace {

std::vector<int> ranks_on_gpus(const Environment& environment, bool is_gpu) {
  const std::vector<std::int64_t> all = environment.world().all_gather(is_gpu ? 1 : 0);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

bool exchange_anything(const GpuTransport& gpus, const ParallelLayout& layout) {
  if (gpus.ranks.empty()) return false;
  if (layout.tensor > 1) return true;
  return std::any_of(gpus.ranks.begin(), gpus.ranks.end(), [&](int rank) {
    const std::optional<int> next = rank_peers(Topology(layout, rank)).steps_to;
    return next && gpus.computes_on_gpu(*next);
  });
}

// Why a rank cannot use a transport; empty where it can.
std::string obstacle(const Environment& environment, TransportKind kind, const RankDevice& device) {
  if (!device.is_gpu) return {};
  std::string problem = why_not(kind);
  if (problem.empty() && kind == TransportKind::kNccl && device.num_ranks > 1) {
    problem = fmt::format("{} ranks of {} share {}, and NCCL takes one a GPU", device.num_ranks,
                          environment.host(), device.short_name());
  }
  return problem;
}

// The one of the lowest rank that has any, for all.
std::string first_obstacle(const Environment& environment, const std::string& own) {
  const Communicator& world = environment.world();
  const auto first =
      static_cast<int>(world.min(own.empty() ? environment.num_ranks() : environment.rank()));
  return first == environment.num_ranks() ? std::string() : world.broadcast(own, first);
}

}  // namespace

bool GpuTransport::computes_on_gpu(int rank) const {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

bool GpuTransport::links(int rank, std::optional<int> other) const {
  return kind && other && computes_on_gpu(rank) && computes_on_gpu(*other);
}

std::string GpuTransport::text() const {
  if (!kind) return {};
  const std::string name(transport_name(*kind));
  return why.empty() ? name : fmt::format("{} ({})", name, why);
}

GpuTransport choose_transport(const Environment& environment, const GenerateOptions& options,
                              const RankSetup& setup) {
  GpuTransport chosen;
  chosen.ranks = ranks_on_gpus(environment, setup.device.is_gpu);
  const std::optional<TransportKind> asked = transport_of(options.transport);
  if (chosen.ranks.empty()) {
    if (!asked) return chosen;
    throw std::invalid_argument(fmt::format(
        "--transport {} is between GPUs, and no rank computes on one", options.transport));
  }
  const bool needed = exchange_anything(chosen, setup.layout);
  if (!asked && !needed) return chosen;  // NCCL is not even looked for
  const TransportKind wanted = asked.value_or(TransportKind::kNccl);
  const std::string problem =
      first_obstacle(environment, obstacle(environment, wanted, setup.device));
  if (asked && !problem.empty()) {
    throw std::invalid_argument(fmt::format("--transport {}: {}", options.transport, problem));
  }
  if (!needed) return chosen;
  chosen.kind = problem.empty() ? wanted : TransportKind::kMpiStaged;
  chosen.why = problem;
  return chosen;
}

std::optional<TransportOptions> transport_options(const GenerateOptions& options,
                                                  const RankSetup& setup, int rank) {
  const GpuTransport& gpus = setup.transport;
  if (!gpus.kind || !gpus.computes_on_gpu(rank)) return std::nullopt;
  const ModelConfig& config = setup.checkpoint->config();
  const auto place_of = [&](int other) {
    const auto found = std::lower_bound(gpus.ranks.begin(), gpus.ranks.end(), other);
    return static_cast<int>(found - gpus.ranks.begin());
  };
  const Topology topology(setup.layout, rank);
  const RankPeers peers = rank_peers(topology);
  const Coordinates at = topology.coordinates();
  TransportOptions transport{
      .kind = *gpus.kind,
      .hidden = {.max_bytes = static_cast<std::size_t>(setup.size.max_rows) *
                              static_cast<std::size_t>(config.hidden_size) * sizeof(float),
                 .num_buffers = setup.step_channel(0).num_buffers},
      .exchange_bytes = stage_exchange_bytes(config, setup.part_of(at), setup.size),
      .stall_timeout_s = options.stall_timeout_s};
  if (gpus.links(rank, peers.steps_from)) transport.upstream = place_of(*peers.steps_from);
  if (gpus.links(rank, peers.steps_to)) transport.downstream = place_of(*peers.steps_to);
  for (int shard = 0; shard < setup.layout.tensor; ++shard) {
    transport.group.push_back(place_of(topology.rank_of({at.data, at.pipeline, shard})));
  }
  return transport;
}

}  // namespace headrace
