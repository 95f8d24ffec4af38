#include "model/kv_groups.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace headrace {
namespace {

using GroupCounts = std::array<int, kMaxKvGroups>;  // of layers, or of pages

// Vector loads want pages that begin at a cache line.
constexpr std::size_t kPageAlignment = 64;

GroupCounts layers_of(const ModelConfig& config, const StagePart& part, const KvGroups& groups) {
  GroupCounts counts{};
  for (int i = part.begin_layer; i < part.end_layer; ++i) {
    ++counts[static_cast<std::size_t>(groups.of(config.layer(i)))];
  }
  return counts;
}

// Pages a block for groups of so many layers. The larger group has m pages, from 1 to 4, the
// smaller one as many as fit beside them. Small blocks leave less of a sequence's last one empty,
// so the first m is taken that wastes at most a sixteenth of the smaller group's blocks, else the
// one that wastes least: 1 and 5 for 15 and 3 layers, 2 and 11 for 22 and 4.
GroupCounts pages_per_block(const GroupCounts& layers) {
  const std::size_t large = layers[0] >= layers[1] ? 0 : 1;
  const std::size_t small = 1 - large;
  GroupCounts best{};
  double least = 1.0;
  for (int pages = 1; pages <= 4 && least > 1.0 / 16; ++pages) {
    const int room = pages * layers[large];
    const int beside = room / layers[small];
    const double waste = 1.0 - static_cast<double>(beside * layers[small]) / room;
    if (waste >= least) continue;
    least = waste;
    best[large] = pages;
    best[small] = beside;
  }
  return best;
}

}  // namespace

KvGroups kv_groups(const ModelConfig& config, std::span<const StagePart> stages, int max_context) {
  int num_windowed = 0;
  for (int i = 0; i < config.num_layers; ++i) num_windowed += config.layer(i).windowed ? 1 : 0;
  // A row reads the whole chunk in which its window begins.
  const int positions_read = config.window + kAttentionChunk - 1;
  if (num_windowed == 0 || positions_read >= max_context) return {};
  if (num_windowed == config.num_layers) return {{{.positions_read = positions_read}}};

  KvGroups groups{{{.positions_read = 0}, {.positions_read = positions_read}}};
  GroupCounts most{};
  for (const StagePart& stage : stages) {
    const GroupCounts counts = layers_of(config, stage, groups);
    for (std::size_t g = 0; g < most.size(); ++g) most[g] = std::max(most[g], counts[g]);
  }
  const GroupCounts pages = pages_per_block(most);
  for (std::size_t g = 0; g < pages.size(); ++g) groups.groups[g].pages_per_block = pages[g];
  return groups;
}

// With one group, a layer's pages follow each other. With two, the pages of all layers of a block
// lie together, since the block's bytes may be the other group's next time; the block is as large
// as the group needs that has more of this stage, rounded so that every group's pages divide it.
KvPlaces kv_places(const ModelConfig& config, const StagePart& part, const KvGroups& groups,
                   const KvSize& size) {
  KvPlaces places;
  places.layers.resize(static_cast<std::size_t>(part.num_layers()));
  if (groups.size() == 1) {
    places.block_bytes = size.page_bytes * places.layers.size();
    std::size_t offset = 0;
    for (KvPlaces::Layer& layer : places.layers) {
      layer = {.group = 0, .offset = offset, .page_stride = size.page_bytes};
      offset += size.page_bytes * static_cast<std::size_t>(size.num_blocks);
    }
    return places;
  }
  places.by_layer = false;
  const GroupCounts counts = layers_of(config, part, groups);
  std::size_t unit = 1;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const auto pages = static_cast<std::size_t>(groups.groups[g].pages_per_block);
    places.block_bytes =
        std::max(places.block_bytes, pages * static_cast<std::size_t>(counts[g]) * size.page_bytes);
    unit = std::lcm(unit, pages);
  }
  unit *= kPageAlignment;
  places.block_bytes = (places.block_bytes + unit - 1) / unit * unit;
  std::array<std::size_t, kMaxKvGroups> offsets{};
  for (std::size_t i = 0; i < places.layers.size(); ++i) {
    const int group = groups.of(config.layer(part.begin_layer + static_cast<int>(i)));
    const auto g = static_cast<std::size_t>(group);
    places.layers[i] = {.group = group,
                        .offset = offsets[g],
                        .page_stride = places.block_bytes /
                                       static_cast<std::size_t>(groups.groups[g].pages_per_block)};
    offsets[g] += size.page_bytes;
  }
  return places;
}

BlockPieces KvPlaces::pieces(std::byte* data, int num_blocks) const {
  const int count = num_pieces();
  return {.data = data,
          .piece_bytes = piece(0, 0, 1).bytes,
          .piece_stride = count > 1 ? layers[1].offset - layers[0].offset : 0,
          .num_pieces = count,
          .num_blocks = num_blocks};
}

KvPlaces::Piece KvPlaces::piece(int index, int begin_block, int end_block) const {
  const Layer& layer = layers[static_cast<std::size_t>(index)];
  const std::size_t stride = by_layer ? layer.page_stride : block_bytes;
  const std::size_t first = by_layer ? layer.offset : 0;
  return {.offset = first + static_cast<std::size_t>(begin_block) * stride,
          .bytes = static_cast<std::size_t>(end_block - begin_block) * stride};
}

}  // namespace headrace
