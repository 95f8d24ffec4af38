#include "launch/swap_bench.h"

#include <fmt/format.h>

#include "launch/bench_timing.h"

namespace headrace {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kSequenceTokens = 1024;
constexpr int kNumKept = kSequenceTokens / kBlockTokens;
constexpr int kNumBlocks = 4 * kNumKept;

}  // namespace

std::vector<KernelRate> swap_rates(const ModelConfig& model, const AttentionShape& shape,
                                   Ops& ops) {
  DeviceArena& arena = ops.arena();
  const std::size_t page_bytes = ops.kv_block_bytes(shape, kBlockTokens);
  const std::size_t layer_bytes = page_bytes * std::size_t{kNumBlocks};
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  const BlockPieces cache{
      .data = random_bytes(arena, layer_bytes * num_layers, ops.compute_dtype()),
      .piece_bytes = page_bytes,
      .piece_stride = layer_bytes,
      .num_pieces = model.num_layers,
      .num_blocks = kNumBlocks};
  const auto swap = arena.make_swap_memory(cache, kNumKept);
  std::vector<BlockSwap> blocks;
  blocks.reserve(kNumKept);
  for (int i = 0; i < kNumKept; ++i) blocks.push_back({.block = 3 * i, .swap_block = i});
  const double bytes = static_cast<double>(cache.block_bytes()) * kNumKept;
  const auto timed = [&](const std::string& name, const auto& call) {
    const Timing timing = timing_on(arena, call);
    KernelRate rate;
    rate.part = "swap";
    rate.type = dtype_name(ops.compute_dtype());
    rate.kernel = fmt::format("{} {} blocks", name, kNumKept);
    rate.rows = kSequenceTokens;
    rate.seconds = timing.seconds;
    if (!arena.is_host()) rate.host_seconds = timing.host_seconds;
    rate.gigabytes = 1e-9 * bytes / timing.seconds;
    return rate;
  };
  return {timed("save", [&] { swap->save(blocks); }),
          timed("restore", [&] { swap->restore(blocks); })};
}

}  // namespace headrace
