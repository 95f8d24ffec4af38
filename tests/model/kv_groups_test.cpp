#include "model/kv_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "runtime/schedule/scheduler.h"

namespace headrace {
namespace {

// Every `period`-th layer sees everything, the others have the window; 0: all have it.
ModelConfig model_of(int num_layers, int period, int window) {
  ModelConfig config;
  config.num_layers = num_layers;
  config.window = window;
  config.max_position_embeddings = 131072;
  for (int i = 0; i < num_layers; ++i) {
    config.layers.push_back({.windowed = period == 0 || (i + 1) % period != 0});
  }
  return config;
}

std::vector<StagePart> stages_of(int num_layers, int num_stages) {
  std::vector<StagePart> stages;
  for (int s = 0; s < num_stages; ++s) {
    stages.push_back({.begin_layer = num_layers * s / num_stages,
                      .end_layer = num_layers * (s + 1) / num_stages});
  }
  return stages;
}

std::vector<int> pages_of(const KvGroups& groups) {
  std::vector<int> pages;
  for (const KvGroup& group : groups.groups) pages.push_back(group.pages_per_block);
  return pages;
}

TEST(KvGroups, LayersAreOneGroupWhereAllLookEquallyFar) {
  const std::vector<StagePart> whole = stages_of(4, 1);
  EXPECT_EQ(kv_groups(model_of(4, 1, 0), whole, 4096).groups[0].positions_read, 0);
  const KvGroups windowed = kv_groups(model_of(4, 0, 100), whole, 4096);
  EXPECT_EQ(windowed.size(), 1);
  EXPECT_EQ(windowed.groups[0].positions_read, 100 + kAttentionChunk - 1);
  EXPECT_EQ(kv_groups(model_of(4, 2, 100), whole, 4096).size(), 2);
  // A window that no sequence outgrows.
  EXPECT_EQ(kv_groups(model_of(4, 2, 100), whole, 163).size(), 1);
  EXPECT_EQ(kv_groups(model_of(4, 0, 100), whole, 163).groups[0].positions_read, 0);
}

TEST(KvGroups, BlocksOfAllGroupsHaveAboutTheSameBytes) {
  const auto pages = [](int num_layers, int period, int num_stages) {
    return pages_of(
        kv_groups(model_of(num_layers, period, 512), stages_of(num_layers, num_stages), 32768));
  };
  EXPECT_EQ(pages(18, 6, 1), (std::vector<int>{5, 1}));   // Gemma 3 270M
  EXPECT_EQ(pages(26, 6, 1), (std::vector<int>{11, 2}));  // 1B
  EXPECT_EQ(pages(34, 6, 1), (std::vector<int>{11, 2}));  // 4B
  EXPECT_EQ(pages(48, 6, 1), (std::vector<int>{5, 1}));   // 12B
  EXPECT_EQ(pages(62, 6, 1), (std::vector<int>{5, 1}));   // 27B
  EXPECT_EQ(pages(26, 2, 1), (std::vector<int>{1, 1}));   // Gemma 2
  EXPECT_EQ(pages(18, 6, 3), (std::vector<int>{5, 1}));
  EXPECT_EQ(pages(18, 6, 18), (std::vector<int>{1, 1}));  // a layer a stage
}

// Whatever the cut: pages of a block lie inside it, apart from each other, and at cache lines; the
// blocks of two groups never meet, since they are the same runs of bytes.
TEST(KvPlaces, NoByteBelongsToTwoPagesOfTheGroupThatHasTheBlock) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const int num_layers = 2 + static_cast<int>(random() % 40);
    const ModelConfig config = model_of(num_layers, static_cast<int>(random() % 8), 64);
    const std::vector<StagePart> stages = stages_of(num_layers, 1 + static_cast<int>(random() % 6));
    const KvGroups groups = kv_groups(config, stages, 4096);
    const KvSize size{.page_bytes = 64 * (1 + random() % 9), .num_blocks = 3};
    for (const StagePart& stage : stages) {
      const KvPlaces places = kv_places(config, stage, groups, size);
      ASSERT_EQ(places.layers.size(), static_cast<std::size_t>(stage.num_layers()));
      for (int g = 0; g < groups.size(); ++g) {
        const int pages = groups.groups[static_cast<std::size_t>(g)].pages_per_block * 3;
        std::vector<std::size_t> begins;
        for (std::size_t i = 0; i < places.layers.size(); ++i) {
          const KvPlaces::Layer& layer = places.layers[i];
          EXPECT_EQ(layer.group, groups.of(config.layer(stage.begin_layer + static_cast<int>(i))));
          if (layer.group != g) continue;
          for (int page = 0; page < pages; ++page) {
            begins.push_back(layer.offset + layer.page_stride * static_cast<std::size_t>(page));
            if (groups.size() == 1) continue;
            const auto block = static_cast<std::size_t>(page * 3 / pages);
            ASSERT_GE(begins.back(), block * places.block_bytes);
            ASSERT_LE(begins.back() + size.page_bytes, (block + 1) * places.block_bytes);
          }
        }
        std::sort(begins.begin(), begins.end());
        for (std::size_t i = 0; i < begins.size(); ++i) {
          ASSERT_EQ(begins[i] % 64, 0U);
          const std::size_t next = i + 1 < begins.size() ? begins[i + 1] : places.block_bytes * 3;
          ASSERT_LE(begins[i] + size.page_bytes, next) << "round " << round;
        }
      }
    }
  }
}

// Of three blocks the pages of the second lie in its pieces, and no other page touches them.
TEST(KvPlaces, PiecesOfABlockHoldItsPagesAndNoOthers) {
  for (const int period : {1, 2, 5}) {
    const ModelConfig config = model_of(10, period, 64);
    const std::vector<StagePart> whole = stages_of(10, 1);
    const KvGroups groups = kv_groups(config, whole, 4096);
    const KvSize size{.page_bytes = 192, .num_blocks = 3};
    const KvPlaces places = kv_places(config, whole[0], groups, size);
    EXPECT_EQ(places.num_pieces(), groups.size() == 1 ? 10 : 1);
    const auto bytes_in_pieces = [&](std::size_t begin) {
      std::size_t inside = 0;
      for (int i = 0; i < places.num_pieces(); ++i) {
        const KvPlaces::Piece piece = places.piece(i, 1, 2);
        const std::size_t from = std::max(begin, piece.offset);
        const std::size_t to = std::min(begin + size.page_bytes, piece.offset + piece.bytes);
        inside += to > from ? to - from : 0;
      }
      return inside;
    };
    for (const KvPlaces::Layer& layer : places.layers) {
      const int pages = groups.groups[static_cast<std::size_t>(layer.group)].pages_per_block;
      for (int page = 0; page < 3 * pages; ++page) {
        const std::size_t begin = layer.offset + layer.page_stride * static_cast<std::size_t>(page);
        EXPECT_EQ(bytes_in_pieces(begin), page / pages == 1 ? size.page_bytes : 0U);
      }
    }
  }
}

// Bytes that one sequence takes from the cache of a stage with all layers.
std::int64_t bytes_of_sequence(const ModelConfig& config, const KvGroups& groups, int num_tokens) {
  const std::vector<StagePart> whole = stages_of(config.num_layers, 1);
  SchedulerLimits limits;
  limits.kv = groups;
  const KvPlaces places = kv_places(config, whole[0], groups, {.page_bytes = 16384});
  return Scheduler::blocks_for(limits, num_tokens) * static_cast<std::int64_t>(places.block_bytes);
}

TEST(KvGroups, LongSequencesOfAMixedModelTakeAFractionOfWhatTheyTookAsOneGroup) {
  const ModelConfig gemma3_270m = model_of(18, 6, 512);
  const KvGroups two = kv_groups(gemma3_270m, stages_of(18, 1), 32768);
  const auto share = [&](const ModelConfig& config, const KvGroups& groups, int num_tokens) {
    return static_cast<double>(bytes_of_sequence(config, groups, num_tokens)) /
           static_cast<double>(bytes_of_sequence(config, {}, num_tokens));
  };
  EXPECT_LT(share(gemma3_270m, two, 32768), 0.20);
  EXPECT_LT(share(gemma3_270m, two, 4096), 0.42);
  // Within the window nothing is won, and no more than the last block of each group is lost.
  EXPECT_LT(share(gemma3_270m, two, 500), 1.08);
  const ModelConfig gemma2_2b = model_of(26, 2, 4096);
  EXPECT_LT(share(gemma2_2b, kv_groups(gemma2_2b, stages_of(26, 1), 8192), 8192), 0.8);
}

}  // namespace
}  // namespace headrace
