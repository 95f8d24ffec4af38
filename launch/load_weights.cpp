#include "launch/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/shared_checkpoint.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double megabytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

// Who reads together: the ranks of a node, or all. Nobody where weights come from no file.
const Communicator* readers(const Environment& environment, const GenerateOptions& options) {
  if (options.load == "own" || options.load_format == "dummy") return nullptr;
  return options.load == "node" ? &environment.node() : &environment.world();
}

std::optional<SharedCheckpoint> share(const Environment& environment,
                                      const GenerateOptions& options, RankSetup& setup) {
  const Communicator* ranks = readers(environment, options);
  if (ranks == nullptr || ranks->size() == 1) return std::nullopt;
  std::vector<std::vector<WeightSource>> wanted;
  SharingOptions sharing{.stall_timeout_s = options.stall_timeout_s, .names = {}};
  for (const std::int64_t rank : ranks->all_gather(environment.rank())) {
    const StagePart part =
        setup.part_of(Topology(setup.layout, static_cast<int>(rank)).coordinates());
    wanted.push_back(all_sources(part_sources(setup.checkpoint->config(), part)));
    sharing.names.push_back(setup.name(static_cast<int>(rank)));
  }
  return std::optional<SharedCheckpoint>(std::in_place, *setup.checkpoint, *ranks, wanted,
                                         std::move(sharing));
}

std::uint64_t sum_over(const Communicator& ranks, std::uint64_t value) {
  const std::vector<std::int64_t> all = ranks.all_gather(static_cast<std::int64_t>(value));
  return static_cast<std::uint64_t>(std::accumulate(all.begin(), all.end(), std::int64_t{0}));
}

}  // namespace

StageWeights load_weights(const Environment& environment, const GenerateOptions& options,
                          RankSetup& setup) {
  const Clock::time_point start = Clock::now();
  const std::uint64_t expected = stage_stored_bytes(*setup.checkpoint, setup.part());
  double next_s = 2.0;
  const LoadProgress progress = [&](std::uint64_t bytes) {
    if (environment.rank() != 0 || seconds_since(start) < next_s) return;
    next_s = seconds_since(start) + 2.0;
    fmt::print(stderr, "loading: {:.0f} of {:.0f} MB, {:.2f} GB/s\n", megabytes(bytes),
               megabytes(expected), megabytes(bytes) / 1e3 / seconds_since(start));
  };
  std::optional<SharedCheckpoint> shared = share(environment, options, setup);
  Checkpoint& checkpoint = shared ? static_cast<Checkpoint&>(*shared) : *setup.checkpoint;
  StageWeights weights = load_stage_weights(checkpoint, setup.part(), *setup.ops,
                                            {setup.quantization, progress, setup.quantized_inputs});

  const std::uint64_t held = sum_over(environment.world(), expected);
  const std::uint64_t read =
      sum_over(environment.world(), shared ? shared->bytes_read() : expected);
  if (environment.rank() == 0) {
    const double seconds = seconds_since(start);
    fmt::print(stderr, "loaded: {:.3f} MB of weights from {:.3f} MB read, {:.2f} s, {:.2f} GB/s\n",
               megabytes(held), megabytes(read), seconds, megabytes(held) / 1e3 / seconds);
  }
  return weights;
}

}  // namespace headrace
