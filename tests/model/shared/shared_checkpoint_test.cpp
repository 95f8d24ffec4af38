#include "model/shared_checkpoint.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

constexpr TinyLlama kTiny{.num_layers = 3,
                          .hidden_size = 16,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 8,
                          .intermediate_size = 72,
                          .vocab_size = 41,
                          .tied_head = true,
                          .attention_bias = true};

// So small that each tensor takes several rounds.
const SharingOptions kSizes{.round = 200, .band = 60, .tensor = 40};
const SharingOptions kByMessages{.round = 200, .band = 60, .tensor = 40, .messages_only = true};

Communicator everybody() {
  return Communicator::duplicate(MPI_COMM_WORLD);
}

/// A layout over the ranks of this test: data x pipeline x tensor, tensor fastest.
struct Layout {
  int pipeline;
  int tensor;

  StagePart part(int rank, int num_layers) const {
    const int stage = rank / tensor % pipeline;
    return {.begin_layer = num_layers * stage / pipeline,
            .end_layer = num_layers * (stage + 1) / pipeline,
            .embedding = stage == 0,
            .head = stage == pipeline - 1,
            .tensor_rank = rank % tensor,
            .tensor_size = tensor};
  }
};

std::vector<std::vector<WeightSource>> wanted_by_all(const ModelConfig& config,
                                                     const Layout& layout, int num_ranks) {
  std::vector<std::vector<WeightSource>> wanted;
  for (int rank = 0; rank < num_ranks; ++rank) {
    wanted.push_back(all_sources(part_sources(config, layout.part(rank, config.num_layers))));
  }
  return wanted;
}

// Reads a block in pieces of a few rows, and compares each value with the model's.
void expect_block(Checkpoint& checkpoint, const WeightSource& source, int piece) {
  TensorBlock block = source.block;
  const std::int64_t cols = source.cols();
  for (std::int64_t row = source.block.row_begin; row < source.block.row_end; row += piece) {
    block.row_begin = row;
    block.row_end = std::min(row + piece, source.block.row_end);
    std::vector<float> values(static_cast<std::size_t>((block.row_end - row) * cols));
    checkpoint.read_block(source.name, block, values.data());
    std::size_t i = 0;
    for (std::int64_t r = row; r < block.row_end; ++r) {
      for (std::int64_t c = block.col_begin; c < block.col_end; ++c) {
        ASSERT_EQ(values[i++], tiny_value(source.name, r, c)) << source.name << " " << r;
      }
    }
  }
}

std::int64_t sum(const Communicator& ranks, std::uint64_t value) {
  const auto all = ranks.all_gather(static_cast<std::int64_t>(value));
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

TEST(SharedCheckpoint, EveryRankGetsItsBlocksWhateverTheLayout) {
  const Communicator ranks = everybody();
  const int n = ranks.size();
  const TempDirectory directory;  // of this rank alone: they need not even share a file system
  for (const char* type : {"BF16", "F32", "F16"}) {
    write_hugging_face(directory.path(), kTiny, type);
    const auto own = Checkpoint::open(directory.path());
    std::vector<Layout> layouts{{1, 1}, {n, 1}};
    if (n % 2 == 0) layouts.insert(layouts.end(), {{1, 2}, {n / 2, 2}, {2, 1}});
    for (const Layout& layout : layouts) {
      const auto wanted = wanted_by_all(own->config(), layout, n);
      for (const SharingOptions& options : {kSizes, kByMessages}) {
        SharedCheckpoint shared(*own, ranks, wanted, options);
        // Ranks may even take different pieces.
        for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
          expect_block(shared, source, 3 + ranks.rank());
        }
      }
    }
  }
}

TEST(SharedCheckpoint, ReplicasReadEachByteOnce) {
  const Communicator ranks = everybody();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  std::uint64_t small = 0;  // norms and biases, which everybody reads
  std::uint64_t all = 0;
  for (const TensorInfo& info : own->tensors()) {
    all += info.stored_bytes;
    if (info.rows * info.cols < kSizes.tensor) small += info.stored_bytes;
  }
  for (const WeightSource& source : wanted.front()) expect_block(shared, source, 5);
  EXPECT_EQ(sum(ranks, shared.bytes_read()),
            static_cast<std::int64_t>(all + small * static_cast<std::uint64_t>(ranks.size() - 1)));
  if (ranks.size() > 1) {
    EXPECT_LT(shared.bytes_read(), all) << "the work is shared";
  }
}

TEST(SharedCheckpoint, BothEndsOfAPipelineShareATiedTable) {
  const Communicator ranks = everybody();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {ranks.size(), 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
    expect_block(shared, source, 4);
  }
  std::int64_t all = 0;
  for (const TensorInfo& info : own->tensors()) all += static_cast<std::int64_t>(info.stored_bytes);
  EXPECT_EQ(sum(ranks, shared.bytes_read()), all);
}

TEST(SharedCheckpoint, OrdersInWhichRanksWouldWaitForEachOtherAreRefused) {
  const Communicator ranks = everybody();
  if (ranks.size() == 1) GTEST_SKIP() << "nobody to wait for";
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  std::reverse(wanted.back().begin(), wanted.back().end());
  EXPECT_THROW(SharedCheckpoint(*own, ranks, wanted, kSizes), std::logic_error);
}

TEST(SharedCheckpoint, ReadingOutOfOrderIsAProgrammingError) {
  const Communicator ranks = everybody();
  if (ranks.size() == 1) GTEST_SKIP() << "nothing is shared";
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  std::vector<float> out(16);
  EXPECT_THROW(shared.read_block("model.embed_tokens.weight", {1, 2, 0, 16}, out.data()),
               std::logic_error);
}

}  // namespace
}  // namespace headrace
