// Layers that look equally far back need the keys and values of the same positions, so they share
// the blocks of a sequence: a KV group (vLLM: KV cache group). A group of layers with a window lets
// go of the blocks behind it, one whose layers see everything keeps them all.
//
// All groups take their blocks from one pool, and every block has the same bytes in a stage,
// whichever group has it. So memory goes where the sequences at hand need it: one of n positions
// takes the sum over groups of ceil(held / (page tokens * pages)) blocks, held being n or what the
// window leaves of it, and as many sequences fit as that sum goes into the pool, whatever n is. A
// pool for each group could be right for one n only. Gemma 3 270M has 3 layers that see everything
// and 15 with a window of 512: divided for sequences of 32,768 positions, 86 % of the memory would
// be the 3 layers'; for those of 600 it would have to be 17 %.
//
// For blocks of the same bytes, a group with fewer layers has more positions in each. A page is
// what one layer keeps of `page tokens` (--block-size) positions, and what the operators see as a
// block. A block holds pages_per_block pages of every layer of its group: 5 for the 3 layers above
// and 1 for the 15, which is 15 pages either way.
#pragma once

#include <span>
#include <vector>

#include "kernels/swap_memory.h"
#include "model/config.h"
#include "model/stage_part.h"

namespace headrace {

/// Layers that see everything, and layers with the window: a model has no other kinds.
inline constexpr int kMaxKvGroups = 2;

struct KvGroup {
  /// Positions from a row backwards, its own included, that attention may read; 0: all.
  int positions_read = 0;
  int pages_per_block = 1;
};

/// One group, or two: the layers that see everything, then those with the window.
struct KvGroups {
  std::vector<KvGroup> groups{KvGroup{}};

  int size() const { return static_cast<int>(groups.size()); }
  /// The group of a layer.
  int of(const LayerTraits& layer) const { return size() > 1 && layer.windowed ? 1 : 0; }
};

/// The groups of a model that is cut into these stages, for sequences of up to max_context
/// positions. A window that no sequence outgrows makes no group of its own.
KvGroups kv_groups(const ModelConfig& config, std::span<const StagePart> stages, int max_context);

/// Where a stage's layers lie in its KV cache.
struct KvPlaces {
  std::size_t block_bytes = 0;  // of one block over all layers of the stage
  struct Layer {
    int group = 0;
    std::size_t offset = 0;       // of its pages: in the cache, for a pool of num_blocks
    std::size_t page_stride = 0;  // from one page of the group to the next
  };
  std::vector<Layer> layers;
  bool by_layer = true;  // a layer's pages follow each other; else those of a block do

  /// Blocks [begin, end) lie in so many pieces, each of this many bytes from this place on.
  struct Piece {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  /// All blocks in a cache of the pool's size at `data`.
  BlockPieces pieces(std::byte* data, int num_blocks) const;
  int num_pieces() const { return by_layer ? static_cast<int>(layers.size()) : 1; }
  Piece piece(int index, int begin_block, int end_block) const;
};

/// page_bytes: of one layer. num_blocks: of the pool.
struct KvSize {
  std::size_t page_bytes = 0;
  int num_blocks = 0;
};
KvPlaces kv_places(const ModelConfig& config, const StagePart& part, const KvGroups& groups,
                   const KvSize& size);

}  // namespace headrace
